"""Functions that say nothing of their steps: those of 25 lines and more without a comment of its
own line inside. A step's comment says what the next lines do and why, as a heading does.

usage: build/venv/bin/python tools/steps.py FILE...      names them, in C, CUDA and Python
"""
import ast
import re
import sys

LINES = 25
BEGINS = re.compile(r"\{$|[A-Za-z_].*\) *\{ *$")     # a body's first line: functions stand at the margin
TELLS = re.compile(r"\s*(/\*|//)")


def silent_c(lines):
    """Numbers of the lines at which such bodies begin."""
    begin, tells = 0, False
    for i, line in enumerate(lines, 1):
        if BEGINS.match(line):
            begin, tells = i, False
        elif begin and TELLS.match(line):
            tells = True
        elif line.startswith("}"):
            if begin and not tells and i - begin + 1 >= LINES:
                yield begin
            begin = 0


def silent_python(lines):
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno - node.lineno + 1 >= LINES:
            if not any(line.lstrip().startswith("#") for line in lines[node.lineno:node.end_lineno]):
                yield node.lineno


def main():
    for path in sys.argv[1:]:
        with open(path) as f:
            lines = f.read().split("\n")
        for number in sorted(silent_python(lines) if path.endswith(".py") else silent_c(lines)):
            print(f"{path}:{number}")


if __name__ == "__main__":
    main()
