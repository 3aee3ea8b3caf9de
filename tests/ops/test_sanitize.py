"""tests/gpu/sanitize.py over a program of cases and a tool that stands in for compute-sanitizer:
what it takes for clean, for the library's own, and for a failure. What a GPU adds is make
sanitize-stages's."""
import os, subprocess, sys, tempfile

count = failed = 0


def check(name, ok, detail=""):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}" + ("" if ok else f"\n# {detail}"))


def sanitize(cases, *options):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "test_x")
        with open(program, "w") as f:
            f.write("#!/bin/sh\nprintf '%s\\n' " + " ".join(cases) + "\n")
        os.chmod(program, 0o755)
        p = subprocess.run([sys.executable, "tests/gpu/sanitize.py", program, "--sanitizer",
                            "tests/gpu/fake_sanitizer.sh", "--logs", f"{folder}/logs", *options],
                           capture_output=True, text=True)
        logs = sorted(os.listdir(f"{folder}/logs")) if os.path.isdir(f"{folder}/logs") else []
        return p.returncode, p.stdout + p.stderr, logs


rc, out, logs = sanitize(["one", "two", "three_cpu", "x_differences", "two"])
check("every case under every tool, once; those without kernels are left out",
      rc == 0 and "\n1..8\n# 8 of 8 clean" in out and "three" not in out and not logs, out)
rc, out, logs = sanitize(["library"], "--tools", "initcheck")
check("the library's own reports are counted, and kept", rc == 0 and "1 reports of the library's" in out
      and logs == ["initcheck_test_x_library.log"], out)
rc, out, _ = sanitize(["both"], "--tools", "initcheck")
check("beside them one of ours fails the case",
      rc == 1 and "not ok 1 - initcheck test_x both: 1 reports of our kernels, 1 of the library's" in out
      and "norm_kernel" in out, out)
rc, out, logs = sanitize(["race", "one"], "--tools", "racecheck")
check("a race fails its case alone", rc == 1 and "# 1 of 2 clean" in out and logs == ["racecheck_test_x_race.log"],
      out)
rc, out, _ = sanitize(["unread"], "--tools", "memcheck")
check("errors that the summary counts and nobody read are a failure", rc == 1 and "3 in the summary" in out, out)
rc, out, _ = sanitize(["lost"], "--tools", "memcheck")
check("so is a case that ended without a result", rc == 1 and "0 ok" in out, out)
rc, out, _ = sanitize(["slow", "one"], "--tools", "memcheck", "--until", "4", "--jobs", "1")
check("what is cut and what was not begun are failures",
      rc == 1 and "cut by time" in out and "not begun" in out and "# 0 of 2 clean" in out, out)
rc, out, _ = sanitize(["one"], "--sanitizer", "no-such-tool")
check("without the tool it says so", rc == 1 and "there is no no-such-tool on the PATH" in out, out)
print(f"1..{count}")
sys.exit(failed > 0)
