"""What a reference's result on one trial can tell: whether it is finite where it has to be, whether
its own error leaves room to tell right from wrong, and how far rounding alone moves it.

The oracle sends a trial only where the first two hold; how far rounding moves a row goes with it,
for the comparison (src/verify/compare.c)."""
import torch

from oracle_pack import readable
from oracle_reference import forward_double

# How far the reference's own error may be from fp64 where a hidden trial is to count
# (src/verify/compare.c, `usable`).
USABLE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
FINITE_SHARE = 1 / 4     # of the finite elements that an output has on the task's own inputs
NOISE_RUNS = 2
MOSTLY_ZERO = 0.6


# ---- finite, and near fp64 ----

def unlike_numbers(t):
    """Which of -inf, +inf and NaN a tensor holds, and its share of finite elements."""
    t = readable(t)
    if not t.is_floating_point() or torch.isfinite(t).all():
        return set(), 1.0
    kinds = {"-inf": torch.isneginf(t), "+inf": torch.isposinf(t), "nan": torch.isnan(t)}
    return {kind for kind, at in kinds.items() if at.any()}, torch.isfinite(t).double().mean().item()


def is_finite(result, usual=(), share=FINITE_SHARE):
    """Whether the reference's result says what a candidate's has to be. A task may itself ask for
    what is no finite number (scores of -inf behind a causal mask): the kinds that its own inputs
    give, `usual`, are as good as numbers where fp64 has the same kind at the same place and enough
    finite elements are left. All else overflowed."""
    exact = result["exact"] or result["plain"]
    for i, (f, r) in enumerate(zip(result["plain"], exact)):
        f, r = readable(f), readable(r)
        if not f.is_floating_point():
            continue
        (found, left), (of_twin, _) = unlike_numbers(f), unlike_numbers(r)
        if not found and not of_twin:
            continue
        allowed, finite = usual[i] if i < len(usual) else (set(), 1.0)
        is_same = all(torch.equal(at(f), at(r)) for at in (torch.isneginf, torch.isposinf, torch.isnan))
        if not is_same or not found <= allowed or left < share * finite or left == 0:
            return False
    return True


def is_exact(result):
    """Whether the reference's own error leaves room to tell right from wrong, and no cast to whole
    numbers loses what it casts."""
    if not result["fits"]:
        return False
    for f, r in zip(result["plain"], result["exact"] or []):
        if f.is_floating_point() and f.numel():
            r = readable(r)
            usable, is_number = USABLE.get(f.dtype, 1.0), torch.isfinite(r)
            f, r = f.double()[is_number], r[is_number]
            error = ((f - r).abs() / (r.abs() + r.abs().mean())).nan_to_num(0.0).max().item() if r.numel() else 0.0
            if error > usable:
                return False
        elif not f.is_floating_point() and not torch.equal(f, r.to(f.dtype)):
            return False
    return True


# ---- rounding ----

def vanishes(r):
    """Whether an output is zero throughout, or mostly: what is left above a bound (x - threshold)
    may be as small as the rounding of what it was made of."""
    return r.is_floating_point() and r.numel() > 0 and (r == 0).double().mean().item() > MOSTLY_ZERO


def noise_of(model, call, draws, exact, seed):
    """For each output of the reference in fp64 how far half a unit in the last place of each input,
    up or down, moves it: the most of each row, in NOISE_RUNS runs. What rounding leaves of a row of
    equal elements behind a division by nearly nothing, or of a sum of thousands behind an
    exponential, is of this size, whoever computes it."""
    generator = torch.Generator().manual_seed(seed ^ 0x6E6F6973)

    def moved(t):
        if not t.is_floating_point():
            return t.clone()
        sign = torch.randint(0, 2, t.shape, generator=generator) * 2 - 1
        return t.double() * (1 + sign * (torch.finfo(t.dtype).eps / 2))

    noise = [torch.zeros(r.reshape(-1, r.shape[-1]).shape[0] if r.dim() and r.numel() else 0, dtype=torch.float64)
             for r in exact]
    for _ in range(NOISE_RUNS):
        found = forward_double(model, call.map(moved), draws)
        if found is None or any(f.shape != r.shape for f, r in zip(found[0], exact)):
            return None
        for n, f, r in zip(noise, found[0], exact):
            if n.numel() and r.is_floating_point():
                distance = (f.double() - r.double()).abs().nan_to_num(0.0, 0.0, 0.0)
                torch.maximum(n, distance.reshape(n.numel(), -1).amax(1), out=n)
    return noise
