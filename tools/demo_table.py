"""A small table of evaluations, for people and (tables.json) for the report.

    demo_table.py DIR NAME...      reads DIR/NAME.json as `hone eval --json` prints it
"""
import json
import os
import sys

HEAD = ["model", "greedy pass@1", "tasks", "speedup of genuine (geomean)", "difference, 95 % interval over structures"]


def row(directory, name):
    """-> the cells, and what a mid-end's kernels gained over those that it was given, or None"""
    with open(f"{directory}/{name}.json") as f:
        found = json.load(f)
    compared, difference = found.get("compare"), ""
    if compared:
        to = os.path.basename(compared["to"]).removesuffix(".jsonl")
        difference = f"{compared['difference']:+.3f} [{compared['low']:+.3f}, {compared['high']:+.3f}] to {to}"
    return [name, found["pass"]["pass@1"], found["tasks"], found["speedup_geomean"], difference], found.get("midend")


def main(directory, *names):
    rows = [row(directory, name) for name in names]
    width = max(20, *map(len, names))
    print(f"{'model':{width}} greedy pass@1  tasks    speedup  difference, 95 % interval over structures")
    for (name, rate, tasks, speedup, difference), _ in rows:
        print(f"{name:{width}} {rate:13.3f} {tasks:6} {speedup:10.3f}  {difference}".rstrip())
    for (name, *_), gain in rows:
        if gain:
            print(f"{name}: the kernels given are x{gain['speedup_geomean']:.3f} as fast, "
                  f"[{gain['low']:.3f}, {gain['high']:.3f}]; what is not faster stays as it was")
    with open(f"{directory}/tables.json", "w") as f:
        json.dump([{"title": "Held-out tasks", "columns": HEAD, "rows": [cells for cells, _ in rows]}], f)


main(*sys.argv[1:])
