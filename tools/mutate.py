"""Plants one error at a time in the C sources and looks whether a test notices: make mutate.

A mutant is one edit of one line of src/: an operator turned, a constant moved by one, a condition
negated, a statement left out. Rooms are drawn with equal chance, then a file of the room, then a
place in it; (seed, number) decides all of it, for the same sources. Each mutant is built in a copy
of HEAD (in a folder without .git: of that folder as it stands), only as far as the test that runs
next needs it: the tests of its room and those of the rooms that stand on it, quick ones and near
ones first, until one fails. A test that fails is believed when it passes without the edit: one that
does not is left out from then on. --baseline looks at that first, for every test. A test that takes
eight times as long as it did without the edit, and half a minute more, fails too; how long it takes
is what it took when it passed.

What no test noticed is printed with its line and kept in the file of results: each is a missing
test, or an edit that changes nothing. For those of the second kind tools/mutate_equal.txt holds the
reason, one a mutant; they count apart. An edit that does not compile, that leaves the machine code
as it was, or that only makes an array or a piece of memory larger, is drawn again: it is no mutant.
Code that only a GPU's tests reach is left out.

A run that is stopped goes on where it was, at the commit where it began; --fresh begins again at
HEAD. With --reach own only the tests of the mutant's room run, which is quick; a later run without
it takes those that survived that to the tests of the rooms above. --again takes the edits that
survived to HEAD, with the tests that were written since: those that passed and did not change are
not run anew.

usage: build/venv/bin/python tools/mutate.py [--count 300] [--seed 1] [--rooms a,b] [--first N]
           [--seconds 900] [--workers 1] [--jobs 2] [--reach own|all] [--fresh] [--again]
           [--baseline] [--without GLOB,GLOB] [--out build/mutate/mutants.jsonl]
       build/venv/bin/python tools/mutate.py --show N [--seed 1]      prints mutant N as a diff
       build/venv/bin/python tools/mutate.py --sum                    sums up the file of results
--seconds: for the tests of one mutant; one that is not noticed by then stays open, and a later run
takes it again. --workers: mutants at once, each in a tree of its own and on a core of its own;
--jobs is for each build. --without: tests that are left out.
"""
import argparse, concurrent.futures, difflib, fnmatch, glob, json, os, queue, random, re, shutil, signal, subprocess
import sys, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# pattern, replacements: one is drawn. Applied to code alone: no comments, strings, #lines, asserts.
EDITS = [
    (r"(?<![<>=!+\-*/%&|^])<(?![<=])", ["<=", ">"]), (r"(?<![<>=!\-])>(?![>=])", [">=", "<"]), (r"<=", ["<", ">="]),
    (r">=", [">", "<="]),
    (r"(?<![=!<>])==(?!=)", ["!="]), (r"!=", ["=="]), (r"&&", ["||"]), (r"\|\|", ["&&"]),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", [" - "]), (r"(?<=[\w)\]]) - (?=[\w(])", [" + "]),
    (r"(?<=[\w)\]]) \* (?=[\w(])", [" + "]), (r"(?<=[\w)\]]) / (?=[\w(])", [" * "]),
    (r"(?<=[\w)\]]) % (?=[\w(])", [" / "]), (r"\+=", ["-=", "="]), (r"-=", ["+="]), (r"\|=", ["="]), (r"<<", [">>"]),
    (r">>", ["<<"]),
    (r"(?<![\w.])0(?![\w.])", ["1"]), (r"(?<![\w.])1(?![\w.])", ["0", "2"]),
    (r"(?<![\w.])([2-9]|[1-9]\d+)(?![\w.])", ["plus one"]),
    (r"\bif \((?!!)", ["if (!"]), (r"\bMIN\(", ["MAX("]), (r"\bMAX\(", ["MIN("]), (r"\btrue\b", ["false"]),
    (r"\bfalse\b", ["true"]),
    (r"\bcontinue;", ["break;"]), (r"\breturn rc;", ["return 0;"]), (r"(?<=\t)\w+\([^;{}]*\);$", [";"]),
]
# Lines whose change no test should have to see: declarations of what must hold, freeing at the end,
# text for people.
LEFT_ALONE = re.compile(
    r"^\s*(const |static )?(struct )?\w+ \*?\w+\[[\w ]+\];|^\s*(#|CHECKF?\(|free\(|\*|/\*|static_assert|"
    r"_Static_assert)|err_set\(|err_prefix\(|log_|fprintf\(stderr")


# What only makes room for more: the size of a declared array, and of memory that is asked for.
ROOM = re.compile(r"^\s*(?!return )(?:(?:const|static|unsigned|long) )*(?:struct \w+|\w+) \**\w+\[|alloc\(")
# Tests of the repository, not of code: what `make` sets up and installs, the form of pages.
NOT_OF_CODE = "base/*.sh"


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
        in_comment = ((in_comment or "/*" in line) and line.rfind("*/") <= line.rfind("/*")
                      if "/*" in line or "*/" in line else in_comment)
        # A statement that is left alone is so to its end, on whichever line that is.
        in_left_alone = (in_left_alone or bool(LEFT_ALONE.search(line))
                         and not line.lstrip().startswith(("#", "*", "/*")))
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
        files = sorted(os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(f"{root}/src/{room}")
                       for f in fs if f.endswith((".c", ".h")))
        file = r.choice([f for f in files if "/cuda/" not in f])
        spots = places(f"{root}/{file}")
        if not spots:
            continue
        line_number, begin, end, into = r.choice(spots)
        old = open(f"{root}/{file}").read().split("\n")[line_number - 1]
        choice = r.choice(into)
        if choice in ("2", "plus one") and ROOM.search(old) and (old[begin - 1] == "[" or "alloc(" in old[:begin]):
            continue
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
    def __init__(self, path, cpu=None):
        self.path, self.cpu, self.running = path, cpu, set()

    def fill(self, is_fresh):
        """The copy of HEAD, or of the folder as it stands where git does not know it."""
        if os.path.isdir(f"{ROOT}/.git") or os.path.isfile(f"{ROOT}/.git"):
            if is_new := not os.path.isdir(self.path):
                subprocess.run(["git", "clone", "-q", ROOT, self.path], check=True)
            if is_new or is_fresh:
                subprocess.run(["git", "-C", self.path, "fetch", "-q", ROOT, "HEAD"], check=True)
                subprocess.run(["git", "-C", self.path, "checkout", "-qf", "FETCH_HEAD"], check=True)
            subprocess.run(["git", "-C", self.path, "checkout", "-q", "."], check=True)   # an edit that a kill left
        elif not os.path.isdir(self.path) or is_fresh:
            shutil.rmtree(self.path, ignore_errors=True)
            shutil.copytree(ROOT, self.path, symlinks=True,
                            ignore=lambda d, names: ["mutate"] if d == f"{ROOT}/build" else [])
        os.makedirs(f"{self.path}/build", exist_ok=True)
        for name in ("venv", "deps"):
            if not os.path.lexists(f"{self.path}/build/{name}"):
                os.symlink(os.path.realpath(f"{ROOT}/build/{name}"), f"{self.path}/build/{name}")

    def twin(self, number, cpu):
        """A copy with all that is built, for a worker."""
        path = f"{self.path}.{number}"
        shutil.rmtree(path, ignore_errors=True)
        subprocess.run(["cp", "-a", self.path, path], check=True)
        return Tree(path, cpu)

    def commit(self):
        p = subprocess.run(["git", "-C", self.path, "rev-parse", "HEAD"], capture_output=True, text=True)
        return p.stdout.strip() if p.returncode == 0 and os.path.isdir(f"{self.path}/.git") else ""

    def run(self, command, seconds):
        """(exit status or None after the limit, output)"""
        pin = (lambda: os.sched_setaffinity(0, {self.cpu})) if self.cpu is not None else None
        environment = dict(os.environ, OMP_NUM_THREADS="1") if self.cpu is not None else None
        p = subprocess.Popen(command, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", start_new_session=True, preexec_fn=pin, env=environment)
        self.running.add(p)
        try:
            return (p.communicate(timeout=seconds)[0], p.returncode)[::-1]
        except subprocess.TimeoutExpired:
            p.terminate()   # tests/run.sh ends the sessions of its tests
            try:
                return None, p.communicate(timeout=30)[0]
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)   # the group that this call started
                return None, p.communicate()[0]
        finally:
            self.running.discard(p)

    def end(self):
        """Ends what this tree's worker has started: tests/run.sh ends its tests at TERM."""
        for p in list(self.running):
            p.terminate()
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)

    def build(self, jobs, targets):
        return self.run(["make", "NVCC=", f"-j{jobs}", *targets], 1800)

    def lines(self, file):
        return open(f"{self.path}/{file}").read().split("\n")

    def write(self, file, lines):
        with open(f"{self.path}/{file}", "w") as out:
            out.write("\n".join(lines))


def stripped(path):
    """An object file without what debuggers read, for `changed nothing`: main and tables of
    pointers have sections of their own, and an index into a static array stands in a relocation."""
    bare = f"{path}.stripped"
    subprocess.run(["objcopy", "--strip-debug", path, bare], check=True)
    with open(bare, "rb") as f:
        held = f.read()
    os.remove(bare)
    return held


class Tests:
    """What is known of each test: how long it took when it last ran, and whether it passes
    without an edit. Kept in a file."""
    def __init__(self, path, tree, without):
        self.path, self.lock = path, threading.Lock()
        known = json.load(open(path)) if os.path.exists(path) else {}
        self.known = {}   # name -> {seconds, sound: True, False or None where nobody looked}
        for file in sorted(glob.glob(f"{tree.path}/tests/*/test_*.*")):
            name, ending = os.path.splitext(os.path.relpath(file, f"{tree.path}/tests"))
            if ending in (".c", ".sh", ".py"):
                name += "" if ending == ".c" else ending
                self.known[name] = known.get(name, dict(seconds=20 if ending == ".c" else 60, sound=None))
                if any(fnmatch.fnmatch(name, g) for g in without + [NOT_OF_CODE]):
                    self.known[name] = dict(self.known[name], sound=False)

    def note(self, name, **what):
        with self.lock:
            self.known[name].update(what)
            with open(self.path + ".new", "w") as out:
                json.dump(self.known, out, indent=1)
            os.replace(self.path + ".new", self.path)

    def limit(self, name):
        return 30 + 8 * self.known[name]["seconds"]

    def targets(self, name):
        """What to build for a test; some programs of tests start the real ones."""
        is_program = not name.endswith((".sh", ".py"))
        starts = not is_program or name.split("/")[0] in ("runner", "clean", "verify", "vm", "rl")
        return ([f"build/release/tests/{name}"] if is_program else []) + (["programs"] if starts else [])

    def order(self, room, rooms, uses, reach):
        """Tests that may notice an error in room, in the order in which they are tried: quick ones
        and those of the room itself first."""
        near = test_rooms(room, rooms, uses)
        near = near[:1] if reach == "own" else near
        found = [n for n, k in self.known.items() if n.split("/")[0] in near and k["sound"] is not False]
        return sorted(found, key=lambda n: (self.known[n]["seconds"] + 0.5) * (1 if n.split("/")[0] == room else 3))


class Judge:
    """Runs tests over one mutant after another, in any of its trees."""
    def __init__(self, tests, jobs, seconds, rooms, uses, equal):
        self.tests, self.jobs, self.seconds, self.rooms, self.uses, self.equal = (tests, jobs, seconds, rooms, uses,
            equal)

    def passes(self, tree, name, seconds):
        """(True, False or None after the limit, the first failure)"""
        status, out = tree.run(["tests/run.sh", "--test", name], seconds)
        failures = re.findall(rf"^  {re.escape(name)}: (.*)$", out.split("\nfailed:")[-1], re.M)
        late = status is None or bool(failures) and all("timeout" in f or "took longer" in f for f in failures)
        return ((True, "") if status == 0
                else (None if late else False, failures[0] if failures else "no failure was printed"))

    def believed(self, tree, name, is_late):
        """Whether the test passes on the tree without an edit, as it stands now."""
        if self.tests.known[name]["sound"] and not is_late:
            return True
        built = tree.build(self.jobs, self.tests.targets(name))[0] == 0
        start = time.monotonic()
        passes = built and self.passes(tree, name, 1200)[0]
        if passes:
            self.tests.note(name, sound=True, seconds=round(time.monotonic() - start, 1))
        elif not is_late:
            self.tests.note(name, sound=False)
            say(f"{name} fails without an edit too: it is left out")
        return bool(passes)

    def baseline(self, tree, workers):
        """Runs every test once without an edit that was not run so before."""
        def look(name):
            start = time.monotonic()
            passes, why = self.passes(tree, name, 1200)
            self.tests.note(name, seconds=round(time.monotonic() - start, 1), sound=bool(passes))
            if not passes:
                say(f"{name} fails without an edit: it is left out ({why})")
        names = [n for n, k in self.tests.known.items() if k["sound"] is None]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(look, sorted(names, key=lambda n: -self.tests.known[n]["seconds"])))

    def judge(self, tree, room, file, line_number, new, reach, passed):
        """("killed", by), ("survived", what passed), ("open", where the time ended), ("equal", why)
        or ("no mutant", why); the tree is as it was. passed: names of tests that need not be run;
        those that pass are added."""
        object_file = f"build/release/obj/{file[:-2]}.o"
        compiled = [object_file] if file.endswith(".c") else [f"build/release/lib{room}.a"]
        tree.build(self.jobs, compiled)
        before = stripped(f"{tree.path}/{compiled[0]}")
        end = time.monotonic() + self.seconds
        whole = tree.lines(file)
        edited = whole[:line_number - 1] + [new] + whole[line_number:]
        if reason := self.equal.get((file, whole[line_number - 1].strip(), new.strip())):
            return "equal", reason
        tree.write(file, edited)
        try:
            if tree.build(self.jobs, compiled)[0] != 0:
                return "no mutant", "does not compile"
            if stripped(f"{tree.path}/{compiled[0]}") == before:
                return "no mutant", "the same machine code"
            for name in self.tests.order(room, self.rooms, self.uses, reach):
                left = end - time.monotonic()
                if name in passed:
                    continue
                if left <= 0:
                    return "open", f"{self.seconds} s, before {name}"
                if tree.build(self.jobs, self.tests.targets(name))[0] != 0:
                    return "no mutant", "does not compile"
                limit = self.tests.limit(name)
                start = time.monotonic()
                passes, why = self.passes(tree, name, min(left, limit))
                if passes:
                    self.tests.note(name, seconds=round(time.monotonic() - start, 1))
                    passed.append(name)
                    continue
                if passes is None and left < limit:
                    return "open", f"{self.seconds} s, within {name}"
                tree.write(file, whole)
                is_believed = self.believed(tree, name, passes is None)
                if is_believed and passes is None and self.tests.limit(name) > limit:
                    return "open", f"{name} takes longer than was known"   # a later run knows
                if is_believed:
                    return "killed", f"{name}: {why}"
                tree.write(file, edited)
            return "survived", f"the tests of {room} passed" if reach == "own" else "all tests passed"
        finally:
            tree.write(file, whole)


def results(path):
    """The latest row of each mutant, by (seed, number)."""
    rows = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    return {(r["seed"], r["number"]): r for r in rows}


def equal_edits(path):
    """(file, old line, new line) -> why the edit changes nothing: blocks of `file`, `- old`, `+
    new` and `= reason` lines."""
    found = {}
    for block in open(path).read().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        if lines:
            file, old, new, *why = lines
            assert (old[:2] == "- " and new[:2] == "+ " and why and all(w[:2] == "= " for w in why)), (
                f"{path}: a block is not file, - old, + new, = why:\n{block}")
            found[(file, old[2:], new[2:])] = " ".join(w[2:] for w in why)
    return found


def sum_up(rows):
    rows = [rows[k] for k in sorted(rows)]
    for r in rows:
        if r["verdict"] not in ("killed", "gone"):
            say(f"{r['number']} {r['file']}:{r['line']}: {r['verdict']} ({r['by']})\n  - {r['old']}\n  + {r['new']}")
    count = {v: sum(r["verdict"] == v for r in rows) for v in ("killed", "survived", "open", "equal", "gone")}
    say(f"{len(rows)} mutants, {count['killed']} killed, {count['survived']} survived, {count['open']} open, "
        f"{count['equal']} change nothing, {count['gone']} in code that is gone; "
        f"{100 * count['survived'] / max(count['killed'] + count['survived'], 1):.1f} % of those decided survived")


class Run:
    """One run over mutants: workers take numbers, rows are appended as they come."""
    def __init__(self, options, path, base, judge, only):
        self.o, self.path, self.base, self.court, self.only, self.lock = (options, path, base, judge, only,
                                                                          threading.Lock())
        self.done, self.commit, self.reach, self.is_ending = results(path), base.commit(), "own", False

    def is_decided(self, number):
        row = self.done.get((self.o.seed, number))
        if not row:
            return self.o.again
        if row["verdict"] in ("killed", "equal", "gone"):
            return True
        if self.o.again and row["commit"] != self.commit:
            return False
        return row["verdict"] == "survived" and self.reach in (row["reach"], "own")

    def unchanged(self, row):
        """Of the tests that a row says passed, those whose sources are still the same."""
        passed = row.get("passed", [])
        if row["commit"] == self.commit:
            return list(passed)
        p = subprocess.run(["git", "-C", self.base.path, "diff", "--name-only", row["commit"], "HEAD", "--", "tests"],
                           capture_output=True, text=True)
        changed = set(p.stdout.split())
        return [n for n in passed if p.returncode == 0 and not {f"tests/{n}", f"tests/{n}.c"} & changed]

    def place(self, number, before):
        """(room, file, line number, old line, new line) of the mutants that may be this one."""
        if not self.o.again:
            yield from draw(self.base.path, number, self.o.seed, self.court.rooms, self.only)
        elif os.path.exists(f"{self.base.path}/{before['file']}"):
            lines = self.base.lines(before["file"])
            at = [i for i, line in enumerate(lines, 1) if line.strip() == before["old"]]
            for i in sorted(at, key=lambda i: abs(i - before["line"]))[:1]:
                yield before["file"].split("/")[1], before["file"], i, lines[i - 1], lines[i - 1].replace(before["old"],
                    before["new"])

    def one(self, tree, number):
        before = self.done.get((self.o.seed, number))
        passed = self.unchanged(before) if before else []
        verdict, by, file, n, old, new = "gone", "the line is gone", "", 0, "", ""
        for room, file, n, old, new in self.place(number, before):
            if before and (before["file"], before["old"], before["new"]) != (file, old.strip(), new.strip()):
                continue   # drawn before it and found to be no mutant
            verdict, by = self.court.judge(tree, room, file, n, new, self.reach, passed)
            if verdict != "no mutant":
                break
            before, passed = None, []   # with another compiler it was one
        row = dict(number=number, seed=self.o.seed, commit=self.commit, file=file, line=n, old=old.strip(),
                   new=new.strip(), verdict=verdict, by=by, reach=self.reach, passed=passed)
        if verdict in ("gone", "no mutant"):   # with --again there is no other in its place
            row = dict(self.done[(self.o.seed, number)], commit=self.commit, verdict="gone", by=by)
        with self.lock:
            if self.is_ending:
                return   # its tests were ended, and failed by that
            self.done[(self.o.seed, number)] = row
            with open(self.path, "a") as log:
                log.write(json.dumps(row) + "\n")
            say(f"{number} {row['file']}:{row['line']}: {verdict}: {by}")

    def work(self, tree, numbers):
        while True:
            try:
                number = numbers.get_nowait()
            except queue.Empty:
                return
            self.one(tree, number)

    def over(self, trees, numbers):
        """All numbers with the tests of their own rooms first: what is open is known early."""
        try:
            for self.reach in ("own", "all")[:1 if self.o.reach == "own" else 2]:
                waiting = queue.Queue()
                for number in numbers:
                    if not self.is_decided(number):
                        waiting.put(number)
                threads = [threading.Thread(target=self.work, args=(tree, waiting), daemon=True) for tree in trees]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
        finally:
            with self.lock:
                self.is_ending = True
            for tree in trees:
                tree.end()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--count", type=int, default=300)
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--seed", default="1")
    a.add_argument("--rooms", default="")
    a.add_argument("--seconds", type=int, default=900)
    a.add_argument("--workers", type=int, default=1)
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--out", default="build/mutate/mutants.jsonl")
    a.add_argument("--reach", choices=("own", "all"), default="all")
    a.add_argument("--without", default="")
    for name in ("--fresh", "--again", "--baseline", "--sum"):
        a.add_argument(name, action="store_true")
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
    base = Tree(f"{ROOT}/build/mutate/tree")
    base.fill(o.fresh or o.again)
    rooms, uses = rooms_of(base.path)
    if unknown := set(only) - set(rooms):
        sys.exit(f"mutate: no room {', '.join(sorted(unknown))}; rooms are {' '.join(rooms)}")
    # What every worker needs is built once.
    status, out = base.build(o.jobs * o.workers, ["programs"] + (["tests"] if o.baseline or o.workers > 1 else []))
    if status != 0:
        sys.exit("mutate: the tree does not build:\n" + out[-2000:])
    tests = Tests(f"{ROOT}/build/mutate/tests.json", base, [g for g in o.without.split(",") if g])
    court = Judge(tests, o.jobs, o.seconds, rooms, uses, equal_edits(f"{ROOT}/tools/mutate_equal.txt"))
    if o.baseline:
        court.baseline(base, o.workers)
    cores = sorted(os.sched_getaffinity(0))[::-1]
    trees = [base] if o.workers == 1 else [base.twin(i, cores[i % len(cores)]) for i in range(o.workers)]
    run = Run(o, path, base, court, only)
    numbers = [k[1] for k in sorted(run.done) if k[0] == o.seed] if o.again else range(o.first, o.first + o.count)
    run.over(trees, numbers)
    sum_up(results(path))


if __name__ == "__main__":
    main()
