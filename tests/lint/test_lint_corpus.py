#!/usr/bin/env python
"""The linter against Python's own parser over the sources that are installed anyway (torch, triton,
the standard library), and over every known-good candidate of this repository: what Python parses is
never a syntax error to lint, what Python refuses is one; honest candidates get no error at all."""
import ast
import glob
import json
import os
import subprocess
import sys
import sysconfig
import warnings

FILES = 300


def lint(paths):
    program = os.environ.get("BUILD", "build/release") + "/tests/lint/test_lint"
    out = subprocess.run([program, "--files"], input="\n".join(paths).encode(), stdout=subprocess.PIPE,
                         check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def is_python(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(open(path, "rb").read())
            return True
        except (SyntaxError, ValueError):
            return False


def codes(row):
    return {f["code"] for f in row["findings"]}


def main():
    # What Python takes hone's scanner has to take, and the other way round.
    roots = [sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]]
    paths = sorted(p for r in roots for p in glob.glob(r + "/**/*.py", recursive=True)
                   if 0 < os.path.getsize(p) < 200_000)
    if "--full" not in sys.argv:
        paths = paths[::max(1, len(paths) // FILES)]
    rejected = taken = 0
    for row in lint(paths):
        if row["rc"]:
            print("# %s: not examined" % row["path"])
            rejected += 1
        elif is_python(row["path"]):
            if "syntax-error" in codes(row):
                print("# %s: %s" % (row["path"], row["findings"][0]))
                rejected += 1
        elif not codes(row) & {"syntax-error", "syntax-doubt"}:
            taken += 1
    # Honest candidates have no finding at all.
    good = sorted(p for p in glob.glob("tests/known_good/**/*.py", recursive=True)
                  if "class ModelNew" in open(p).read())
    honest = [r for r in lint(good) if r["errors"]] if good else []
    for row in honest:
        print("# %s: %s" % (row["path"], row["findings"][0]))
    print("1..3")
    print("%sok 1 - nothing that Python parses is a syntax error (%d files)"
          % ("not " if rejected or len(paths) < 100 else "", len(paths)))
    print("%sok 2 - what Python refuses is refused or doubted" % ("not " if taken else ""))
    if good:
        print("%sok 3 - no error in %d known-good candidates" % ("not " if honest else "", len(good)))
    else:
        print("ok 3 - no error in known-good files # SKIP tests/known_good is empty")


main()
