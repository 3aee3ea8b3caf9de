"""The stage tests' kernels under compute-sanitizer: every case of every program under every tool.
TAP out.

usage: sanitize.py PROGRAM... [--tools memcheck,racecheck,initcheck,synccheck] [--jobs 4]
                   [--cases PATTERN] [--until SECONDS] [--logs FOLDER]
  PROGRAM    prints its cases for --list, runs those that a pattern means (tests/ops/test_stages_*)
  --until    what has not ended by then is cut, and counts as a failure; so does what was not begun

Cases whose names end in _cpu or _differences launch no kernel and are left out. A report that names
a kernel of cuBLASLt (LIBRARY) is the library's own: it is counted and told, and does not fail the
case. Every other report does, and so does any that the tool counts in its summary and that was not
read here.

synccheck looks at our kernels alone (their names end in _kernel): what it watches, a block's
barriers, is each kernel's own business. memcheck and initcheck look at all kernels, since what one
writes another reads. So does racecheck: with a filter of kernels, even one that names none, it ends
programs that multiply by cuBLASLt in an illegal address (version 2025.3.1, driver 580.159.04).

racecheck and initcheck run with HONE_STAGES_SMALL=1, fewer repeats and rows of the same kernels.

initcheck does not see all that cuBLASLt writes: of test_stream it reported 82,944 reads, which is
each 16-byte load by which our two kernels (the norm's sums8 and ranges_add_kernel) read a product's
sums from scratch, at 5, 17, 64 and 130 rows, while the sums were right to the bit. So it runs with
HONE_STAGES_POISON=1, by which scratch is filled with NaN before each stage that takes it: the tool
counts it as written then, and who reads what nobody has written has NaN in his result, which the
case finds by itself.
"""
import argparse, fnmatch, os, re, shutil, signal, subprocess, sys, threading, time

TOOLS = ["racecheck", "initcheck", "memcheck", "synccheck"]
OURS_ALONE = ["synccheck"]
SMALL = ["racecheck", "initcheck"]
POISON = ["initcheck"]
LIBRARY = re.compile(r"cublasLt::|nvjet_|_xmma_|cutlass")
SUMMARY = re.compile(r"(ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
HEADS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK SUMMARY", "Host Frame", "Target application")


def reports_read(text):
    """Reports of our kernels (each a text), how many are the library's, how many in all."""
    # A report is a run of lines behind the tool's mark, up to an empty one.
    blocks, block = [], []
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        line = line[9:].strip()
        if line:
            block.append(line)
        if not line and block:
            blocks.append(block)
            block = []
    if block:
        blocks.append(block)
    # Summaries count, whatever else stands in their block; whose kernel it was says the place of
    # the fault.
    ours, library, counted = [], 0, 0
    for block in blocks:
        for line in block:
            if SUMMARY.search(line):
                counted += sum(int(n) for n in re.findall(r"SUMMARY: (\d+)", line))
        block = [line for line in block if not line.startswith(HEADS) and not SUMMARY.search(line)]
        if not block:
            continue
        where = " ".join(line for line in block if line.startswith(("at ", "in ", "and "))
                         or "Race reported" in line)
        if LIBRARY.search(where):
            library += 1
        else:
            ours.append("\n".join(block[:6]))
    return ours, library, counted


def cases_of(program):
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split("\n")
    names = list(dict.fromkeys(n for n in names if n))
    return [n for n in names if not n.endswith(("_cpu", "_differences"))]


def unit_run(unit, args, started):
    tool, program, case = unit
    filters = ["--kernel-name", "kns=_kernel"] if tool in OURS_ALONE else []
    command = [args.sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "100000", *filters, program,
               re.sub(r"([\[?*])", r"[\1]", case)]
    # Who has no time left is not begun: a run that is cut tells nothing.
    left = args.until - (time.time() - started) if args.until else None
    if left is not None and left < 3:
        return False, 0, "not begun: the time was up", ""
    begin = time.time()
    env = {**os.environ, "HONE_REQUIRE_GPU": "1", "HONE_STAGES_SMALL": str(int(tool in SMALL))}
    env.pop("HONE_STAGES_POISON", None)
    if tool in POISON:
        env["HONE_STAGES_POISON"] = "1"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env=env, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)    # the tool and the program that it started
        text, _ = process.communicate()
        return False, time.time() - begin, "cut by time", text
    # Clean: no report of ours, none that the summary has and nobody printed, and some test that
    # ran.
    ours, library, counted = reports_read(text)
    ran = len(re.findall(r"^ok \d+(?!.*# SKIP)", text, re.M))
    bad = len(re.findall(r"^not ok ", text, re.M))
    told = f"{ran} ok, {library} reports of the library's own kernels" if library else f"{ran} ok"
    fine = not ours and counted <= library and not bad and ran > 0 and (process.returncode == 0 or library > 0)
    if not fine:
        told = f"{len(ours)} reports of our kernels, {library} of the library's, {counted} in the summary; " \
               f"{ran} ok, {bad} not ok, exit status {process.returncode}"
        told += "".join("\n# " + r.replace("\n", "\n#   ") for r in ours[:5])
    return fine, time.time() - begin, told, text


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("programs", nargs="+")
    ap.add_argument("--tools", default=",".join(TOOLS))
    ap.add_argument("--jobs", type=int, default=4)
    ap.add_argument("--until", type=float, default=0)
    ap.add_argument("--logs")
    ap.add_argument("--cases", default="*", help="a pattern of their names")
    ap.add_argument("--sanitizer", default="compute-sanitizer", help=argparse.SUPPRESS)
    args = ap.parse_args()
    started = time.time()
    if not shutil.which(args.sanitizer):
        sys.exit(f"sanitize.py: there is no {args.sanitizer} on the PATH; it is part of the CUDA toolkit")
    # A unit is one case of one program under one tool: small enough to fit what time is left.
    units = [(tool, p, c) for tool in args.tools.split(",") for p in args.programs for c in cases_of(p)
             if fnmatch.fnmatch(c, args.cases)]
    if not units:
        sys.exit("sanitize.py: no cases")
    lock, at, clean = threading.Lock(), iter(range(len(units))), []
    if args.logs:
        os.makedirs(args.logs, exist_ok=True)

    def work():
        while True:
            with lock:
                i = next(at, None)
            if i is None:
                return
            tool, program, case = units[i]
            fine, seconds, told, text = unit_run(units[i], args, started)
            name = f"{tool} {os.path.basename(program)} {case}"
            with lock:
                if fine:
                    clean.append(name)
                print(f"{'ok' if fine else 'not ok'} {i + 1} - {name}: {told} ({seconds:.1f} s)", flush=True)
            if args.logs and (not fine or "library" in told):
                path = os.path.join(args.logs, re.sub(r"\W+", "_", name) + ".log")
                open(path, "w").write(text[:200_000])

    threads = [threading.Thread(target=work) for _ in range(args.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"1..{len(units)}\n# {len(clean)} of {len(units)} clean in {time.time() - started:.0f} s")
    sys.exit(0 if len(clean) == len(units) else 1)


if __name__ == "__main__":
    main()
