"""Plants one error at a time in the C sources and looks whether a test notices: make mutate.

A mutant is one edit of one line of src/: an operator turned, a constant moved by one, a condition negated, a statement left out. Rooms are drawn with equal chance, then a
file of the room, then a place in it; (seed, number) decides all of it. Each mutant is built in a copy of HEAD and run against the tests of its room, then of the rooms that stand on it,
nearest first, until one fails. What no test noticed is printed with its line and kept in the file of survivors: each is a missing test, or an edit that changes nothing.

An edit that does not compile, or that leaves the object file as it was, is drawn again: it is no mutant.

usage: build/venv/bin/python tools/mutate.py [--count 300] [--seed 1] [--rooms a,b] [--first N] [--seconds 900] [--jobs 2] [--out build/mutate/mutants.jsonl]
       build/venv/bin/python tools/mutate.py --show N [--seed 1]      prints mutant N as a diff
"""
import argparse, difflib, json, os, random, re, shutil, signal, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# pattern, replacements: one is drawn. Applied to code alone: no comments, strings, #lines, asserts.
EDITS = [
    (r"(?<![<>=!+\-*/%&|^])<(?![<=])", ["<=", ">"]), (r"(?<![<>=!\-])>(?![>=])", [">=", "<"]), (r"<=", ["<", ">="]), (r">=", [">", "<="]),
    (r"(?<![=!<>])==(?!=)", ["!="]), (r"!=", ["=="]), (r"&&", ["||"]), (r"\|\|", ["&&"]),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", [" - "]), (r"(?<=[\w)\]]) - (?=[\w(])", [" + "]), (r"(?<=[\w)\]]) \* (?=[\w(])", [" + "]), (r"(?<=[\w)\]]) / (?=[\w(])", [" * "]),
    (r"(?<=[\w)\]]) % (?=[\w(])", [" / "]), (r"\+=", ["-=", "="]), (r"-=", ["+="]), (r"\|=", ["="]), (r"<<", [">>"]), (r">>", ["<<"]),
    (r"(?<![\w.])0(?![\w.])", ["1"]), (r"(?<![\w.])1(?![\w.])", ["0", "2"]), (r"(?<![\w.])([2-9]|[1-9]\d+)(?![\w.])", ["plus one"]),
    (r"\bif \((?!!)", ["if (!"]), (r"\bMIN\(", ["MAX("]), (r"\bMAX\(", ["MIN("]), (r"\btrue\b", ["false"]), (r"\bfalse\b", ["true"]),
    (r"\bcontinue;", ["break;"]), (r"\breturn rc;", ["return 0;"]), (r"(?<=\t)\w+\([^;{}]*\);$", [";"]),
]
# Lines whose change no test should have to see: declarations of what must hold, freeing at the end, text for people.
LEFT_ALONE = re.compile(r"^\s*(const |static )?(struct )?\w+ \*?\w+\[[\w ]+\];|^\s*(#|CHECKF?\(|free\(|\*|/\*|static_assert|_Static_assert)|err_set\(|err_prefix\(|log_|fprintf\(stderr")


def say(text):
    print(text, flush=True)


def rooms_of():
    text = open(f"{ROOT}/src/rooms.mk").read()
    uses = {m[1]: m[2].split() for m in re.finditer(r"^USES_(\w+)\s*:=(.*)$", text, re.M)}
    return re.search(r"^ROOMS := (.*)$", text, re.M)[1].split(), uses


def test_rooms(room, rooms, uses):
    """The room's own tests first, then those of rooms that stand on it, nearest first."""
    def closure(r, seen=None):
        seen = set() if seen is None else seen
        for u in uses.get(r, []):
            if u not in seen:
                seen.add(u)
                closure(u, seen)
        return seen
    above = [r for r in rooms if room in closure(r)]
    return [room] + sorted(above, key=lambda r: (len(closure(r)), rooms.index(r)))


def code_spans(line):
    """Where code stands in a line: not inside strings, characters or comments."""
    masked, i = list(line), 0
    for m in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?(?:\*/|$)|//.*$', line):
        for i in range(m.start(), m.end()):
            masked[i] = "\0"
    return "".join(masked)


def places(path):
    in_comment, found = False, []
    for number, line in enumerate(open(path), 1):
        line = line.rstrip("\n")
        was_in = in_comment
        in_comment = (in_comment or "/*" in line) and line.rfind("*/") <= line.rfind("/*") if "/*" in line or "*/" in line else in_comment
        if was_in or not line.startswith("\t") or LEFT_ALONE.search(line):
            continue
        masked = code_spans(line)
        for pattern, into in EDITS:
            for m in re.finditer(pattern, masked):
                found.append((number, m.start(), m.end(), into))
    return found


def negate(line, begin):
    """`if (c)` to `if (!(c))`: the closing parenthesis has to be on this line."""
    depth, start = 0, line.index("(", begin)
    for i in range(start, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if depth == 0:
            return line[:start] + "(!" + line[start:i + 1] + ")" + line[i + 1:]
    return None


def draw(number, seed, rooms, only):
    """Mutant `number`: (room, file, line number, old line, new line)."""
    r = random.Random(f"{seed}/{number}")
    while True:
        room = r.choice(only or rooms)
        files = sorted(os.path.relpath(os.path.join(d, f), ROOT) for d, _, fs in os.walk(f"{ROOT}/src/{room}") for f in fs if f.endswith((".c", ".h")))
        file = r.choice(files)
        spots = places(f"{ROOT}/{file}")
        if not spots:
            continue
        line_number, begin, end, into = r.choice(spots)
        old = open(f"{ROOT}/{file}").read().split("\n")[line_number - 1]
        choice = r.choice(into)
        if choice == "if (!":
            new = negate(old, begin)
        elif choice == "plus one":
            new = old[:begin] + str(int(old[begin:end]) + 1) + old[end:]
        else:
            new = old[:begin] + choice + old[end:]
        if new and new != old:
            yield room, file, line_number, old, new


class Tree:
    """A copy of HEAD with its own build folder; the Python environment is shared."""
    def __init__(self, path):
        self.path = path
        if not os.path.isdir(path):
            subprocess.run(["git", "clone", "-q", ROOT, path], check=True)
        subprocess.run(["git", "-C", path, "fetch", "-q", ROOT, "HEAD"], check=True)
        subprocess.run(["git", "-C", path, "checkout", "-qf", "FETCH_HEAD"], check=True)
        os.makedirs(f"{path}/build", exist_ok=True)
        for name in ("venv", "deps"):
            if not os.path.lexists(f"{path}/build/{name}"):
                os.symlink(os.path.realpath(f"{ROOT}/build/{name}"), f"{path}/build/{name}")

    def run(self, command, seconds):
        """(exit status or None after the limit, output)"""
        p = subprocess.Popen(command, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            return (p.communicate(timeout=seconds)[0], p.returncode)[::-1]
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)   # the group that this call started
            return None, p.communicate()[0]

    def build(self, jobs):
        return self.run(["make", f"-j{jobs}", "programs", "tests"], 1800)

    def edit(self, file, line_number, new):
        lines = open(f"{self.path}/{file}").read().split("\n")
        lines[line_number - 1] = new
        open(f"{self.path}/{file}", "w").write("\n".join(lines))

    def restore(self, file):
        subprocess.run(["git", "-C", self.path, "checkout", "-q", file], check=True)


def stripped(path):
    """The machine code of an object file, for `changed nothing`."""
    p = subprocess.run(["objdump", "-d", "-s", "-j", ".text", "-j", ".rodata", "-j", ".data", path], capture_output=True)
    return p.stdout


def judge(tree, room, file, jobs, seconds, rooms, uses):
    """("killed", by) or ("survived", "") or ("no mutant", why)"""
    object_file = f"{tree.path}/build/release/obj/{file[:-2]}.o"
    before = stripped(object_file) if file.endswith(".c") else None
    status, out = tree.build(jobs)
    if status != 0:
        return "no mutant", "does not compile"
    if before is not None and stripped(object_file) == before:
        return "no mutant", "the same machine code"
    end = time.monotonic() + seconds
    for r in test_rooms(room, rooms, uses):
        left = end - time.monotonic()
        if left <= 0:
            return "survived", f"after {seconds} s, before the tests of {r}"
        status, out = tree.run(["tests/run.sh", "--filter", f"{r}/*"], left)
        if status is None:
            return "survived", f"after {seconds} s, within the tests of {r}"
        if status != 0 and "passed," in out:
            failed = re.search(r"^failed:\n\s*(.*)$", out, re.M)
            return "killed", failed[1].strip() if failed else r
    return "survived", "all tests of the room and of those above it passed"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--count", type=int, default=300)
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--seed", default="1")
    a.add_argument("--rooms", default="")
    a.add_argument("--seconds", type=int, default=900)
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--out", default="build/mutate/mutants.jsonl")
    a.add_argument("--show", type=int)
    o = a.parse_args()
    rooms, uses = rooms_of()
    only = [r for r in o.rooms.split(",") if r]
    if unknown := set(only) - set(rooms):
        sys.exit(f"mutate: no room {', '.join(sorted(unknown))}; rooms are {' '.join(rooms)}")
    if o.show is not None:
        room, file, n, old, new = next(draw(o.show, o.seed, rooms, only))
        say("".join(difflib.unified_diff([old + "\n"], [new + "\n"], f"{file}:{n}", f"{file}:{n}")))
        return
    os.makedirs(os.path.dirname(f"{ROOT}/{o.out}"), exist_ok=True)
    tree = Tree(f"{ROOT}/build/mutate/tree")
    status, out = tree.build(o.jobs)
    if status != 0:
        sys.exit("mutate: the tree does not build:\n" + out[-2000:])
    counts = {"killed": 0, "survived": 0}
    with open(f"{ROOT}/{o.out}", "a") as log:
        for number in range(o.first, o.first + o.count):
            for room, file, n, old, new in draw(number, o.seed, rooms, only):
                tree.edit(file, n, new)
                verdict, by = judge(tree, room, file, o.jobs, o.seconds, rooms, uses)
                tree.restore(file)
                if verdict != "no mutant":
                    break
            counts[verdict] += 1
            log.write(json.dumps(dict(number=number, seed=o.seed, file=file, line=n, old=old.strip(), new=new.strip(), verdict=verdict, by=by)) + "\n")
            log.flush()
            if verdict == "survived":
                say(f"{file}:{n}: survived ({by})\n  - {old.strip()}\n  + {new.strip()}")
            else:
                say(f"{file}:{n}: killed by {by}")
    total = sum(counts.values())
    say(f"{total} mutants, {counts['killed']} killed, {counts['survived']} survived ({100 * counts['survived'] / max(total, 1):.1f} %)")


main()
