"""Plants one error at a time in the C sources and looks whether a test notices: make mutate.

A mutant is one edit of one line of src/: an operator turned, a constant moved by one, a condition
negated, a statement left out. Rooms are drawn with equal chance, then a file of the room, then a
place in it; (seed, number) decides all of it. Each mutant is built in a copy of HEAD, only as far
as the tests that run next need it: the C tests of its room, the C tests of the rooms that stand on
it, nearest first, then the scripts in the same order, until one fails. A test that fails is
believed when it passes without the edit: one that does not is left out from then on.

What no test noticed is printed with its line and kept in the file of results: each is a missing
test, or an edit that changes nothing. An edit that does not compile, or that leaves the machine
code as it was, is drawn again: it is no mutant. Code that only a GPU's tests reach is left out.

A run that is stopped goes on where it was, at the commit where it began; --fresh begins again at
HEAD. With --reach own only the tests of the mutant's room run, which is quick; a later run without
it takes those that survived that to the tests of the rooms above.

usage: build/venv/bin/python tools/mutate.py [--count 300] [--seed 1] [--rooms a,b] [--first N]
[--seconds 900] [--jobs 2] [--reach own|all] [--fresh] [--out build/mutate/mutants.jsonl]
       build/venv/bin/python tools/mutate.py --show N [--seed 1]      prints mutant N as a diff
       build/venv/bin/python tools/mutate.py --sum                    sums up the file of results
--seconds: for the tests of one mutant; one that is not noticed by then stays open, and a later run
takes it again.
"""
import argparse, difflib, glob, json, os, random, re, signal, subprocess, sys, time

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
# Lines whose change no test should have to see: declarations of what must hold, freeing at the end,
# text for people.
LEFT_ALONE = re.compile(r"^\s*(const |static )?(struct )?\w+ \*?\w+\[[\w ]+\];|^\s*(#|CHECKF?\(|free\(|\*|/\*|static_assert|_Static_assert)|err_set\(|err_prefix\(|log_|fprintf\(stderr")


def say(text):
    print(text, flush=True)


def rooms_of(root):
    text = open(f"{root}/src/rooms.mk").read()
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
    in_comment, in_left_alone, found = False, False, []
    for number, line in enumerate(open(path), 1):
        line = line.rstrip("\n")
        was_in = in_comment
        in_comment = (in_comment or "/*" in line) and line.rfind("*/") <= line.rfind("/*") if "/*" in line or "*/" in line else in_comment
        # A statement that is left alone is so to its end, on whichever line that is.
        in_left_alone = in_left_alone or bool(LEFT_ALONE.search(line)) and not line.lstrip().startswith(("#", "*", "/*"))
        was_left_alone, in_left_alone = in_left_alone, in_left_alone and not line.endswith((";", "{", "}"))
        if was_in or was_left_alone or not line.startswith("\t") or LEFT_ALONE.search(line):
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


def draw(root, number, seed, rooms, only):
    """Mutant `number` of the sources in root: (room, file, line number, old line, new line), and
    further ones in its place."""
    r = random.Random(f"{seed}/{number}")
    while True:
        room = r.choice(only or rooms)
        files = sorted(os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(f"{root}/src/{room}") for f in fs if f.endswith((".c", ".h")))
        file = r.choice([f for f in files if "/cuda/" not in f])
        spots = places(f"{root}/{file}")
        if not spots:
            continue
        line_number, begin, end, into = r.choice(spots)
        old = open(f"{root}/{file}").read().split("\n")[line_number - 1]
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
    """A copy of the sources with its own build folder; the Python environment is shared."""
    def __init__(self, path, is_fresh):
        self.path = path
        if is_new := not os.path.isdir(path):
            subprocess.run(["git", "clone", "-q", ROOT, path], check=True)
        if is_new or is_fresh:
            subprocess.run(["git", "-C", path, "fetch", "-q", ROOT, "HEAD"], check=True)
            subprocess.run(["git", "-C", path, "checkout", "-qf", "FETCH_HEAD"], check=True)
        subprocess.run(["git", "-C", path, "checkout", "-q", "."], check=True)   # an edit that a kill left
        os.makedirs(f"{path}/build", exist_ok=True)
        for name in ("venv", "deps"):
            if not os.path.lexists(f"{path}/build/{name}"):
                os.symlink(os.path.realpath(f"{ROOT}/build/{name}"), f"{path}/build/{name}")

    def commit(self):
        return subprocess.run(["git", "-C", self.path, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()

    def run(self, command, seconds):
        """(exit status or None after the limit, output)"""
        p = subprocess.Popen(command, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            return (p.communicate(timeout=seconds)[0], p.returncode)[::-1]
        except subprocess.TimeoutExpired:
            p.terminate()   # tests/run.sh ends the sessions of its tests
            try:
                return None, p.communicate(timeout=30)[0]
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)   # the group that this call started
                return None, p.communicate()[0]
        except BaseException:   # this program is being ended: its tests end first
            p.terminate()
            p.wait()
            raise

    def build(self, jobs, targets):
        return self.run(["make", f"-j{jobs}", *targets], 1800)

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


class Judge:
    """Runs tests over one mutant after another; remembers which tests pass without an edit, and
    which do not."""
    def __init__(self, tree, jobs, seconds, rooms, uses):
        self.tree, self.jobs, self.seconds, self.rooms, self.uses = tree, jobs, seconds, rooms, uses
        self.sound, self.unsound = set(), set()

    def programs(self, room):
        return [f"build/release/tests/{room}/{os.path.basename(f)[:-2]}" for f in sorted(glob.glob(f"{self.tree.path}/tests/{room}/test_*.c"))]

    def stages(self, room, reach):
        """(words, what to build, arguments of tests/run.sh) in the order in which they are
        tried."""
        order = test_rooms(room, self.rooms, self.uses)
        order = order[:1] if reach == "own" else order[1:] if reach == "above" else order
        for r in order:
            if programs := self.programs(r):
                # Some programs of tests start the real ones.
                yield f"C tests of {r}", programs + (["programs"] if r in ("runner", "verify", "vm", "rl") else []), ["--programs", "--filter", f"{r}/*"]
        for r in order:
            for script in sorted(glob.glob(f"{self.tree.path}/tests/{r}/test_*.sh") + glob.glob(f"{self.tree.path}/tests/{r}/test_*.py")):
                yield f"{r}/{os.path.basename(script)}", ["programs"], ["--filter", f"{r}/{os.path.basename(script)}"]

    def failures(self, out):
        """test -> whether it failed by its time limit alone"""
        found = {}
        for m in re.finditer(r"^FAIL (\S+)", out, re.M):
            why = re.findall(rf"^  {re.escape(m[1])}: (.*)$", out, re.M)
            found[m[1]] = bool(why) and all("timeout" in w or "took longer" in w for w in why)
        return {t: late for t, late in found.items() if t not in self.unsound}

    def believed(self, test, is_late, built):
        """Whether the test passes on the tree without an edit, as it stands now."""
        if test in self.sound and not is_late:
            return True
        self.tree.build(self.jobs, built)
        status, out = self.tree.run(["tests/run.sh", "--filter", test], 1200)
        if status == 0:
            self.sound.add(test)
            return True
        if not is_late:
            self.unsound.add(test)
            say(f"{test} fails without an edit too: it is left out")
        return False

    def judge(self, room, file, line_number, new, reach):
        """("killed", by), ("survived", what passed), ("open", where the time ended) or ("no
        mutant", why); the tree is as it was. reach: own, above or all."""
        object_file = f"build/release/obj/{file[:-2]}.o"
        compiled = [object_file] if file.endswith(".c") else [f"build/release/lib{room}.a"]
        self.tree.build(self.jobs, compiled)
        before = stripped(f"{self.tree.path}/{compiled[0]}")
        end = time.monotonic() + self.seconds
        self.tree.edit(file, line_number, new)
        try:
            if self.tree.build(self.jobs, compiled)[0] != 0:
                return "no mutant", "does not compile"
            if stripped(f"{self.tree.path}/{compiled[0]}") == before:
                return "no mutant", "the same machine code"
            for words, built, arguments in self.stages(room, reach):
                left = end - time.monotonic()
                if left <= 0:
                    return "open", f"{self.seconds} s, before {words}"
                if self.tree.build(self.jobs, built)[0] != 0:
                    return "no mutant", "does not compile"
                status, out = self.tree.run(["tests/run.sh", *arguments], left)
                if status is None:
                    return "open", f"{self.seconds} s, within {words}"
                failed = self.failures(out)
                if not failed:
                    continue
                self.tree.restore(file)
                for test, is_late in failed.items():
                    if self.believed(test, is_late, built):
                        return "killed", test
                self.tree.edit(file, line_number, new)
            return "survived", f"the tests of {room} passed" if reach == "own" else "all tests passed"
        finally:
            self.tree.restore(file)


def results(path):
    """The latest row of each mutant, by (seed, number)."""
    rows = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    return {(r["seed"], r["number"]): r for r in rows}


def sum_up(rows):
    rows = [rows[k] for k in sorted(rows)]
    for r in rows:
        if r["verdict"] != "killed":
            say(f"{r['number']} {r['file']}:{r['line']}: {r['verdict']} ({r['by']})\n  - {r['old']}\n  + {r['new']}")
    count = {v: sum(r["verdict"] == v for r in rows) for v in ("killed", "survived", "open")}
    say(f"{len(rows)} mutants, {count['killed']} killed, {count['survived']} survived, {count['open']} open; "
        f"{100 * count['survived'] / max(count['killed'] + count['survived'], 1):.1f} % of those decided survived")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--count", type=int, default=300)
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--seed", default="1")
    a.add_argument("--rooms", default="")
    a.add_argument("--seconds", type=int, default=900)
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--out", default="build/mutate/mutants.jsonl")
    a.add_argument("--reach", choices=("own", "all"), default="all")
    a.add_argument("--fresh", action="store_true")
    a.add_argument("--sum", action="store_true")
    a.add_argument("--show", type=int)
    o = a.parse_args()
    path = f"{ROOT}/{o.out}"
    only = [r for r in o.rooms.split(",") if r]
    if o.sum:
        return sum_up(results(path))
    if o.show is not None:
        room, file, n, old, new = next(draw(ROOT, o.show, o.seed, rooms_of(ROOT)[0], only))
        return say("".join(difflib.unified_diff([old + "\n"], [new + "\n"], f"{file}:{n}", f"{file}:{n}")))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutate: ended; the next run goes on here"))
    os.nice(19)   # it takes hours: whatever else runs comes first
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if o.fresh and os.path.exists(path):
        os.rename(path, path + ".old")
    tree = Tree(f"{ROOT}/build/mutate/tree", o.fresh)
    rooms, uses = rooms_of(tree.path)
    if unknown := set(only) - set(rooms):
        sys.exit(f"mutate: no room {', '.join(sorted(unknown))}; rooms are {' '.join(rooms)}")
    status, out = tree.build(o.jobs, ["programs"])
    if status != 0:
        sys.exit("mutate: the tree does not build:\n" + out[-2000:])
    court = Judge(tree, o.jobs, o.seconds, rooms, uses)
    done = results(path)
    for number in range(o.first, o.first + o.count):
        before = done.get((o.seed, number))
        if before and (before["verdict"] == "killed" or before["verdict"] == "survived" and o.reach in (before["reach"], "own")):
            continue
        for room, file, n, old, new in draw(tree.path, number, o.seed, rooms, only):
            if before and (before["file"], before["line"], before["new"]) != (file, n, new.strip()):
                continue   # drawn before it and found to be no mutant
            verdict, by = court.judge(room, file, n, new, "above" if before and before["verdict"] == "survived" else o.reach)
            if verdict != "no mutant":
                break
        row = dict(number=number, seed=o.seed, commit=tree.commit(), file=file, line=n, old=old.strip(), new=new.strip(), verdict=verdict, by=by, reach=o.reach)
        with open(path, "a") as log:
            log.write(json.dumps(row) + "\n")
        say(f"{number} {file}:{n}: {verdict}: {by}")
    sum_up(results(path))


main()
