"""Names that mean nothing, and imports that nobody uses, in Python: what pyflakes finds without
running a line. A name that is looked up on one path alone, such as that of an error, fails a test
only where a test takes this path.

An import that is there for what it does (a module that must be loaded in front of a fork, cases
that enter themselves in a list) says so in a comment on its line. `from x import *` is left alone:
what it brings is known when it runs.

usage: build/venv/bin/python tools/names.py FILE...      prints FILE:LINE: what it is
"""
import ast
import sys

from pyflakes import checker, messages

STARS = (messages.ImportStarUsed, messages.ImportStarUsage)


def findings(path):
    with open(path) as f:
        text = f.read()
    lines = text.split("\n")
    for found in sorted(checker.Checker(ast.parse(text, path), path).messages, key=lambda m: m.lineno):
        is_told = isinstance(found, messages.UnusedImport) and "#" in lines[found.lineno - 1]
        if not is_told and not isinstance(found, STARS):
            yield found.lineno, found.message % found.message_args


def main():
    for path in sys.argv[1:]:
        for line, what in findings(path):
            print(f"{path}:{line}: {what}")


if __name__ == "__main__":
    main()
