"""Collects the answers to KernelBench's tasks that a repository publishes, with the tasks that it
has of that benchmark, into the form that grade_list reads. Nothing of it is executed.

usage: build/venv/bin/python bench/verify/published_runs.py GIT REVISION PATTERN OUT >>LIST

GIT: the repository (a work tree or a bare folder). PATTERN: a regular expression over the paths of
answers, with the groups `level` and `problem`. OUT: a folder; each answer gets one below it, named
after its path, with task.py and candidate.py. LIST: one line an answer. Files that define no
ModelNew or never name triton are left out, and of equal ones the first stays.

    build/venv/bin/python bench/verify/published_runs.py KernelBench HEAD \\
        'runs/.*triton.*/level_(?P<level>\\d)_problem_(?P<problem>\\d+)_sample_0_kernel\\.py'
        /tmp/runs >list
    build/release/bench/verify/grade_list 2 7 <list >verdicts"""
import json, os, re, subprocess, sys

TASK = re.compile(r"KernelBench/level(?P<level>\d)/(?P<problem>\d+)_.*\.py")


def git(folder, *words):
    said = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True).stdout
    return said.decode("utf8", "replace")


def numbers(match):
    return int(match["level"]), int(match["problem"])


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    folder, revision, pattern, out = sys.argv[1:]
    paths = git(folder, "ls-tree", "-r", "-z", "--name-only", revision).split("\0")
    tasks = {numbers(m): path for path in paths if (m := TASK.fullmatch(path))}
    seen = set()
    for path in paths:
        match = re.fullmatch(pattern, path)
        if not match or numbers(match) not in tasks:
            continue
        candidate = git(folder, "show", f"{revision}:{path}")
        if candidate in seen or "class ModelNew" not in candidate or "triton" not in candidate:
            continue
        seen.add(candidate)
        name = re.sub(r"\W+", "_", path.removesuffix(".py"))
        place = os.path.abspath(os.path.join(out, name))
        os.makedirs(place, exist_ok=True)
        files = {"task": git(folder, "show", f"{revision}:{tasks[numbers(match)]}"), "candidate": candidate}
        for what, text in files.items():
            with open(os.path.join(place, f"{what}.py"), "w") as f:
                f.write(text)
        print(json.dumps({"id": name, **{what: os.path.join(place, f"{what}.py") for what in files}}))


main()
