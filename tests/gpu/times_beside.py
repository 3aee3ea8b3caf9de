"""Times of single kernels by three clocks: the GPU's runner (clocks.c), torch's events around a
CUDA graph of the same binary, and Nsight Compute.

usage: times_beside.py FIXTURES RUNNER_TIMES [NCU]

FIXTURES: folder of timed fixtures (make_fixtures.py); RUNNER_TIMES: what `clocks ... times OUT`
wrote. NCU: the program; without it its column is left out. The cache is cold for all three: here
and in the runner other memory is written and read first, Nsight Compute invalidates it
(--cache-control all). Clocks are left alone (--clock-control none). Prints a table, and TAP: of the
tapes of 50 us and more, at least 40, the runner's span less what its clock shows where nothing runs
is within 3 % of each other clock's time; those that are not are listed.
"""
import csv
import ctypes
import io
import json
import os
import random
import statistics
import subprocess
import sys

REPEATS = 21
NCU_REPEATS = 3
LONG_US, SHARE, COUNT = 50, 0.03, 40
NAMES = ("add_one", "chain", "fmas", "row_sum", "strided")


class TorchMemory:
    """Uniform numbers in torch's memory."""

    def __init__(self):
        self.tensors = []

    def address(self, size):
        import torch
        self.tensors.append(torch.rand(size // 4, device="cuda"))
        return self.tensors[-1].data_ptr()


class DriverMemory:
    """Uniform numbers in the driver's memory: 256 KiB of them, one behind the other. What a read
    takes depends a little on the bits that it moves, so they are not all the same number."""
    drawn = (ctypes.c_float * (1 << 16))(*(random.random() for _ in range(1 << 16)))

    def __init__(self, cuda):
        self.cuda, self.blocks = cuda, []

    def address(self, size):
        block, filled = ctypes.c_uint64(), min(size, ctypes.sizeof(self.drawn))
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)))
        check(self.cuda.cuMemcpyHtoD_v2(block, self.drawn, ctypes.c_size_t(filled)))
        while filled < size:      # doubles what is there
            step = min(filled, size - filled)
            check(self.cuda.cuMemcpyDtoD_v2(ctypes.c_uint64(block.value + filled), block, ctypes.c_size_t(step)))
            filled += step
        self.blocks.append(block)
        return block.value

    def free(self):
        for block in self.blocks:
            check(self.cuda.cuMemFree_v2(block))


class Kernel:
    """One fixture, launched through the driver."""

    def __init__(self, folder, name, cuda, memory):
        read = lambda file, mode="r": open(os.path.join(folder, name, file), mode).read()
        tape, binary, image = (json.loads(read("tape.json")), json.loads(read("binaries.json"))[0],
                               read("binaries.bin", "rb"))
        row, buffers = tape["rows"][0], tape["buffers"]
        module, self.function, self.cuda = ctypes.c_void_p(), ctypes.c_void_p(), cuda
        check(cuda.cuModuleLoadData(ctypes.byref(module), image))
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), module, tape["kernels"][0]["name"].encode()))
        self.shared, self.grid, self.threads = binary["shared_bytes"], row["grid"], 32 * binary["num_warps"]
        if self.shared > 48 << 10:
            check(cuda.cuFuncSetAttribute(self.function, 8, self.shared))
        self.memory = memory
        self.values = [ctypes.c_uint64(memory.address(buffers[0]["bytes"])),
                       ctypes.c_uint64(memory.address(buffers[1]["bytes"])), ctypes.c_int32(row["args"][2]["int"]),
                       ctypes.c_uint64(0), ctypes.c_uint64(0)]
        self.parameters = (ctypes.c_void_p * 5)(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in self.values])

    def launch(self, stream):
        check(self.cuda.cuLaunchKernel(self.function, *self.grid, self.threads, 1, 1, self.shared,
                                       ctypes.c_void_p(stream), self.parameters, None))


def check(result):
    if result:
        raise RuntimeError(f"the driver answers error {result}")


def graph_times(folder):
    """{name: microseconds}: events around a graph, behind a gate, so that no gap of the host's lies
    between them."""
    import torch
    out = {}
    torch.zeros(1, device="cuda")
    cuda = ctypes.CDLL("libcuda.so.1")
    # Every launch begins with a cold L2, as the runner's do.
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    flush = torch.empty(3 * l2 // 4, device="cuda")
    gate = torch.zeros(16, dtype=torch.int32, pin_memory=True)
    for name in sorted(os.listdir(folder)):
        kernel = Kernel(folder, name, cuda, TorchMemory())
        graph = torch.cuda.CUDAGraph()
        kernel.launch(torch.cuda.current_stream().cuda_stream)
        with torch.cuda.graph(graph):
            kernel.launch(torch.cuda.current_stream().cuda_stream)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # By turns empty and with the graph: the difference is the kernel's.
        times, empty = [], []
        for i in range(2 * REPEATS):
            kernel.memory.tensors[0].add_(0)      # as the runner writes what the kernel reads before the flush
            flush.fill_(1)
            flush.sum()
            torch.cuda.synchronize()
            gate[0] = 0
            check(cuda.cuStreamWaitValue32_v2(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
                                              ctypes.c_uint64(gate.data_ptr()), 1, 0))
            first.record()
            if i % 2:
                graph.replay()
            last.record()
            gate[0] = 1
            torch.cuda.synchronize()
            (times if i % 2 else empty).append(1e3 * first.elapsed_time(last))
        out[name] = statistics.median(times), statistics.median(empty)
    return out


def plain(folder):
    """What Nsight Compute watches: the same binaries by the driver alone, which starts sooner than
    torch."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    for name in sorted(os.listdir(folder)):
        kernel = Kernel(folder, name, cuda, DriverMemory(cuda))
        for _ in range(NCU_REPEATS):
            kernel.launch(0)
        check(cuda.cuCtxSynchronize())
        kernel.memory.free()


def ncu_times(ncu, folder):
    command = [ncu, "--clock-control", "none", "--cache-control", "all", "--metrics", "gpu__time_duration.sum", "--csv",
               "--kernel-name", "regex:^(" + "|".join(NAMES) + ")$", sys.executable, os.path.abspath(__file__), folder,
               "plain"]
    p = subprocess.run(command, capture_output=True, text=True)
    rows = p.stdout[p.stdout.find('"ID"'):] if '"ID"' in p.stdout else ""
    if not rows:
        print("# Nsight Compute gives no times: " + (p.stdout + p.stderr)[-600:].replace("\n", " "))
        return {}
    found = [(r["Kernel Name"].split("(")[0], float(r["Metric Value"].replace(",", "")), r["Metric Unit"])
             for r in csv.DictReader(io.StringIO(rows))]
    scale = {"nsecond": 1e-3, "usecond": 1, "msecond": 1e3, "ns": 1e-3, "us": 1, "ms": 1e3}
    names = sorted(os.listdir(folder))
    if len(found) != NCU_REPEATS * len(names):
        print(f"# Nsight Compute saw {len(found)} launches, expected {NCU_REPEATS * len(names)}")
        return {}
    return {name: statistics.median(v * scale[unit] for _, v, unit in found[NCU_REPEATS * i:NCU_REPEATS * (i + 1)])
            for i, name in enumerate(names)}


def main():
    folder, ours = sys.argv[1], sys.argv[2]
    if ours == "plain":
        plain(folder)
        return 0
    runner = {o["name"]: o for o in map(json.loads, open(ours))}
    others = {"graph": {n: t - e for n, (t, e) in graph_times(folder).items()}}
    if len(sys.argv) > 3:
        others["ncu"] = ncu_times(sys.argv[3], folder)
    # A table of all tapes; those that are long enough count for the verdicts below.
    print(f"# {'tape':28s} {'runner us':>10s} {'empty':>6s}" + "".join(f" {o:>10s} {'off %':>7s}" for o in others))
    off = {o: {} for o in others}
    long = []
    for name, o in sorted(runner.items()):
        span = 1e6 * (o["span_s"] - o["empty_s"])
        if span >= LONG_US:
            long.append(name)
        text = f"# {name:28s} {span:10.2f} {1e6 * o['empty_s']:6.2f}"
        for other, times in others.items():
            off[other][name] = span / times[name] - 1 if times.get(name) else None
            text += f" {times[name]:10.2f} {100 * off[other][name]:7.2f}" if times.get(
                name) else f" {'-':>10s} {'-':>7s}"
        print(text)
    failed = 0
    for i, other in enumerate(others):
        known = [n for n in long if off[other][n] is not None]
        bad = [n for n in known if abs(off[other][n]) > SHARE]
        ok = len(known) >= COUNT and not bad
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} {i + 1} - {other}: {len(known) - len(bad)} of {len(known)} tapes of "
              f"{LONG_US} us and more are within {100 * SHARE:g} %"
              f"{'; not: ' + ' '.join(bad) if bad else ''}")
    print(f"1..{len(others)}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
