"""timeout: 1800
The tracer through the real zygote: every honest kernel of the share of tests/known_good
(tests/share.py) gives a valid tape of kernels and movement, the same one in two zygotes; every
fault has its code; torch's own work never looks like a kernel's."""
import json
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), "tests"]
import faults
import hidden_compute
import share
import styles
import zygote_client as client

CHECKER = os.path.join(client.BUILD, "tests/tape/test_tape")
X = {"tensor": {"dtype": "float32", "shape": [8, 16], "stride": [16, 1]}}
W = {"tensor": {"dtype": "float32", "shape": [16, 16], "stride": [16, 1]}}


def job(source, inputs=(X,), **more):
    return dict({"source": source, "init_args": [], "state": {}, "inputs": list(inputs)}, **more)


def read(path):
    with open(path) as f:
        return f.read()


def check_in_c(texts):
    """What the C parser says about each tape: "ok HASH LINEAGE" or an error."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{i}.json") for i in range(len(texts))]
        for path, text in zip(paths, texts):
            with open(path, "w") as f:
                f.write(text)
        return subprocess.run([CHECKER, *paths], capture_output=True, text=True).stdout.splitlines() if texts else []


def test_known_good(tap, zygote, other):
    names, tapes, again = [], [], []
    folders = [f for f in client.KNOWN_GOOD if share.is_in(os.path.basename(f.rstrip("/")))]
    for i, folder in enumerate(folders):
        name = os.path.basename(folder.rstrip("/"))
        task = read(os.path.join(folder, "task.py"))
        if "cuda" in task or "randn_like" in task:      # the oracle says what forward draws
            tap.skip(f"known good: {name}", "its reference runs in the oracle alone; verify/test_known_good grades it")
            continue
        task_job = client.task_job(os.path.join(folder, "task.py"), read(os.path.join(folder, "candidate.py")))
        first = zygote.result(task_job)
        second = other.result(task_job) if i % 3 == 0 else first   # every third in a second zygote too
        if "tape" not in first or "tape" not in second:
            tap.check(False, f"known good: {name}", first if "tape" not in first else second)
            continue
        names.append(name)
        tapes.append(first["tape"])
        again.append(second["tape"])
    # What the C parser says of each tape, and that no path of this machine stands in one.
    verdicts = check_in_c(tapes)
    for name, verdict, a, b in zip(names, verdicts, tapes, again):
        where = [f for k in json.loads(a)["kernels"] for f in k["ttir"].split('loc("')[1:] if f.startswith("/")]
        tap.check(verdict.startswith("ok ") and verdict.endswith(" ok") and a == b and not where, f"known good: {name}",
                  f"{verdict}; equal in two zygotes: {a == b}; paths {where[:1]}")
    total = len(client.KNOWN_GOOD)
    tap.check(total >= 300 and share.is_right(len(folders), total), f"{len(folders)} of {total} known good kernels")
    tap.check(len(names) >= 0.8 * len(folders), "nearly all of them are traced here", len(names))
    if len(folders) < total:
        tap.skip(f"the other {total - len(folders)} of {total} known good kernels", "make test-corpora traces them")


def test_styles(tap, zygote):
    for case in styles.CASES:
        result = zygote.result(job(styles.source(*case)))
        rows = json.loads(result["tape"])["rows"] if "tape" in result else []
        tap.check("tape" in result and any(r["op"] == "launch" for r in rows) and not any(r["op"] == "library"
            for r in rows), f"style: {case[0]}", result)


def test_faults(tap, zygote):
    for name, code, text, source in faults.FAULTS:
        result = zygote.result(job(faults.source(source)))
        fault = result.get("fault", {})
        fields = {"phase", "code", "type", "text", "line"}
        ok = (fault.get("code") == code and text in fault["text"] and set(fault) == fields
              and len(fault["text"]) <= 2048 and result["status"]["status"] == 0)
        tap.check(ok, f"fault: {name}", result)


def test_fault_lines(tap, zygote):
    line = faults.source("").count("\n") + 2
    for name, body, expected in (
            ("of an exception", "class ModelNew(nn.Module):\n    def forward(self, x): raise ValueError('here')\n",
             line), ("of a fault", "class ModelNew(nn.Module):\n    def forward(self, x): return x.item()\n", line),
            ("inside a kernel",
             "@triton.jit\ndef k(x):\n    a = 1\n    tl.store(x, oops)\n\nclass ModelNew(nn.Module):\n    def "
             "forward(self, x):\n"
             "        k[(1,)](x)\n        return x\n", line + 2),
            ("of a kernel's call that Triton's library refuses",
             "@triton.jit\ndef k(x):\n    a = 1\n    tl.store(x, tl.max(tl.load(x), axis=1))\n\n"
             "class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x)\n        return x\n", line + 2),
            ("inside a jitted function that a kernel calls",
             "@triton.jit\ndef f(x):\n    return x + oops\n\n@triton.jit\ndef k(x):\n    tl.store(x, f(1))\n\n"
             "class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x)\n        return x\n", line + 1),
            ("of a syntax error", "a = 1\nb = = 2\n", line),
            ("of an import error", "a = 1\nimport nonsense\n", line),):
        fault = zygote.result(job(faults.source(body))).get("fault", {})
        tap.check(fault.get("line") == expected, f"line {name}", f"{fault}, expected line {expected}")


def test_hidden_compute(tap, zygote):
    for name in hidden_compute.CASES:
        result = zygote.result(job(hidden_compute.source(name), (X, W)))
        rows = json.loads(result["tape"])["rows"] if "tape" in result else []
        tap.check("fault" in result or any(row["op"] == "library" for row in rows), f"hidden compute: {name}",
                  result if not rows else [r["op"] for r in rows])
    plain = zygote.result(job(hidden_compute.PREAMBLE.format(body="return launch(x)", init="pass", top=""), (X, W)))
    tap.check([r["op"] for r in json.loads(plain["tape"])["rows"]] == ["launch"],
              "the same kernel without hidden compute is a launch alone", plain)


LAUNCH = (faults.HEAD
          + "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n{init}\n\n    def "
          "forward(self, x):\n{body}\n")


def traced(zygote, body, init="        pass", **more):
    indent = "\n".join("        " + line for line in body.split("\n"))
    result = zygote.result(job(LAUNCH.format(body=indent, init=init), **more))
    return json.loads(result["tape"]) if "tape" in result else result


def test_constants_in_forward(tap, zygote):
    """Bytes of the fills that stand in for what a forward makes of constants: by a device's own
    operators as they are, from the host's memory 80 times as many, in pieces of at most 32 MiB."""
    use = "y = torch.empty_like(x)\ncopy_kernel[(1,)]({}, y, 4, BLOCK=64)\nreturn y"
    init = "        self.host, self.there = torch.ones(1 << {0}), torch.ones(1 << {0}).cuda()"

    def fills(what, bits=10):
        tape = traced(zygote, use.format(what), init.format(bits))
        return [r["dst"]["shape"][0] for r in tape.get("rows", ()) if r["op"] == "fill"] or tape

    tap.check(fills("torch.arange(1024., device=x.device)") == [4096], "an operator of the device's")
    for what in ("self.host.to(x.device)", "self.host.cuda()", "torch.empty(1024, device='cuda').copy_(self.host)"):
        found = fills(what)
        tap.check(isinstance(found, list) and 80 * 4096 <= sum(found) <= 83 * 4096, f"from the host: {what}", found)
    tap.check(not isinstance(fills("self.there"), list), "what the constructor moved is there")
    large = fills("self.host.to(x.device)", 20)
    tap.check(isinstance(large, list) and sum(large) >= 79 << 22 and 1 << 24 <= max(large) < 1 << 25,
              "much of it: one piece again and again", large)


def test_parameters(tap, zygote):
    state = {"w": {"dtype": "float32", "shape": [16]}, "fc.bias": {"dtype": "float32", "shape": [4]}}
    init = ("        self.w = nn.Parameter(torch.ones(16))\n        self.fc = nn.Linear(3, 4)\n        self.also = "
            "self.w")
    use = ("y = torch.empty_like(x)\nfor t in (self.also, self.fc.bias, self.fc.weight):\n    copy_kernel[(1,)](t, y, "
           "4, BLOCK=64)\nreturn y")
    tape = traced(zygote, use, init, state=state)
    kinds = [(b["kind"], b.get("name")) for b in tape["buffers"]]
    tap.check(kinds == [("input", None), ("param", "w"), ("temp", None), ("param", "fc.bias"), ("const", "fc.weight")],
              "parameters by name, others as constants", tape.get("buffers"))
    tap.check(tape["buffers"][4]["bytes"] == 48 and len(tape["buffers"][4]["data"]) == 64,
              "a constant comes with its contents")
    tape = traced(zygote, use, init,
                  state={"w": {"dtype": "float16", "shape": [16]}, "fc.bias": {"dtype": "float32", "shape": [5]}})
    tap.check([b["kind"] for b in tape["buffers"]] == ["input", "const", "temp", "const", "const"],
              "another shape or type is not the same parameter", tape.get("buffers"))
    a = traced(zygote, use, init, init_seed=1)
    b, c = traced(zygote, use, init, init_seed=1), traced(zygote, use, init, init_seed=2)
    tap.check(a == b and a != c, "contents follow init_seed and nothing else")
    tap.check("fault" in traced(zygote, "return launch(x) if self.w[0] > 0 else x", init),
              "a parameter's value cannot be read, matched or not")


def test_launch_arguments(tap, zygote):
    kernel = ("@triton.jit\ndef k(a, none, one, n, f, flag, big, t, C: tl.constexpr):\n    if none is None:\n"
              "        tl.store(a + n, f + one + tl.where(flag, 1.0, 0.0) + big.to(tl.float32) + t[0] + t[1])\n\n\n")
    # Every kind of argument in one launch.
    source = (faults.HEAD + kernel + (
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.zeros_like(x)[1:]\n"
        "        k[(3, 2)](y, None, 1, 40, 2.5, True, 1 << 40, (7, 8.5), C=3, num_warps=8)\n        return y\n"))
    result = zygote.result(job(source))
    tape = json.loads(result.get("tape", "{}"))
    launch = tape["rows"][-1] if tape else result
    expected = [{"buffer": 1, "offset": 64}, {"int": 40}, {"float": 2.5}, {"int": 1}, {"int": 1 << 40}, {"int": 7},
                {"float": 8.5}]
    tap.check(launch.get("args") == expected and launch["grid"] == [3, 2, 1],
              "arguments: constants and None leave, tuples spread, order stays", launch)
    tap.check(tape["kernels"][0]["num_warps"] == 8 and launch["line"] > 0, "options and line of a launch")
    signature = tape["kernels"][0]["ttir"].split("@k(")[1].split(") attributes")[0]
    tap.check(signature.count("%") == len(expected), "as many arguments as the IR's function has", signature)
    # An autotuner, by itself and told what to launch.
    autotuned = next(f for f in client.KNOWN_GOOD if f.endswith("/autotune_elementwise/"))
    tuner = client.task_job(autotuned + "task.py", read(autotuned + "candidate.py"))
    result = zygote.result(tuner)
    tape, tuned = json.loads(result["tape"]), result["tuned"]
    tap.check(tape["kernels"][0]["configs"] == 3, "the number of configurations is kept", tape["kernels"][0])
    tap.check(len(tuned) == 3 and tuned[0].startswith("half_max(") and tuned[1:] == [3, 0],
              "an autotuner says what it could choose from, and what it launched", tuned)
    for key in (tuned[0], "half_max"):
        result = zygote.result(dict(tuner, choices={key: 2, "other": 1}))
        kernel = json.loads(result["tape"])["kernels"][0]
        tap.check(kernel["num_warps"] == 8 and result["tuned"][1:] == [3, 2],
                  f"the configuration that is chosen for {key} is launched", kernel)
    kernel = json.loads(zygote.result(dict(tuner, choices={tuned[0]: 3}))["tape"])["kernels"][0]
    tap.check(kernel["num_warps"] == 2, "one that is not there is the first", kernel)


def main():
    tap = client.Tap()
    zygote, other = client.Zygote("tracer"), client.Zygote("tracer")
    test_known_good(tap, zygote, other)
    tap.check(other.close() == 0, "a second zygote ends")
    test_styles(tap, zygote)
    test_faults(tap, zygote)
    test_fault_lines(tap, zygote)
    test_hidden_compute(tap, zygote)
    test_constants_in_forward(tap, zygote)
    test_parameters(tap, zygote)
    test_launch_arguments(tap, zygote)
    tap.check(zygote.close() == 0, "the zygote ends")
    return tap.done()


sys.exit(main())
