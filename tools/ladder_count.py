#!/usr/bin/env python
"""Counts a file of pairs by rung and family: rows, distinct answers (plan and code), distinct
structures. usage: ladder_count.py FILE.jsonl[.gz]"""
import collections
import gzip
import json
import sys


def rows(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        for line in f:
            yield json.loads(line)


def main(path):
    groups = collections.defaultdict(lambda: [0, set(), set()])
    for r in rows(path):
        family = r["structure"].split(":", 1)[0]
        for key in ("all", r.get("rung", "")), (r.get("rung", ""), ""), (r.get("rung", ""), family):
            key = ("all", "") if key[0] == "all" else key
            groups[key][0] += 1
            groups[key][1].add(r["completion"])
            groups[key][2].add(r["structure"])
    print("%-5s %-18s %8s %8s %10s" % ("rung", "family", "pairs", "answers", "structures"))
    for (rung, family), (count, answers, structures) in sorted(groups.items()):
        print("%-5s %-18s %8d %8d %10d" % (rung, family or "all", count, len(answers), len(structures)))


main(sys.argv[1])
