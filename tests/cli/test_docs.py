"""The examples of README.md and docs/ run as they stand.  timeout: 900

A fenced block marked ```sh with the line `<!-- test -->` right above its fence is run by bash -e in
a scratch folder; blocks of one file share a folder, in order, because later ones go on with what
earlier ones made. hone is the first on PATH; the folders that examples name (recipes, tasks, docs)
are links into the tree. The extractor itself is tried on texts of its own first."""
import glob, os, re, shutil, subprocess, sys

sys.path.append("tests")
from command import build, check, done

root, SECONDS = os.getcwd(), 300


def blocks(text):
    """(line of the fence, body) of each marked block; an error text instead of a body for a mark
    that marks nothing."""
    lines, found, i = text.split("\n"), [], 0
    while i < len(lines):
        opened = re.match(r"( *)(`{3,}|~{3,}) *([^`\s]*)[^`]*$", lines[i])
        marked = i > 0 and re.fullmatch(r"\s*<!--\s*test\s*-->\s*", lines[i - 1])
        if not opened:
            if marked:
                found.append((i, None, "the mark stands above no fence"))
            i += 1
            continue
        # A fence ends at one of its own kind that is at least as long; a block loses the fence's
        # indentation.
        indent, fence, language = opened.groups()
        begin, i = i, i + 1
        while i < len(lines) and not re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", lines[i]):
            i += 1
        if i == len(lines):
            found.append((begin + 1, None, "the fence is never closed"))
        elif marked and language not in ("sh", "bash"):
            found.append((begin + 1, None, f'language "{language}": only sh can be run'))
        elif marked:
            found.append((begin + 1, "\n".join(l[len(indent):] if l.startswith(indent) else l
                                               for l in lines[begin + 1:i]) + "\n", None))
        i += 1
    return found


def selftest():
    mark, fence = "<!-- test -->", "```"
    one = blocks(f"a\n\n{mark}\n{fence}sh\necho 1\n\necho 2\n{fence}\n")
    check("a marked block is found, with its line", one == [(4, "echo 1\n\necho 2\n", None)], one)
    check("without a mark there is none",
          blocks(f"{fence}sh\nfalse\n{fence}\n{mark.replace('test', 'no')}\n{fence}sh\nfalse\n{fence}\n") == [])
    check("a mark inside a block is text", blocks(f"{fence}\n{mark}\n{fence}\n\n{fence}sh\nfalse\n{fence}\n") == [])
    check("a longer fence holds a shorter one",
          blocks(f"{mark}\n````sh\ncat <<E\n{fence}\nE\n````\n")[0][1] == f"cat <<E\n{fence}\nE\n")
    check("indented blocks lose their indent",
          blocks(f"1. x\n   {mark}\n   {fence}sh\n   a\n     b\n   {fence}\n")[0][1] == "a\n  b\n")
    bad = [b[2] for t in (f"{mark}\ntext\n", f"{mark}\n{fence}c\nx\n{fence}\n", f"{mark}\n{fence}sh\nx\n")
           for b in blocks(t)]
    check("marks that mark nothing are errors", len(bad) == 3 and all(bad), bad)


def run_block(body, folder):
    env = {"PATH": f"{root}/{build}:/usr/local/bin:/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8",
           "TMPDIR": folder + "/tmp"}
    try:
        p = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
        return p.returncode, p.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        return "timeout", (e.stdout or b"").decode(errors="replace")


def operators():
    """docs/tasks.md names the operators of the table, all and no other."""
    table = open("src/task/task_ops.c").read()
    rows = set(re.findall(r"\n\t(?:[UB]\(|R\(OP_\w+, |\{\")(\w+)", table[table.index("struct op_def OPS"):]))
    text = open("docs/tasks.md").read()
    begin = text.index("Names, as `--operators`")
    named = set(re.findall(r"`([a-z0-9_]+)`",
                           text[begin:text.index("A drawn graph", begin)].replace("- two, or `where` with three", "")))
    check("docs/tasks.md names every operator and no other", len(rows) > 60 and rows == named, rows ^ named)


def reasons():
    """The table of docs/verifier.md has every reason that the verifier's steps give: those written
    where a verdict is settled, and the tables of what a tracer's and a runner's faults mean."""
    text = "".join(open(path).read() for path in sorted(glob.glob("src/verify/*.c")))
    given = set(re.findall(r'STAGE_\w+,\s*"([a-z0-9-]+)"', text))
    given |= set(re.findall(r'attempt_reason\(\w+, "([a-z0-9-]+)"\)', text))
    tracer = re.search(r"FAULT_CODES\[\] = \{(.*?)\};", text, re.S).group(1)
    given |= set(re.findall(r'"([a-z-]+)"', tracer))
    runner = re.search(r"FAULTS\[\] = \{(.*?)\n\};", text, re.S).group(1)
    given |= {other or code for code, other in re.findall(r'\{"([a-z-]+)", (?:NULL|"([a-z-]+)")', runner)}
    page = open("docs/verifier.md").read()
    begin = page.index("| stage | class/reason | when |")
    named = set()
    for row in page[begin:page.index("\n\n", begin)].split("\n"):
        named |= set(re.findall(r"[a-z][a-z0-9-]+", row.split("|")[2]))
    check("docs/verifier.md names every reason", len(given) > 50 and given <= named, given - named)


def main():
    selftest()
    operators()
    reasons()
    for path in ["README.md", *sorted(glob.glob("docs/**/*.md", recursive=True))]:
        found = blocks(open(path).read()) if os.path.exists(path) else []
        folder, broken = f"{root}/{build}/ref/docs/{path.replace('/', '_')}", False
        if found:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder + "/tmp")
            for name in ("recipes", "tasks", "docs"):
                os.symlink(f"{root}/{name}", f"{folder}/{name}")
        for line, body, error in found:
            if broken:
                check(f"{path}:{line} # SKIP a block before it failed", True)
                continue
            status, output = (1, error) if error else run_block(body, folder)
            broken = status != 0
            check(f"{path}:{line} runs", not broken, f"exit {status}\n{output}")
    done()


main()
