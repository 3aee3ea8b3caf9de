"""KernelBench and TritonBench-T from the outside: a checkout, dataset rows (JSONL, Parquet) and
rows with a folder become tasks that keep their problem ids; runs of others are graded and written
in KernelBench's shape, which is read back by formulas of this file. All inputs are made here.
timeout: 600"""
import json, math, os, shutil, sys

sys.path.append("tests")
from command import build, check, done, hone, run, warm_workers, work_folder

work = work_folder("kernelbench")
python = "build/venv/bin/python"

TASK = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return {op}

batch_size = 8
dim = {dim}

def get_inputs():
    x = torch.randn(batch_size, dim)
    return [x]

def get_init_inputs():
    return []
"""
KERNEL = """import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, {value}, mask=mask)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
CUDA = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
__global__ void relu_kernel(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}
torch::Tensor relu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    relu_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
extension = load_inline(name="relu", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=source,
                        functions=["relu"])

class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu(x)
'''
TORCH = ("import torch\nimport torch.nn as nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        "
         "return torch.relu(x)\n")
TASKS = {(1, 3, "Relu"): ("torch.relu(x)", 50), (1, 12, "Twice"): ("x * 2.0", 50),
         (1, 7, "Twice_again"): ("x * 2.0", 50), (1, 20, "Too_large"): ("x + 1.0", 1 << 26),
         (1, 21, "Wide"): ("x.reshape(-1, 1) * x.reshape(1, -1)", 4096), (2, 3, "Square"): ("x * x", 40)}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path


def listed(path):
    p = run(hone, "tasks", "list", path, "--json", expect=0)
    return ({t["name"]: (t["level"], t["problem_id"], t["hash"]) for t in json.loads(p.stdout)["tasks"]}
            if p.returncode == 0 else {})


def test_import():
    rows = []
    for (level, number, name), (op, dim) in TASKS.items():
        source = TASK.format(op=op, dim=dim)
        if number in (20, 21):    # no number that could be lowered: these stay too large
            source = source.replace("torch.randn(batch_size, dim)",
                                    f"torch.randn(int('{8}'), int('{dim}'))").replace(f"batch_size = 8\ndim = {dim}\n",
                                        "")
        write(f"{work}/checkout/KernelBench/level{level}/{number}_{name}.py", source)
        rows.append({"code": source, "level": level, "name": f"{number}_{name}", "problem_id": number})
    write(f"{work}/checkout/scripts/eval_from_generations.py", "print('no task')\n")
    # From a folder, from rows, from Parquet: the same tasks each time.
    p = run(hone, "tasks", "import", f"{work}/checkout", "--out", f"{work}/tasks.jsonl", expect=0)
    tasks = listed(f"{work}/tasks.jsonl")
    want = {f"level{level}/{number}_{name}": (level, number) for level, number, name in TASKS}
    check("a checkout: only its problems, with level and number, also two of one source",
          {n: t[:2] for n, t in tasks.items()} == want, p.stdout + p.stderr + str(tasks))
    p = run(hone, "tasks", "import", f"{work}/checkout", "--out", f"{work}/level2.jsonl", "--level", "2")
    check("--level chooses", list(listed(f"{work}/level2.jsonl")) == ["level2/3_Square"], p.stderr)
    run(hone, "tasks", "import", f"{work}/tasks.jsonl", "--out", f"{work}/tree", expect=0)
    check("a folder keeps them", listed(f"{work}/tree") == tasks)

    write(f"{work}/rows.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    run(hone, "tasks", "import", f"{work}/rows.jsonl", "--out", f"{work}/from_rows.jsonl", expect=0)
    check("rows of the dataset: the same tasks under the same names", listed(f"{work}/from_rows.jsonl") == tasks)
    write(f"{work}/bad.jsonl", json.dumps({**rows[0], "level": "one"}) + "\n")
    p = run(hone, "tasks", "import", f"{work}/bad.jsonl", "--out", f"{work}/x.jsonl", expect=1)
    check("a bad row is named by file, line and field", "bad.jsonl:1" in p.stderr and "level" in p.stderr, p.stderr)

    # pyarrow need not be installed: then the message is looked at.
    make = ("import json, sys, pyarrow, pyarrow.parquet as q; q.write_table(pyarrow.Table.from_pylist([json.loads(l) "
            "for l in open(sys.argv[1])]), sys.argv[2])")
    has_parquet = run(python, "-c", make, f"{work}/rows.jsonl", f"{work}/rows.parquet").returncode == 0
    if not has_parquet:
        write(f"{work}/rows.parquet", "PAR1")
    p = run(hone, "tasks", "import", f"{work}/rows.parquet", "--out", f"{work}/from_parquet.jsonl")
    if has_parquet:
        check("Parquet: the same tasks", p.returncode == 0 and listed(f"{work}/from_parquet.jsonl") == tasks, p.stderr)
        data = open(f"{work}/rows.parquet", "rb").read()
        open(f"{work}/cut.parquet", "wb").write(data[:-7])
        p = run(hone, "tasks", "import", f"{work}/cut.parquet", "--out", f"{work}/x.jsonl", expect=1)
        check("half a Parquet file is refused",
              "not a Parquet file" in p.stderr and not os.path.exists(f"{work}/x.jsonl"), p.stderr)
    else:
        check("without pyarrow: the command that installs it",
              p.returncode == 1 and "pip install --no-deps pyarrow" in p.stderr, p.stderr)


OPERATOR = """import torch

def {name}(input, other, alpha=1, dtype=None):
    return {op}

""" + "#" * 146 + """

import torch
from math import pi as circle, e

class Wide:
    columns = 33

def test_{name}():
    results = {{}}
    unused = circle
    a = torch.randn(6, Wide.columns, device='cuda') + e
    b = torch.rand(6, 33).cuda()
    results["test_case_1"] = {name}(a, b)
    scale = 0.5
    c = torch.tensor([[1.0, -2.0]], device=torch.device('cuda'))
    results["test_case_2"] = {name}(c, c * 2, alpha=scale, dtype=torch.float32)
    return results

test_results = test_{name}()
"""


def test_tritonbench():
    write(f"{work}/TB_T/scaled_sub.py", OPERATOR.format(name="scaled_sub", op="input - alpha * other"))
    write(f"{work}/TB_T/odd.py", "def odd(:\n")
    rows = [{"name": "scaled_sub", "description": "d", "difficulty": 1, "file": "scaled_sub.py"},
            {"name": "odd", "file": "odd.py"}, {"name": "gone", "file": "../rows.jsonl"}]
    write(f"{work}/TB_T.jsonl", json.dumps(rows, indent=4))
    # Of three operators one can be read: it has two test cases.
    p = run(hone, "tasks", "import", f"{work}/TB_T.jsonl", "--out", f"{work}/tb.jsonl", expect=0)
    check("TritonBench-T: a task for each test case, the rest is named",
          list(listed(f"{work}/tb.jsonl")) == ["tritonbench_t/scaled_sub_case1", "tritonbench_t/scaled_sub_case2"]
          and "1 of 3" in p.stderr and "odd.py" in p.stderr and "rows.jsonl" in p.stderr, p.stderr)
    source = run(hone, "tasks", "show", f"{work}/tb.jsonl", "tritonbench_t/scaled_sub_case1").stdout
    check("get_inputs has what the arguments are made from, imports and classes too, and no more",
          "class Wide" in source and "import pi as circle, e" in source and "unused" not in source
          and "results" not in source, source)
    source = run(hone, "tasks", "show", f"{work}/tb.jsonl", "tritonbench_t/scaled_sub_case2").stdout
    # The task's own code runs here over a stand-in for torch that knows what this operator needs.
    space = {}
    exec(compile(source.replace(
        "import torch\n",
        "from types import SimpleNamespace as S\nclass T(list):\n    def __mul__(self, k): return T(v * k for v in "
        "self)\n"
        "    def __rmul__(self, k): return self * k\n"
        "    def __sub__(self, o): return T(a - b for a, b in zip(self, o))\nclass M:\n    pass\n"
        "torch = S(tensor=lambda rows: T(rows[0]), float32=1, nn=S(Module=M))\n"), "task", "exec"), space)
    got = space["Model"]().forward(*space["get_inputs"]()) if "cuda" not in source else None
    check("the case's own arguments reach the operator: [1, -2] - 0.5 * [2, -4]",
          got == [0.0, 0.0] and "dtype=torch.float32" in source and "randn" not in source, (got, source))
    p = run(hone, "tasks", "audit", f"{work}/tb.jsonl", "--num_correct_trials", "2")
    check("the references run on this machine", "case1" in p.stdout and "does not run" not in p.stdout,
          p.stdout + p.stderr)
    shutil.rmtree(f"{work}/TB_T")
    p = run(hone, "tasks", "import", f"{work}/TB_T.jsonl", "--out", f"{work}/x.jsonl", expect=1)
    check("without the folder of operators: what is missing", "TB_T of .py files" in p.stderr, p.stderr)


def evaluate(*more, expect=0):
    p = run(hone, "eval", "--from_runs", f"{work}/runs/one", "--tasks", f"{work}/tasks.jsonl",
            "--num_correct_trials", "2", "--store", f"{work}/cache.db", "--json", *more, expect=expect)
    return p, json.loads(p.stdout) if p.returncode == 0 else {}


def test_runs():
    relu, twice = KERNEL.format(value="tl.maximum(x, 0.0)"), KERNEL.format(value="x * 2.0")
    kernels = {(3, 0): relu, (3, 1): TORCH, (3, 2): CUDA, (3, 3): twice, (12, 0): relu, (12, 1): twice, (12, 2): twice,
               (12, 3): "def broken(:\n", (20, 0): relu, (21, 0): relu, (99, 0): relu}
    for (problem, sample), text in kernels.items():
        write(f"{work}/runs/one/level_1_problem_{problem}_sample_{sample}_kernel.py", text)
    write(f"{work}/runs/one/generation_config.yaml", "run_name: one\n")
    os.mkfifo(f"{work}/runs/one/level_1_problem_3_sample_4_kernel.py")
    with open(write(f"{work}/runs/one/level_1_problem_3_sample_5_kernel.py", ""), "wb") as f:
        f.truncate((64 << 20) + 1)    # a hole, no bytes on the disk
    p, s = evaluate("--out", f"{work}/rows_out.jsonl")
    results = json.load(open(f"{work}/runs/one/eval_results.json")) if s else {}
    found = {(int(k), e["sample_id"]): f'{e["metadata"]["hone"]["verdict"]}/{e["metadata"]["hone"]["reason"]}'
             for k, l in results.items() for e in l}
    want = {(3, 0): "genuine/ok", (3, 1): "cheat/no-jit", (3, 2): "cheat/no-jit", (3, 3): "wrong/mismatch",
            (12, 0): "wrong/mismatch", (12, 1): "genuine/ok", (12, 2): "genuine/ok", (12, 3): "invalid/syntax-error"}
    check("verdicts by problem and sample; infra and strangers are left out",
          found == want and s.get("infra") == 2 and s.get("unmatched") == 1 and s.get("unreadable") == 1
          and s.get("reasons", {}).get("infra/task-too-large") == 2 and
          "problem 99" in p.stderr, (found, s, p.stderr))
    n = len(found) + s.get("infra", 0)
    check("the last line of progress counts all that were graded", f" {n}/{n} kernels" in p.stderr, p.stderr)
    keys = {"sample_id", "compiled", "correctness", "metadata", "runtime", "runtime_stats"}
    check("KernelBench's shape, ids in order, no time is made up", list(results) == ["3", "12"]
          and all(set(e) == keys and e["runtime"] == -1.0 and e["runtime_stats"] == {} and e["correctness"]
                  == (found[int(k), e["sample_id"]] == "genuine/ok") for k, l in results.items() for e in l), results)
    check("its analysis: sample 0 of each problem of the level, fast_p not measured",
          (s.get("total_count"), s.get("total_eval"), s.get("correct_count"), s.get("fast_p", 0),
           s.get("geo_mean_speedup", 0)) == (5, 2, 1, None, None) and s["correctness_rate"] == 0.2, s)
    k = json.load(open(f"{work}/runs/one/pass_at_k_results.json")) if s else {}
    # n = 4 samples, c = 1 and 2 correct: pass@1 = c/n, pass@2 = 1 - C(n-c,2)/C(n,2), pass@4 = 1
    pairs = {"avg_pass@1": (1 / 4 + 2 / 4) / 2, "avg_pass@2": ((1 - 3 / 6) + (1 - 1 / 6)) / 2, "avg_pass@4": 1.0}
    check("pass@k", k.get("averages") and set(k["averages"]) == set(pairs) and all(math.isclose(k["averages"][n], v)
        for n, v in pairs.items()) and k["problems"]["12"]["correct_samples"] == 2
          and k["metadata"]["total_evaluated_samples"] == 8 and k["metadata"]["pass@2_count"] == 2, k)
    rows = ({(r["problem_id"], r["sample"]): r["verdict"] for r in map(json.loads, open(f"{work}/rows_out.jsonl"))} if s
            else {})
    check("--out has a row for each kernel with a task", sorted(rows) == sorted(x for x in kernels if x[0] != 99))
    # 8 x 2^26 floats; (8 x 4096)^2 floats and as many doubles: sums from shapes alone, before any
    # data are made
    check("what is too large is said with its size",
          rows and "are 2048 MiB" in rows[20, 0]["detail"] and "are 12288 MiB" in rows[21, 0]["detail"],
          [rows.get(k) for k in ((20, 0), (21, 0))])
    if rows.get((3, 0), {}).get("sandbox") in ("lsm", "full"):
        p = run(python, "-I", "-c", "import sys; sys.path.insert(0, 'worker'); import rows; "
                f"rows.sandbox('{os.path.abspath(build)}/libhone_sandbox.so'); print('inside', flush=True); open('/"
                f"etc/passwd')")
        check("the reader of other people's rows is sandboxed", "PermissionError" in p.stderr, p.stdout + p.stderr)
    first = open(f"{work}/runs/one/eval_results.json").read()
    evaluate()
    strip = lambda t: [
        {**e, "metadata": {**e["metadata"], "hone": {**e["metadata"]["hone"], "seconds": 0, "cached": 0}}}
        for l in json.loads(t).values() for e in l]
    check("again: its own results are replaced by equal ones",
          s and strip(first) == strip(open(f"{work}/runs/one/eval_results.json").read()))


def test_times():
    stats = {"mean": 2.0, "std": 0.1, "min": 1.9, "max": 2.2, "num_trials": 100, "hardware": "a GPU",
             "device": "cuda:0"}
    measured = {"3": [{"sample_id": 0, "compiled": True, "correctness": False,
                       "metadata": {}, "runtime": 2.0, "runtime_stats": stats}],
                "12": [{"sample_id": 0, "compiled": True, "correctness": True, "metadata": {}, "runtime": 0.5,
                        "runtime_stats": stats}]}
    baseline = {"level1": {"3_Relu.py": {**stats, "mean": 3.0}, "12_Twice.py": stats, "50_Else.py": stats},
                "level2": {}}
    write(f"{work}/gpu/eval_results.json", json.dumps(measured))
    write(f"{work}/baseline.json", json.dumps(baseline))
    more = ("--timings", f"{work}/gpu/eval_results.json", "--baseline", f"{work}/baseline.json")
    p, s = evaluate("--results", f"{work}/timed", *more)
    results = json.load(open(f"{work}/timed/eval_results.json")) if s else {"3": [{}]}
    # two problems are in the baseline; one is genuine at 3.0/2.0 = 1.5, which is not above 1.5; the
    # other's measured 4.0 is of a kernel that hone found wrong
    check("measured times meet hone's verdicts",
          s.get("fast_p") == {"0.0": 0.5, "0.5": 0.5, "0.8": 0.5, "1.0": 0.5, "1.5": 0.0,
                              "2.0": 0.0} and math.isclose(s["geo_mean_speedup"], 1.5)
          and s["timed_count"] == 1 and s["baseline_count"] == 2 and results["3"][0].get("runtime") == 2.0
          and results["3"][0]["runtime_stats"] == stats and results["3"][0]["correctness"] is True, (s, p.stderr))
    check("the baseline's rows of these problems are kept beside, in its shape",
          s and json.load(open(f"{work}/timed/baseline_time.json"))
          == {"level1": {"3_Relu.py": {**stats, "mean": 3.0}, "12_Twice.py": stats}})
    write(f"{work}/timed/baseline_time.json", json.dumps(baseline))
    p, s = evaluate("--results", f"{work}/timed", "--baseline", f"{work}/timed/../timed/baseline_time.json")
    check("a baseline that lies in the folder stays whole",
          s.get("baseline_count") == 2 and json.load(open(f"{work}/timed/baseline_time.json")) == baseline, p.stderr)
    before = open(f"{work}/gpu/eval_results.json").read()
    p, _ = evaluate("--results", f"{work}/gpu", expect=2)
    check("results that hone did not write stay",
          p.returncode == 2 and "--results" in p.stderr and open(f"{work}/gpu/eval_results.json").read() == before,
          p.stderr)
    write(f"{work}/broken.json", json.dumps({"3": [{"sample_id": "zero"}]}))
    p, _ = evaluate("--results", f"{work}/timed", "--timings", f"{work}/broken.json", expect=1)
    check("a broken file of times is named", "broken.json" in p.stderr and "sample_id" in p.stderr, p.stderr)


def test_refusals():
    write(f"{work}/runs/mixed/level_1_problem_3_sample_0_kernel.py", TORCH)
    write(f"{work}/runs/mixed/level_2_problem_3_sample_0_kernel.py", TORCH)
    write(f"{work}/runs/none/level_1_problem_3_sample_x_kernel.py", TORCH)
    write(f"{work}/twins.jsonl",
          "".join(json.dumps({"name": n, "source": TASK.format(op="x + 1", dim=8), "level": 1, "problem_id": 3}) + "\n"
                  for n in ("a", "b")))
    for name, more, status, text in (("two levels", ("mixed",), 2, "--level"),
                                     ("no kernels", ("none",), 1, "level_L_problem_P"),
                                     ("two tasks of one number",
                                      ("mixed", "--level", "1", "--tasks", f"{work}/twins.jsonl"), 2,
                                      "a and b are both problem 3"),
                                     ("a model too", ("mixed", "--model", "m"), 2, "choose one"),
                                     ("an unknown problem",
                                      ("mixed", "--level", "2", "--tasks", f"{work}/from_rows_only_1.jsonl"), 1,
                                      "no kernel belongs")):
        run(hone, "tasks", "import", f"{work}/tasks.jsonl", "--level", "1", "--out", f"{work}/from_rows_only_1.jsonl")
        p = run(hone, "eval", "--tasks", f"{work}/tasks.jsonl", "--from_runs", f"{work}/runs/{more[0]}", *more[1:])
        check(f"refused: {name}", p.returncode == status and text in p.stderr, p.stderr)


warm_workers()
test_import()
test_tritonbench()
test_runs()
test_times()
test_refusals()
done()
