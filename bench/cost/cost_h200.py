"""Predicted against measured time of Triton kernels, variant by variant within a task
(docs/cost-model.md, "Against an H200").

    bench/cost/cost_h200.py --measure    on a machine with a GPU, at most ten minutes: writes
                                         $OUT/measured.json
    bench/cost/cost_h200.py --count      there too: adds ncu's counters to a measured.json that has
                                         times
    bench/cost/cost_h200.py --predict    without a GPU: compiles the same sources for sm_90, counts
                                         on the vm, writes $OUT/predicted.json
    bench/cost/cost_h200.py --compare    reads both and prints, for each task, Kendall's tau and
                                         whether the predicted best is among the fastest

--set MODULE says whose make_tasks: cost_tasks (the default, over which the model's constants were
fitted), cost_holdout (kinds it has never seen), cost_waits (the same work, waited for differently)
or cost_traps (work that is easily overlooked). OUT is build/h200 unless the environment sets it,
for another set build/MODULE.
--tasks A,B restricts to some tasks; --seconds N ends measuring earlier, --go-on continues.

Measured: each variant is checked against PyTorch first; then CUDA graphs of N times (L2 flush,
variant) against N flushes give its time with a cold L2, and graphs of N times the variant its time
with whatever it left there. Medians. Where ncu runs, one pass under it adds DRAM bytes and sectors
of each launch. The microbenchmarks that gave the model its constants run with the default set
alone.
"""
import argparse
import csv
import importlib
import io
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
FITTED = "cost_tasks"
START = time.monotonic()
LIMIT_S = 540          # of --measure: ten minutes less the end
MICRO_S = 240          # of those for the microbenchmarks
MICRO_LIMIT_S = 45     # of one group
COMPILERS = 8
FLUSH_BYTES = 192 << 20
NCU_METRICS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_op_read.sum",
               "lts__t_sectors_op_write.sum"]
NCU_MORE = ["lts__t_sectors_srcunit_tex.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
            "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
            "l1tex__data_pipe_lsu_wavefronts.sum",
            "smsp__inst_executed.sum", "launch__registers_per_thread", "launch__occupancy_limit_registers",
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            "smsp__inst_executed_pipe_xu.sum", "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
            "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum",
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"]


def chosen(options):
    """The tasks that the command line names."""
    tasks = importlib.import_module(options.set).make_tasks()
    names = [n for n in options.tasks.split(",") if n] or list(tasks)
    return {n: tasks[n] for n in names}


def child(options, *what):
    """argv of this program on the same tasks."""
    return [sys.executable, os.path.abspath(__file__), "--set", options.set, "--tasks", options.tasks, *what]


def out_path(name):
    return os.path.join(os.environ["OUT"], name)


def say(text):
    print(f"[{time.monotonic() - START:6.1f} s] {text}", file=sys.stderr, flush=True)


def write_json(name, value):
    os.makedirs(os.environ["OUT"], exist_ok=True)
    path = out_path(name)
    with open(path + ".part", "w") as f:
        json.dump(value, f, indent=1)
    os.replace(path + ".part", path)


# ---- measuring (GPU) ----

def tensors_of(task, device):
    from cost_tasks import fill
    return {name: fill(name, spec, i + 1).to(device) for i, (name, spec) in enumerate(task.tensors.items())}


def bound(launch, tensors):
    return {k: tensors[v] if isinstance(v, str) and v in tensors else v for k, v in launch.args.items()}


def runner(launches, tensors):
    """One call runs the variant and returns its compiled kernels."""
    calls = [(l.kernel[l.grid], dict(bound(l, tensors), num_warps=l.num_warps, num_stages=l.num_stages))
             for l in launches]
    return lambda: [launch(**args) for launch, args in calls]


def graph_of(torch, run, count, between=None):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                if between:
                    between()
                if run:
                    run()
    torch.cuda.synchronize()
    return graph


def replay_us(torch, graph):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    graph.replay()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b) * 1e3


class Clock:
    """Times by graphs; the flush's own graphs are kept."""

    def __init__(self, torch):
        self.torch = torch
        self.flushes = {}
        self.buffer = torch.zeros(FLUSH_BYTES // 4, device="cuda")
        self.sink = torch.zeros(1, device="cuda")
        from cost_micro import k_flush
        self.flush = lambda: k_flush[(FLUSH_BYTES // 4 // 8192,)](self.buffer, self.sink, B=8192, num_warps=8)
        self.flush()

    def flush_graph(self, count):
        if count not in self.flushes:
            self.flushes[count] = graph_of(self.torch, None, count, self.flush)
        return self.flushes[count]

    def warm_us(self, run, count=20, repeats=5):
        graph = graph_of(self.torch, run, count)
        replay_us(self.torch, graph)
        return statistics.median(replay_us(self.torch, graph) for _ in range(repeats)) / count

    def cold_us(self, run, count=20, repeats=7):
        """Flush and run against flush, in turns: drift of the clock cancels."""
        both, alone = graph_of(self.torch, run, count, self.flush), self.flush_graph(count)
        replay_us(self.torch, both)
        replay_us(self.torch, alone)
        differences = [(replay_us(self.torch, both) - replay_us(self.torch, alone)) / count for _ in range(repeats)]
        return statistics.median(differences), max(differences) - min(differences)


def check(torch, task, tensors, expected):
    for name in expected:
        got, want = tensors[name].double(), expected[name].double()
        worst = ((got - want).abs() / (1 + want.abs())).max().item()
        if not worst <= task.tolerance:
            return f"{name} differs by {worst:.3g} (relative to 1 + |expected|), allowed {task.tolerance}"
    return None


def measure_variant(torch, clock, task, tensors, expected, launches):
    for name in task.tensors:
        if task.tensors[name][2] == "zero":
            tensors[name].zero_()
    run = runner(launches, tensors)
    compiled = run()
    torch.cuda.synchronize()
    wrong = check(torch, task, tensors, expected)
    if wrong:
        return {"error": wrong}
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    run()
    b.record()
    torch.cuda.synchronize()
    count = max(3, min(30, int(6e4 / max(a.elapsed_time(b) * 1e3, 1.0))))
    count = 30 if count == 30 else 10 if count >= 10 else 3
    cold, spread = clock.cold_us(run, count)
    return {"cold_us": cold, "cold_spread_us": spread, "warm_us": clock.warm_us(run, count), "count": count,
            "kernels": [{"name": c.metadata.name, "warps": c.metadata.num_warps, "registers": c.n_regs,
                         "spills": c.n_spills, "shared": c.metadata.shared}
                        for c in compiled]}


def measure_tasks(torch, clock, tasks, limit_s, result):
    for name, task in tasks.items():
        tensors = tensors_of(task, "cuda")
        expected = task.reference(tensors)
        rows = result["tasks"].setdefault(name, {})
        for label, launches in task.variants.items():
            if "cold_us" in rows.get(label, {}):
                continue
            if time.monotonic() - START > limit_s:
                rows[label] = {"error": "not measured: out of time"}
                continue
            try:
                rows[label] = measure_variant(torch, clock, task, tensors, expected, launches)
            except Exception as error:
                rows[label] = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
            say(f"{name}/{label}: {rows[label]}")
        del tensors, expected
        torch.cuda.empty_cache()
        write_json("measured.json", result)


def compile_share(torch, tasks, share):
    """A child of --measure: fills Triton's cache with its share of the kernels."""
    work = [l for t in tasks.values() for launches in t.variants.values() for l in launches]
    dtypes = {n: {k: torch.empty(16, dtype=v[1], device="cuda") for k, v in t.tensors.items()}
              for n, t in tasks.items()}
    owner = [n for n, t in tasks.items() for launches in t.variants.values() for _ in launches]
    for i, l in enumerate(work):
        if i % COMPILERS == share:
            try:
                l.kernel.warmup(**bound(l, dtypes[owner[i]]), grid=l.grid, num_warps=l.num_warps,
                                num_stages=l.num_stages)
            except Exception as error:
                print(f"{owner[i]}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)


def compile_all(options):
    children = [subprocess.Popen(child(options, "--compile-share", str(i))) for i in range(COMPILERS)]
    deadline = time.monotonic() + 150
    for one in children:
        try:
            one.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    say("compiled")


def run_once(torch, tasks):
    """Under ncu: every launch of every variant once, in order; the names go to a file."""
    order = []
    for name, task in tasks.items():
        tensors = tensors_of(task, "cuda")
        for label, launches in task.variants.items():
            try:
                runner(launches, tensors)()
                torch.cuda.synchronize()
                order += [[name, label, i, l.kernel.fn.__name__] for i, l in enumerate(launches)]
            except Exception as error:
                print(f"{name}/{label}: {error}", file=sys.stderr)
        del tensors
        write_json("ncu_order.json", order)


def ncu_rows(text):
    """Rows of ncu's raw csv as {name: number}; the row of units is skipped, units are scaled
    away."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if at is None:
        return []
    rows = list(csv.reader(io.StringIO("\n".join(lines[at:]))))
    head, units = rows[0], rows[1]
    scale = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6}
    out = []
    for row in rows[2:]:
        values = {}
        for name, unit, value in zip(head, units, row):
            if "__" in name:
                try:
                    values[name] = float(value.replace(",", "")) * scale.get(unit, 1)
                except ValueError:
                    pass
        out.append([row[head.index("Kernel Name")], values])
    return out


def measure_ncu(options, seconds):
    """DRAM bytes and sectors of each launch; {"error": ...} where ncu cannot run."""
    error = "ncu is not there"
    for metrics in (NCU_METRICS + NCU_MORE, NCU_METRICS):
        left = seconds - (time.monotonic() - START)
        if left < 40:
            return {"error": f"out of time; {error}"}
        argv = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--target-processes", "all", "--kernel-name",
                "regex:^k_",
                "--clock-control", "none", "--metrics", ",".join(metrics), *child(options, "--run-once")]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=left)
            text, error = done.stdout, (done.stdout[-600:] + done.stderr[-600:])
        except FileNotFoundError:
            return {"error": "ncu is not there"}
        except subprocess.TimeoutExpired as stop:
            text, error = (stop.stdout or b"").decode(errors="replace"), "out of time"
        rows = ncu_rows(text)
        if not rows:
            say(f"ncu gave nothing: {error}")
            continue
        with open(out_path("ncu_order.json")) as f:
            order = json.load(f)
        same = all(want[3] == got[0].split("(")[0] for want, got in zip(order, rows))
        return {"in_order": same,
                "launches": [dict(task=w[0], variant=w[1], index=w[2], kernel=g[0], **g[1])
                             for w, g in zip(order, rows)],
                "note": error if "out of time" in error else ""}
    return {"error": error}


def micro_group(torch, name):
    """A child of --measure: one group of microbenchmarks."""
    import cost_micro
    out = {}

    def save(line):
        say(line)
        write_json(f"micro_{name}.json", out)
    cost_micro.GROUPS[name](cost_micro.Micro(Clock(torch), out, save))


def measure_micro(options, result):
    import cost_micro
    for name in cost_micro.GROUPS:
        left = options.seconds - (time.monotonic() - START)
        path = out_path(f"micro_{name}.json")
        if left < 20:
            result["micro"][f"{name}: error"] = "not measured: out of time"
            continue
        if os.path.exists(path):
            os.remove(path)
        group = subprocess.Popen(child(options, "--micro", name))
        try:
            group.wait(min(left, MICRO_LIMIT_S))
        except subprocess.TimeoutExpired:
            group.kill()
            group.wait()
            result["micro"][f"{name}: error"] = "stopped: too long"
        if os.path.exists(path):
            with open(path) as f:
                result["micro"].update(json.load(f))
            os.remove(path)
        write_json("measured.json", result)


def count(options):
    """The pass under ncu alone, beside times that are there already."""
    with open(out_path("measured.json")) as f:
        result = json.load(f)
    result["ncu"] = measure_ncu(options, options.seconds)
    write_json("measured.json", result)
    print(f"ncu: {len(result['ncu'].get('launches', []))} launches {result['ncu'].get('error', '')[:200]}")


def machine(torch):
    p = torch.cuda.get_device_properties(0)
    facts = {"name": p.name, "sms": p.multi_processor_count, "l2_bytes": p.L2_cache_size,
             "memory_bytes": p.total_memory, "torch": torch.__version__,
             "cuda": torch.version.cuda}
    query = "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,driver_version,power.limit"
    try:
        line = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=20).stdout
        facts["nvidia_smi"] = dict(zip(query.split(","), [v.strip() for v in line.splitlines()[0].split(",")]))
    except Exception as error:
        facts["nvidia_smi"] = str(error)
    return facts


def measure(options):
    if not options.compiled:
        compile_all(options)
    import torch
    tasks, has_micro = chosen(options), options.set == FITTED
    result = {"machine": machine(torch), "tasks": {}, "micro": {}, "ncu": {"error": "not run"}}
    if options.go_on and os.path.exists(out_path("measured.json")):
        with open(out_path("measured.json")) as f:
            result["tasks"] = json.load(f)["tasks"]
    clock = Clock(torch)
    measure_tasks(torch, clock, tasks, options.seconds, result)
    result["machine_after"] = machine(torch)
    write_json("measured.json", result)
    del clock
    torch.cuda.empty_cache()
    say("ncu")
    result["ncu"] = measure_ncu(options, options.seconds - has_micro * MICRO_S)
    write_json("measured.json", result)
    if has_micro:
        say("microbenchmarks")
        measure_micro(options, result)
    bad = [f"{t}/{v}: {r['error']}" for t, rows in result["tasks"].items() for v, r in rows.items() if "error" in r]
    print("\n".join(bad + [f"wrote {out_path('measured.json')}: {sum(map(len, result['tasks'].values()))} "
                           f"variants, {len(bad)} of them without a time; ncu: "
                           f"{len(result['ncu'].get('launches', []))} launches "
                           f"{result['ncu'].get('error', '')[:200]}"]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    for flag in ("measure", "count", "predict", "compare", "run-once"):
        what.add_argument(f"--{flag}", action="store_true")
    what.add_argument("--compile-share", type=int)
    what.add_argument("--micro")
    p.add_argument("--set", default=FITTED)
    p.add_argument("--tasks", default="")
    p.add_argument("--seconds", type=float, default=LIMIT_S)
    p.add_argument("--go-on", action="store_true", help="of --measure: keep the times that measured.json has already")
    p.add_argument("--compiled", action="store_true",
                   help="of --measure: Triton's cache has the kernels already (--compile-share was run)")
    o = p.parse_args()
    os.environ.setdefault("OUT", os.path.join(ROOT, "build", "h200" if o.set == FITTED else o.set))
    if o.measure or o.count:
        return measure(o) if o.measure else count(o)
    if o.predict or o.compare:
        import cost_compare
        return cost_compare.predict(chosen(o)) if o.predict else cost_compare.compare(chosen(o))
    import torch
    if o.micro:
        return micro_group(torch, o.micro)
    if o.run_once:
        return run_once(torch, chosen(o))
    return compile_share(torch, chosen(o), o.compile_share)


if __name__ == "__main__":
    main()
