"""The halves of cost_h200.py that need no GPU: predictions on the vm, and the comparison with what
was measured."""
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import MockTensor

from cost_tasks import fill

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "worker"))
import compile as compile_worker  # noqa: E402: the verifier's own
OUT = os.environ["OUT"]   # cost_h200.py sees to it
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build", "release"))
GPU = os.environ.get("COST_GPU", "H200")
SKIP = os.environ.get("COST_SKIP", "").split(",")     # variants that are not predicted
CHECK = "check" in os.environ.get("COST_FLAGS", "")   # the vm's outputs against PyTorch too


class NoDevice:
    """A driver that says what to compile for and cannot launch."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):
        return 0


def ttir_of(launch, task):
    """The front end's text, as the tracer's: what follows it is the compile worker's."""
    args = {k: MockTensor(task.tensors[v][1]) if isinstance(v, str) and v in task.tensors else v
            for k, v in launch.args.items()}
    return launch.kernel.warmup(**args, grid=launch.grid, num_warps=launch.num_warps,
                                num_stages=launch.num_stages).asm["ttir"]


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def spec_of(task, launches, names, outputs, folder):
    spec = {"buffers": [], "launches": [], "outputs": []}
    for name in names:
        shape, dtype, how = task.tensors[name]
        size = int(torch.tensor(shape).prod()) * dtype.itemsize
        spec["buffers"].append({"bytes": size} if how == "zero" else {"bytes": size, "file": f"{folder}/{name}.in"})
    for i, launch in enumerate(launches):
        ttir = ttir_of(launch, task)
        job = {"ttir": ttir, "num_warps": launch.num_warps, "num_stages": launch.num_stages, "arch": 90,
               "shared_bytes": 232448, "want_ttgir": True}
        result, _ = compile_worker.compile_ttir(job, folder)
        entry = {"grid": list(launch.grid), "ttir": f"{folder}/{i}.ttir", "compiled": f"{folder}/{i}.json", "args": []}
        with open(entry["ttir"], "w") as f:
            f.write(ttir)
        with open(entry["compiled"], "w") as f:
            json.dump(result, f)
        for param in launch.kernel.params:
            value = launch.args[param.name]
            if param.is_constexpr or (isinstance(value, int) and value == 1):   # specialised away
                continue
            entry["args"].append({"buffer": names.index(value)} if isinstance(value, str) else {"int": value}
                                 if isinstance(value, int) else {"float": value})
        spec["launches"].append(entry)
    spec["outputs"] = [{"buffer": names.index(n), "file": f"{folder}/{n}.out"} for n in outputs]
    return spec


def check(task, folder, expected):
    """Worst difference relative to 1 + |expected| over the outputs."""
    worst = 0.0
    for name in expected:
        shape, dtype, _ = task.tensors[name]
        with open(f"{folder}/{name}.out", "rb") as f:
            got = torch.frombuffer(bytearray(f.read()), dtype=dtype).view(shape).double()
        want = expected[name].double()
        worst = max(worst, ((got - want).abs() / (1 + want.abs())).max().item())
    return worst


def totals(costs):
    """Of a variant's launches, one after another."""
    return {"predicted_us": sum(c["predicted"][GPU]["time_s"] for c in costs) * 1e6,
            "limits": [c["predicted"][GPU]["limit"] for c in costs]}


def predict_task(task, folder):
    names = list(task.tensors)
    tensors = {n: fill(n, spec, i + 1) for i, (n, spec) in enumerate(task.tensors.items())}
    for n in names:
        if task.tensors[n][2] != "zero":
            with open(f"{folder}/{n}.in", "wb") as f:
                f.write(raw(tensors[n]))
    expected = task.reference(tensors) if CHECK else {}
    rows = {}
    for label, launches in task.variants.items():
        if label in SKIP:
            continue
        try:
            with open(f"{folder}/spec.json", "w") as f:
                json.dump(spec_of(task, launches, names, list(expected), folder), f)
            done = subprocess.run([f"{BUILD}/bench/cost/kernel_cost", f"{folder}/spec.json"], capture_output=True,
                                  text=True)
            if done.returncode:
                raise RuntimeError(done.stderr[-400:])
            costs = json.loads(done.stdout)
            worst = check(task, folder, expected)
            rows[label] = {**totals(costs), "difference": worst, "launches": costs}
            if not worst <= task.tolerance:
                rows[label]["error"] = f"differs by {worst:.3g}, allowed {task.tolerance}"
        except Exception as error:
            rows[label] = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        row = rows[label]
        print(f"{task.name:14} {label:16} {row.get('predicted_us', float('nan')):9.2f} us  "
              f"{'+'.join(row.get('limits', []))}  {row.get('error', '')}",
              flush=True)
    return rows


def predict(tasks):
    triton.runtime.driver.set_active(NoDevice())
    torch.set_num_threads(2)
    os.makedirs(OUT, exist_ok=True)
    path = f"{OUT}/predicted.json"
    result = {}
    if os.path.exists(path):
        with open(path) as f:
            result = json.load(f)
    for name in tasks:
        with tempfile.TemporaryDirectory(dir=OUT) as folder:
            result[name] = predict_task(tasks[name], folder)
        with open(path + ".part", "w") as f:
            json.dump(result, f)
        os.replace(path + ".part", path)


# ---- comparison ----

def kendall(pairs):
    """tau-a over (predicted, measured): concordant less discordant pairs, of all."""
    products = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
    return (sum(p > 0 for p in products) - sum(p < 0 for p in products)) / len(products)


def compare_bytes(measured, predicted):
    """Ratios of counted bytes to ncu's, a launch each."""
    rows = []
    for launch in measured.get("ncu", {}).get("launches", []):
        found = predicted.get(launch["task"], {}).get(launch["variant"], {}).get("launches", [])
        if launch["index"] >= len(found):
            continue
        counts, estimate = found[launch["index"]]["counts"], found[launch["index"]]["predicted"][GPU]
        dram = launch.get("dram__bytes_read.sum", 0)   # what a launch wrote is partly still in L2 when it ends
        l2 = 32 * launch.get("lts__t_sectors_srcunit_tex.sum", 0)
        l1 = (launch.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 0)
              + launch.get("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 0)
            + launch.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum", 0))
        rows.append((launch, counts,
                     {"dram": (counts.get("footprint_read", 0), dram), "l2": (estimate["l2_bytes"], l2),
                      "l1": (32 * (counts.get("load_sectors", 0) + counts.get("store_sectors", 0)), 32 * l1)}))
    return rows


def compare(tasks):
    again = subprocess.run([f"{BUILD}/bench/cost/kernel_cost", "--again", f"{OUT}/predicted.json"], capture_output=True,
                           text=True, check=True)
    predicted = json.loads(again.stdout)
    for rows in predicted.values():
        for row in rows.values():
            if "launches" in row:
                row.update(totals(row["launches"]))
    if not os.path.exists(f"{OUT}/measured.json"):
        return print(f"{OUT}/measured.json is not there: run --measure on a machine with a GPU first")
    with open(f"{OUT}/measured.json") as f:
        measured = json.load(f)
    taus, bests = {}, {}
    print(f"{'task':14} {'variants':>8} {'tau':>6} {'measured best':>20} {'predicted best':>20} {'ratio':>6}")
    for name in [n for n in tasks if n in predicted]:
        both = {v: (p["predicted_us"], measured["tasks"][name][v]["cold_us"]) for v, p in predicted[name].items()
                if "predicted_us" in p and "cold_us" in measured["tasks"].get(name, {}).get(v, {})}
        if len(both) < 2:
            continue
        best, chosen = min(both, key=lambda v: both[v][1]), min(both, key=lambda v: both[v][0])
        taus[name], bests[name] = kendall(list(both.values())), both[chosen][1] / both[best][1]
        print(f"{name:14} {len(both):8} {taus[name]:6.2f} {best:>20} {chosen:>20} {bests[name]:6.2f}")
        if "-v" in os.environ.get("COST_FLAGS", ""):
            for v in sorted(both, key=lambda v: both[v][1]):
                row, (model, real) = predicted[name][v], both[v]
                parts = " | ".join(" ".join(f"{k} {x * 1e6:.1f}"
                                            for k, x in c["predicted"][GPU]["parts_s"].items() if x > 1e-7)
                                   for c in row["launches"])
                print(f"    {v:18} measured {real:9.2f} us, predicted {model:9.2f} us ({model / real:5.2f}x, "
                      f"{'+'.join(row['limits'])}; {parts})")
    if not taus:
        return print("nothing to compare")
    good = sum(r <= 1.2 for r in bests.values())
    print(f"{len(taus)} tasks: median tau {statistics.median(taus.values()):.2f}, worst {min(taus.values()):.2f} "
          f"({min(taus, key=taus.get)}); "
          f"predicted best within 1.2x of the measured best in {good} of {len(bests)} ({100 * good / len(bests):.0f} "
          f"%)")
    rows = compare_bytes(measured, predicted)
    for level in ("dram", "l2", "l1"):
        ratios = [a / b for _, _, r in rows for a, b in [r[level]] if a and b]
        if ratios:
            near = sum(0.9 <= x <= 1.1 for x in ratios)
            print(f"{level}: {len(ratios)} launches, counted over ncu's bytes: median {statistics.median(ratios):.3f},"
                  f" within 10 % in {near}")
