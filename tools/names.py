"""Names that mean nothing, and imports that nobody uses, in Python: what pyflakes finds without
running a line. A name that is looked up on one path alone, such as that of an error, fails a test
only where a test takes this path.

An import that is there for what it does (a module that must be loaded in front of a fork, cases
that enter themselves in a list) says so in a comment on its line. `from x import *` is left alone:
what it brings is known when it runs.

What one file takes from another of its folder (`oracle_state.WHOLE`) has to be there as well: an
exception in a worker may look like one of the code that it runs, so that nobody hears of it.

usage: build/venv/bin/python tools/names.py FILE...      prints FILE:LINE: what it is
"""
import ast
import os
import sys

from pyflakes import checker, messages

STARS = (messages.ImportStarUsed, messages.ImportStarUsage)


def names_of(tree):
    """What a module has: all that is bound outside of its functions and classes, and globals that
    functions set. None where it takes all of another module's names."""
    found, waiting = set(), list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(a.name == "*" for a in node.names):
                return None
            found |= {a.asname or a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += ast.iter_child_nodes(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found |= set(node.names)
    return found


def foreign(path, tree, trees):
    """What a file takes from files of its folder, by their own names: (line, module, name, whether
    it sets it). Names that mean something else somewhere in the file are left alone."""
    folder = os.path.dirname(path)
    imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names if not a.asname}
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = node.value.id
            if module in imported - own and os.path.join(folder, module + ".py") in trees:
                yield node.lineno, module, node.attr, isinstance(node.ctx, ast.Store)


def strangers(trees):
    """(file, line, what it is) of names that files take from others that lack them."""
    taken = [(path, *found) for path, tree in trees.items() for found in foreign(path, tree, trees)]
    has = {path: names_of(tree) for path, tree in trees.items()}
    for path, _, module, name, is_set in taken:
        there = has[os.path.join(os.path.dirname(path), module + ".py")]
        if is_set and there is not None:
            there.add(name)
    for path, line, module, name, _ in taken:
        there = has[os.path.join(os.path.dirname(path), module + ".py")]
        if there is not None and name not in there and not name.startswith("__"):
            yield path, line, f"module '{module}' has no '{name}'"


def findings(path, tree, lines):
    for found in sorted(checker.Checker(tree, path).messages, key=lambda m: m.lineno):
        is_told = isinstance(found, messages.UnusedImport) and "#" in lines[found.lineno - 1]
        if not is_told and not isinstance(found, STARS):
            yield found.lineno, found.message % found.message_args


def main():
    texts = {path: open(path).read() for path in sys.argv[1:]}
    trees = {path: ast.parse(text, path) for path, text in texts.items()}
    for path, tree in trees.items():
        for line, what in findings(path, tree, texts[path].split("\n")):
            print(f"{path}:{line}: {what}")
    for path, line, what in strangers(trees):
        print(f"{path}:{line}: {what}")


if __name__ == "__main__":
    main()
