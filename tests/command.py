"""What tests of commands share: the program, a run of it, and TAP. A test adds this folder to
sys.path; it is run from the root of the repository."""
import os, shutil, subprocess, sys

build = os.environ.get("BUILD", "build/release")
hone = f"{build}/hone"
results = []


def check(name, ok, detail=""):
    """One line of TAP; what detail ends with is shown when the check failed."""
    results.append(bool(ok))
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {name}", flush=True)
    if not ok:
        print("# " + str(detail)[-3000:].replace("\n", "\n# "), flush=True)


def done():
    print(f"1..{len(results)}")
    sys.exit(not all(results))


def run(*args, expect=None):
    """The finished process. An exit status other than expect is shown; the checks that follow judge
    it."""
    args = [str(a) for a in args]
    p = subprocess.run(args, capture_output=True, text=True, timeout=300)
    if expect not in (None, p.returncode):
        print(f"# {' '.join(args)}: exit {p.returncode}, expected {expect}\n# " + p.stderr[-2000:].replace("\n",
            "\n# "), flush=True)
    return p


def work_folder(name):
    """An empty folder of the test's own."""
    path = f"{build}/ref/{name}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def tiny_policy():
    """Folder of a policy that knows three tasks by heart (tests/rl/tiny_policy.sh); None and a
    failed check when it could not be made."""
    p = run("bash", "-c", ". tests/rl/tiny_policy.sh; tiny_policy")
    if p.returncode:
        check("the policy is made", False, p.stderr)
        return None
    return p.stdout.strip()


def warm_workers(**kinds):
    """For a test of many commands that judge, and not of how workers start: from here on their
    zygotes, or with has_vm the scripts of hone vm, are forked from warm processes (warm_python.py).
    These."""
    import warm_python
    return warm_python.start(**kinds)
