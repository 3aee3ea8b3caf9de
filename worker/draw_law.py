"""draw_law: what a draw of random numbers draws, in words that are the same for the reference's and
a candidate's: the distribution with its numbers, the seed that forward itself set in front of it,
and whether it is drawn on the host or on the device. On a GPU two draws that differ in one of these
are different numbers."""
import torch


def distribution(func, args, kwargs):
    """randn, normal(0, 1) and empty().normal_() are one."""
    name = func._schema.name.split("::")[-1].rstrip("_").removesuffix("_like")
    given = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    given.update(zip([a.name for a in func._schema.arguments], args))
    given.update(kwargs)
    if name in ("randn", "normal"):
        numbers = [given.get("mean", 0.0), given.get("std", 1.0)]
        return words("normal", [0.0, 1.0] if name == "randn" else numbers)
    if name in ("rand", "uniform"):
        return words("uniform", [given.get("from", 0.0), given.get("to", 1.0)])
    if name in ("randint", "random"):
        low, high = given.get("low", given.get("from", 0)), given.get("high", given.get("to"))
        return words("whole", [low, high])
    return words(name, [v for k, v in given.items() if k not in ("self", "size") and isinstance(v, (int, float))
                        and not isinstance(v, bool)])


def words(name, numbers):
    return name + "(" + ", ".join("a tensor" if isinstance(n, torch.Tensor) else "any" if n is None else f"{n:g}"
                                  for n in numbers) + ")"


def seed_of(generator):
    """[seed, whether nothing was drawn since it was set]."""
    seed = generator.initial_seed()
    return [seed, torch.equal(generator.get_state(), torch.Generator().manual_seed(seed).get_state())]
