"""The tables of bench/cost/cost_tasks.py, cost_holdout.py, cost_waits.py and cost_traps.py say what
bench/cost/cost_h200.py needs, and no task is in two."""
import sys

sys.dont_write_bytecode = True
sys.path += ["tests", "bench/cost"]
import torch
import cost_holdout
import cost_tasks
import cost_traps
import cost_waits
from command import check, done


def is_bound(task, param, value):
    """A tensor of the task by its name, or a number; a constexpr is never a tensor."""
    if isinstance(value, str):
        return (value in task.tensors) != param.is_constexpr   # a constexpr's word is no tensor
    return isinstance(value, (int, float))


def launches_of(task):
    return [(f"{task.name}/{label}", one) for label, launches in task.variants.items() for one in launches]


tables = {"cost_tasks": cost_tasks.make_tasks(), "cost_holdout": cost_holdout.make_tasks(),
          "cost_waits": cost_waits.make_tasks(), "cost_traps": cost_traps.make_tasks()}
for module, tasks in tables.items():
    every = [(task, name, one) for task in tasks.values() for name, one in launches_of(task)]
    bad = [f"{name}: {p.name} = {one.args[p.name]!r}" for task, name, one in every
           for p in one.kernel.params if not is_bound(task, p, one.args[p.name])]
    check(f"{module}: every argument is a tensor of its task or a number", not bad, bad[:8])
    bad = [f"{name}: {one.grid}" for _, name, one in every
           if len(one.grid) != 3 or min(one.grid) < 1 or not all(isinstance(g, int) for g in one.grid)]
    check(f"{module}: every grid is three whole numbers", not bad, bad[:8])
    most, variants = {"cost_waits": (7, 2), "cost_traps": (11, 2)}.get(module, (12, 6))
    few = [name for name, task in tasks.items() if len(task.variants) < variants]
    check(f"{module}: at least {most} tasks of {variants} variants", len(tasks) >= most and not few, few)
check("no task is in two", len({name for tasks in tables.values() for name in tasks}) == sum(map(len, tables.values())))

several, single = (cost_tasks.Task("several", {}, lambda t: {"a": t, "b": -t}, 0.0, {}),
                   cost_tasks.Task("single", {}, abs, 0.0, {}))
check("a reference gives several outputs by name, or the one that is called o",
      several.reference(1) == {"a": 1, "b": -1} and single.reference(-1) == {"o": 1})
uniform, narrow = (cost_tasks.fill("v", ((100,), torch.float32, "uniform"), 1),
                   cost_tasks.fill("w", cost_tasks.below(3, 100, dtype=torch.int8), 1))
check("tensors are filled as the table says",
      0 <= uniform.min() and uniform.max() < 1 and narrow.dtype == torch.int8 and set(narrow.tolist()) == {0, 1, 2})
done()
