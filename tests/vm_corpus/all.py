"""make test-vm-corpus: installs the libraries into build/corpus and runs each one's cases
(corpus.py) in a process of its own; prints one table.

    build/venv/bin/python tests/vm_corpus/all.py [LIBRARY...]

Ends with 1 when fewer than 95 of 100 kernels that compile run right.
"""
import glob
import json
import os
import subprocess
import sys
import sysconfig

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BUILD", "build/release")
BAR = 0.95


def libraries():
    return sorted(os.path.basename(p)[6:-3] for p in glob.glob(os.path.join(HERE, "cases_*.py")))


def words(library, key):
    """Of a case file's line "# key: words"."""
    with open(os.path.join(HERE, f"cases_{library}.py")) as f:
        return next((line for line in f if line.startswith(f"# {key}:")), ":").split(":", 1)[1].split()


BUILDERS = ["wheel", "setuptools"]     # what packages without a wheel need to be installed


def folder_of(package):
    return os.path.join(ROOT, "build", "corpus", package.partition("==")[0])


def install(package, settings=()):
    """Into a folder of its own: the shared environment must not change with what is tested.
    Packages without a wheel are built with the settings NAME=VALUE, which keep them from
    compiling."""
    folder = folder_of(package)
    if not os.path.isdir(folder):
        print(f"installing {package} into {folder}", file=sys.stderr, flush=True)
        site = sysconfig.get_path("purelib")
        env = dict(os.environ, PYTHONPATH=os.pathsep.join([*map(folder_of, BUILDERS), site]),
                   **dict(s.split("=", 1) for s in settings))
        subprocess.run([os.path.join(ROOT, "build/venv/bin/pip"), "install", "-q", "--no-deps", "--no-build-isolation",
                        "--target", folder, package], check=True, env=env)


def run(library):
    """The library's counts, or None when its cases could not be run."""
    env = dict(os.environ, TRITON_CACHE_DIR=os.path.join(ROOT, "build", "corpus", "cache"),
               HOME=os.path.join(ROOT, "build", "corpus", "home"))
    p = subprocess.run([os.path.join(ROOT, BUILD, "hone"), "vm", "--cuda-shim", os.path.join(HERE, "corpus.py"),
                        library], env=env, stdout=subprocess.PIPE, text=True)
    lines = p.stdout.splitlines()
    for line in lines[:-1]:
        print("  " + line)
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        print(f"  {library}: no result, exit {p.returncode}")
        return None


def main():
    rows = []
    for library in sys.argv[1:] or libraries():
        for package in BUILDERS + words(library, "packages"):
            install(package, words(library, "build"))
        rows.append((library, run(library)))
    print(f"{'library':20} {'cases':>6} {'right':>6} {'kernels compiled':>17} {'run':>5} {'right':>6} {'wrong':>6} "
          f"{'refused':>8}")
    compiled = right = 0
    for library, r in rows:
        if r is None:
            print(f"{library:20} could not be run")
            continue
        done = r["right"] + r["wrong"]
        compiled, right = compiled + done + r["refused"], right + r["right"]
        print(f"{library:20} {sum(r['cases'].values()):6} {r['cases'].get('right', 0):6} {r['compiled']:17} {done:5} "
              f"{r['right']:6} {r['wrong']:6} {r['refused']:8}  {' '.join(r['wrong_kernels'] + r['refused_kernels'])}")
    print(f"right: {right} of {compiled} kernels ({100 * right / max(compiled, 1):.1f} %), bar {100 * BAR:.0f} %")
    sys.exit(any(r is None for _, r in rows) or right < BAR * compiled)


if __name__ == "__main__":
    main()
