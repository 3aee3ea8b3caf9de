"""The timer: a task's reference on a GPU, timed as a candidate's tape is
(src/runner/cuda/timing.c), and what the GPU itself can do.

Each mode of the reference (eager, eager with TF32, torch.compile) is a job of its own: one process,
one context, sandboxed as the oracle's, with the GPU's device files beside. It gets the bytes of one
trial's inputs and parameters, answers questions of time until nobody asks, and hands back what its
last forward returned, so that the supervisor can see that what was timed was also right. A
reference is a stranger's code and could lie about its own time: that is the word of whoever chose
the task. No candidate's tape or time is ever here, and no candidate's code but where somebody asks
for it (live.py). docs/worker-protocol.md, "timer", has the messages.

A span is what runs between two events around one forward that is queued as a whole behind a gate,
so that Python's time is not in it: with inputs and state made anew, then the L2 cache filled with
other memory, by writes first and reads last. A forward that waits for the GPU, or queues more than
fits behind a gate, is timed without one and says so (`gated`)."""
import ctypes
import importlib
import mmap
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

import torch

import compile as compiler
import live
import stock
import wire
from oracle_pack import Fault, describe, dtype_name
from oracle_reference import DRAW_SEED, Call, Reference, flatten_outputs, named_tensors, seed_all
from scratch import Scratch

GPU = True
DEVICE = "cuda"
WARM_UP = 3
PAPER_WARM_UP, PAPER_REPEATS = 10, 100
FLUSH_L2_TIMES = 3
GATE_OPENS_BY_ITSELF_S = 1.0     # a forward that is not queued by then does not fit behind the gate
CALIBRATE_BYTES = 1 << 30
CALIBRATE_SIDE = 8192
CALIBRATE_REPEATS = 15
TOOLS = ("cc1", "cc1plus", "collect2", "as", "ld")


def tool_paths():
    """What torch.compile may start: the assembler of Triton's binaries, and the C compiler where it
    wants one for a launcher."""
    found = [compiler.PTXAS, os.path.join(os.path.dirname(torch.__file__), "bin", "ptxas"),
             os.path.realpath("/lib64/ld-linux-x86-64.so.2")]
    for name in ("gcc", "g++"):
        path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if path:
            found += [path, os.path.realpath(path)]
            for tool in TOOLS:
                said = subprocess.run([path, f"-print-prog-name={tool}"], capture_output=True, text=True).stdout.strip()
                said = said if os.path.isabs(said) else shutil.which(said, path="/usr/local/bin:/usr/bin:/bin") or ""
                found += [said, os.path.realpath(said)] if said else []
    return sorted({p for p in found if os.path.exists(p)})


SANDBOX = {"allow_fork": 1, "allow_memfd": 1, "exec_paths": tool_paths()}


def read_paths():
    return compiler.read_paths()


# ---- a folder for each job, for torch.compile ----

scratch = Scratch("hone-timer-")
stop = scratch.remove
before_job, begin, after_job = scratch.before_job, scratch.begin, scratch.after_job


def start():
    """In the zygote, after it dropped root. Triton's own helper for launches is built here, once,
    where a C compiler may run."""
    scratch.make()
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch.root, "triton")
    try:
        from triton.backends.nvidia.driver import CudaUtils
        CudaUtils()
    except Exception:
        pass      # a job of torch.compile says what is missing


# ---- the clock ----

class Clock:
    """Spans of device activity around calls of `work`, after `fresh` has made its data anew."""

    def __init__(self):
        self.stream = torch.cuda.current_stream()
        self.first, self.last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.gate = torch.zeros(16, dtype=torch.int32, pin_memory=True)
        l2 = torch.cuda.get_device_properties(0).L2_cache_size or 1 << 26
        self.flush = torch.empty(FLUSH_L2_TIMES * l2 // 4, dtype=torch.float32, device=DEVICE)
        self.wait_value = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2
        self.wait_value.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint)

    def cold(self, fresh):
        fresh()
        self.flush.fill_(1.0)
        self.flush.sum()
        torch.cuda.synchronize()

    def between_events(self, work):
        self.first.record()
        out = work()
        self.last.record()
        return out

    def elapsed_ns(self):
        self.last.synchronize()
        return int(self.first.elapsed_time(self.last) * 1e6)

    def gated(self, fresh, work):
        """(ns, what work returned, whether the gate held until all was queued). Work that waits for
        the GPU would wait for ever: the gate opens by itself."""
        self.cold(fresh)
        self.gate[0] = 0
        late = []
        timer = threading.Timer(GATE_OPENS_BY_ITSELF_S, lambda: (late.append(True), self.gate.fill_(1)))
        timer.start()
        try:
            if self.wait_value(self.stream.cuda_stream, self.gate.data_ptr(), 1, 0):
                raise Fault("task-unsupported", "the driver has no gate")
            out = self.between_events(work)
        finally:
            self.gate[0] = 1
            timer.cancel()
        ns = self.elapsed_ns()
        torch.cuda.synchronize()
        return ns, out, not late

    def ungated(self, fresh, work):
        self.cold(fresh)
        out = self.between_events(work)
        ns = self.elapsed_ns()
        torch.cuda.synchronize()
        return ns, out

    def wall(self, fresh, work):
        self.cold(fresh)
        start = time.perf_counter_ns()
        out = work()
        torch.cuda.synchronize()
        return time.perf_counter_ns() - start, out

    def paper(self, fresh, work):
        """Back to back and warm, each call between two events: the mean."""
        fresh()
        torch.cuda.synchronize()
        times = []
        for i in range(PAPER_WARM_UP + PAPER_REPEATS):
            self.between_events(work)
            torch.cuda.synchronize()
            times.append(self.elapsed_ns())
        return int(statistics.fmean(times[PAPER_WARM_UP:]))


# ---- a reference ----

def call_like(reference, job):
    """A call of the trial's form. A task that draws sizes gives other ones here, under another seed
    and on another device: then the call is made of its description."""
    call = reference.inputs(job["init_seed"])
    if [describe(v) for v in call.args] == job["inputs"] and {
            k: describe(v) for k, v in call.kwargs.items()} == job["input_kwargs"]:
        return call

    def empty(spec):
        return torch.empty_strided(spec["shape"], spec["stride"], dtype=live.DTYPES[spec["dtype"]], device="meta",
                                   requires_grad=spec["requires_grad"])
    return Call([live.value(v, empty) for v in job["inputs"]],
                {k: live.value(v, empty) for k, v in job["input_kwargs"].items()})


class Timed:
    """The reference with one trial's bytes in it."""

    def __init__(self, job, given):
        self.given, self.trial = given, job["trial"]
        reference = Reference(job["source"], job["init_seed"])
        self.model = reference.model.to(DEVICE)
        if not job["training"]:
            self.model.eval()
        following = iter(self.trial["inputs"])
        self.masters = []       # (what is written to, what with): what forward may have changed
        self.bytes = 0
        self.call = call_like(reference, job).map(lambda t: self.input(t, next(following)))
        self.draws = len(self.trial["inputs"]) - len(self.call.tensors())
        self.state()
        forward = torch.compile(self.model) if job["mode"] == "compile" else self.model
        self.forward = lambda: forward(*self.call.args, **self.call.kwargs)

    def keep(self, to, values):
        """`to` gets the values now and before each replay."""
        to.copy_(values)
        self.masters.append((to, to.clone(memory_format=torch.preserve_format)))
        self.bytes += to.numel() * to.element_size()

    def input(self, t, at):
        values = live.image(self.given, at, t.dtype, t.shape, t.stride())
        to = (torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=DEVICE)
              if 0 not in t.stride() or t.numel() < 2
            else torch.empty(t.shape, dtype=t.dtype, device=DEVICE))
        with torch.no_grad():
            self.keep(to, values)
        return to.requires_grad_(t.requires_grad)

    def state(self):
        given = {p["name"]: p for p in self.trial["params"]}
        with torch.no_grad():
            for name, t in named_tensors(self.model):
                at = given[name]
                values = live.image(self.given, at, t.dtype, t.shape, live.dense_stride(t.shape))
                if at["changes"]:
                    self.keep(t, values)
                else:
                    t.copy_(values)
                    self.bytes += t.numel() * t.element_size()

    def fresh(self):
        with torch.no_grad():
            for to, values in self.masters:
                to.copy_(values)

    def work(self):
        with torch.no_grad():
            return self.forward()


def is_synchronous(timed):
    """Whether forward waits for the GPU: torch says so of its own operators."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        timed.work()
        return False
    except RuntimeError as e:
        if "synchroniz" not in str(e):
            raise
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")


def settle(timed, clock):
    """Warms up; (whether spans are gated, bytes of memory that one forward needs at most)."""
    for _ in range(WARM_UP):
        timed.fresh()
        timed.work()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    timed.work()
    torch.cuda.synchronize()
    memory = torch.cuda.max_memory_allocated() - before + timed.bytes
    gated = not is_synchronous(timed)
    for _ in range(WARM_UP if gated else 0):
        gated = gated and clock.gated(timed.fresh, timed.work)[2]
    return gated, memory


def write_outputs(outputs, memory, places):
    """What the last forward returned, dense, where the supervisor wants it; and what it is."""
    told = []
    for t, at in zip(outputs, places):
        t = t.detach().contiguous().cpu()
        data = t.reshape(-1).view(torch.uint8).numpy() if t.numel() else b""
        if len(data) == at["bytes"]:
            memory[at["offset"]:at["offset"] + at["bytes"]] = bytes(data)
        told.append({"dtype": dtype_name(t), "shape": list(t.shape)})
    return told


def memories(sock):
    """The trial's bytes, of which writes stay here, and the place for outputs."""
    _, fds = wire.recv(sock)
    return mmap.mmap(fds[0], 0, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE), mmap.mmap(fds[1], 0)


def serve_live(job, sock):
    """A candidate's file: no question of time is answered."""
    given, results = memories(sock)
    out = live.Live(job, given, scratch.folder, DEVICE).work()
    torch.cuda.synchronize()
    wire.send(sock, {"ready": {"gated": False, "draws": False, "memory_bytes": 0}})
    question, _ = wire.recv(sock)
    wire.send(sock, {"outputs": write_outputs(flatten_outputs(out), results, question["outputs"])})


def serve_reference(job, sock):
    # The mode decides how products are computed. A first round settles what is cached, and whether
    # forward can be queued as a whole.
    given, results = memories(sock)
    torch.set_float32_matmul_precision("high" if job["mode"] == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = job["mode"] == "tf32"
    timed, clock = Timed(job, given), Clock()
    seed_all(DRAW_SEED)
    gated, memory = settle(timed, clock)
    wire.send(sock, {"ready": {"gated": gated, "draws": timed.draws > 0, "memory_bytes": memory}})
    out = None
    # Questions until the other side closes. Each time forward gets fresh inputs.
    while True:
        try:
            question, _ = wire.recv(sock)
        except EOFError:
            return
        if "outputs" in question:
            timed.fresh()
            out = timed.work() if out is None else out
            wire.send(sock, {"outputs": write_outputs(flatten_outputs(out), results, question["outputs"])})
        # On the GPU's own clock, behind a gate where forward never waits for the GPU.
        elif question["clock"] == "span":
            out = None
            ns, out, held = (clock.gated(timed.fresh, timed.work) if gated
                             else (*clock.ungated(timed.fresh, timed.work), True))
            if not held:
                raise Fault("task-unsupported",
                            "forward waits for the GPU now and then: it has no time without the host's gaps")
            wire.send(sock, {"ns": ns})
        elif question["clock"] == "wall":
            out = None
            ns, out = clock.wall(timed.fresh, timed.work)
            wire.send(sock, {"ns": ns})
        elif question["clock"] == "paper":
            out = None
            wire.send(sock, {"ns": clock.paper(timed.fresh, timed.work)})
        else:
            raise ValueError(f"a question that a timer does not know: {question}")


# ---- the GPU ----

def calibrate():
    """Rates of this GPU: bytes a second of a large copy, read and written together; products of
    square matrices."""
    clock = Clock()
    nothing = lambda: None

    # Each figure is a median, of work whose memory is let go before the next.
    def seconds(work):
        for _ in range(WARM_UP):     # without a gate: what a library sets up at its first call waits for the GPU
            work()
        return statistics.median(clock.gated(nothing, work)[0] for _ in range(CALIBRATE_REPEATS)) * 1e-9

    def copying():
        a = torch.empty(CALIBRATE_BYTES // 4, dtype=torch.float32, device=DEVICE).normal_()
        b = torch.empty_like(a)
        return seconds(lambda: b.copy_(a))

    rates = {"copy_bytes_s": 2 * CALIBRATE_BYTES / copying()}
    n = CALIBRATE_SIDE
    for name, dtype, precision in (("fp32_flops_s", torch.float32, "highest"), ("tf32_flops_s", torch.float32, "high"),
                                   ("bf16_flops_s", torch.bfloat16, "highest")):
        torch.set_float32_matmul_precision(precision)
        x, y = (torch.randn(n, n, device=DEVICE).to(dtype) for _ in range(2))
        out = torch.empty(n, n, dtype=dtype, device=DEVICE)
        rates[name] = 2 * n ** 3 / seconds(lambda: torch.mm(x, y, out=out))
    return rates


# ---- the job ----

def settings(job):
    """Before torch looks for a GPU: the one that is meant, and places to write to."""
    os.environ["CUDA_VISIBLE_DEVICES"] = job["device"]
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["TMPDIR"] = tempfile.tempdir = scratch.folder
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(scratch.folder, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch.folder, "triton")
    torch.set_num_threads(1)


def run(job, sock):
    try:
        settings(job)
        if job["device"] == "cpu":
            stock.serve(job["stock"], sock, "cpu")
            return
        if not torch.cuda.is_available():
            torch.cuda.init()        # says why
            raise Fault("task-unsupported", "torch finds no GPU")
        if "calibrate" in job:
            wire.send(sock, {"rates": calibrate()})
        elif "stock" in job:
            stock.serve(job["stock"], sock, DEVICE)
        elif "live" in job:
            serve_live(job["live"], sock)
        else:
            serve_reference(job, sock)
    except BaseException as e:   # SystemExit too: a task that exits is a broken task
        text = str(e) if isinstance(e, Fault) else f"{type(e).__name__}: {e}"
        wire.send(sock, {"fault": {"text": wire.words(text.replace(scratch.folder, "")[-1500:])}})


def warm(_times):
    """What forks need is imported here: torch.compile's own modules take seconds. Some ask whether
    there is a GPU while they are imported: a process that looked for one can never find another,
    nor can its forks, so here nobody looks."""
    count = torch._C._cuda_getDeviceCount
    torch._C._cuda_getDeviceCount = lambda: 0
    try:
        for name in ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codegen.triton"):
            importlib.import_module(name)
        torch._inductor.config.compile_threads = 1
    finally:
        torch._C._cuda_getDeviceCount = count
