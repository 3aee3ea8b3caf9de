"""Two builds of bench/verify/verdicts.c beside each other: verdicts a second, and processor time a
verdict.

usage: build/venv/bin/python bench/verify/in_turns.py OLD NEW [--threads 2] [--rounds 6]
           [--compiled 10] [--fresh 5]

Both programs run all the time, each with its own warm processes, and are asked in turn, a few
candidates at a time, so that what else happens on the machine happens to both. A round asks each
for kernels that were compiled before and for new ones; every second round the other program comes
first. Printed are each round's figures, and at the end the ratios NEW / OLD of verdicts a second
and OLD / NEW of processor time: over all rounds, and the rounds' least, middle and largest.
"""
import argparse
import re
import statistics
import subprocess

LINE = re.compile(r"(compiled|new) kernels +([\d.]+) verdicts/s.*?, ([\d.]+) ms of processor time each")


class Program:
    """One build, started and ready."""

    def __init__(self, path, threads):
        self.process = subprocess.Popen([path, str(threads), "turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.process.stdout.readline()      # its start
        self.taken = {"compiled": [], "new": []}      # (seconds on the clock, seconds of processors, verdicts)

    def ask(self, kind, count):
        print(kind, count, file=self.process.stdin, flush=True)
        found = None
        while found is None:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("in_turns: a program ended")
            found = LINE.match(line)
        rate, cpu_ms = float(found[2]), float(found[3])
        self.taken[kind].append((count / rate, count * cpu_ms * 1e-3, count))
        return rate, cpu_ms


def ratios(name, old, new):
    """How much of OLD's speed NEW has, from (a quantity, verdicts) of each round."""
    each = sorted(a / b for a, b in zip(old, new))
    print(f"  {name:<24} {sum(old) / sum(new):.2f}x over all, rounds {each[0]:.2f}x to {each[-1]:.2f}x, "
          f"middle {statistics.median(each):.2f}x")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("old")
    a.add_argument("new")
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--rounds", type=int, default=6)
    a.add_argument("--compiled", type=int, default=10)
    a.add_argument("--fresh", type=int, default=5)
    o = a.parse_args()
    programs = [Program(path, o.threads) for path in (o.old, o.new)]
    for kind, count in (("compiled", o.compiled), ("new", o.fresh)):
        if not count:
            continue
        for i in range(o.rounds):
            found = {}
            for p in (0, 1) if i % 2 == 0 else (1, 0):
                found[p] = programs[p].ask(kind, count)
            print(f"{kind:<9} round {i + 1}: verdicts/s {found[0][0]:.1f} and {found[1][0]:.1f}, "
                  f"ms of processor time {found[0][1]:.1f} and {found[1][1]:.1f}", flush=True)
        old, new = (p.taken[kind] for p in programs)
        ratios("verdicts a second", [t[0] for t in old], [t[0] for t in new])
        ratios("processor time", [t[1] for t in old], [t[1] for t in new])


if __name__ == "__main__":
    main()
