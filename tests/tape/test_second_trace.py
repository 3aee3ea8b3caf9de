"""What host code can tell a trace by: each fact of the process is another in the second trace, or
in both what an ordinary process shows, or refused.

Both traces run here as the zygote's jobs do, forked from one warm process, without a sandbox. A
candidate evaluates the expressions below in its forward."""
import builtins
import ctypes
import gc
import json
import os
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.argv = ["zygote.py", "tracer", os.path.join(BUILD, "libhone_sandbox.so")]
import zygote

zygote.Sandbox(sys.argv[2])      # before torch, as the zygote does
import torch
import tracer
import tracer_chance
import tracer_clocks
import tracer_cuda
import tracer_driver
import tracer_plain
import tracer_record
import tracer_watch

OTHER = [
    'os.getpid()',
    'os.getppid()',
    'os.getpgrp()',
    'os.getpgid(0)',
    'os.getsid(0)',
    'threading.get_native_id()',
    'threading.main_thread().native_id',
    'threading.get_ident()',
    'threading.main_thread().ident',
    'multiprocessing.current_process().pid',
    'os.cpu_count()',
    'len(os.sched_getaffinity(0))',
    'os.getloadavg()',
    'torch.get_num_threads()',
    'resource.getrlimit(resource.RLIMIT_NOFILE)',
    'time.time() // 1000',
    'time.monotonic() // 1000',
    'time.time_ns() // 10**12',
    'time.strftime("%Y-%m-%d")',
    'time.gmtime()[:3]',
    'datetime.date.today()',
    'datetime.datetime.now().date()',
    'hash("abc")',
    'not hash("abc") & 1',
    'hash(b"abc")',
    'hash(torch.float32)',
    'hash(("a", 1))',
    'id(torch) >> 4',
    '(id(os) >> 7) & 1',
    'gc.isenabled()',
    'sys.argv',
    'sys.orig_argv',
    'sys.path',
    'os.getcwd()',
    'os.environ["HOME"]',
    'os.environ["USER"]',
    'os.uname()',
    'platform.uname()[1:3]',
    '"tracer" in sys.modules',
    '"zygote" in sys.modules',
    'len(sys.modules)',
    'sys.modules["__main__"]',
    'random.random()',
    'numpy.random.rand()',
    'socket.gethostname()',
    'torch.cuda.memory_allocated()',
    'torch.cuda.memory_stats()',
    'type(x) is torch.Tensor',
    'x.data_ptr() >> 9',
    'KERNEL.n_regs',
    'KERNEL.hash',
    'KERNEL.asm.keys()',
    'torch.cuda.Event(enable_timing=True).elapsed_time(torch.cuda.Event(enable_timing=True))',
    'torch.cuda.mem_get_info()[0]',
    'torch.cuda.get_device_properties(0).uuid',
    'torch.cuda.get_rng_state().tolist()',
]
ELSEWHERE = {
    'triton.runtime.driver._default is None': False,
    'triton.compile.__name__': 'compile',
    'triton.compile.__module__': 'triton.compiler.compiler',
    "torch.cuda.mem_get_info.__doc__ is None": False,
    "hasattr(triton.runtime.driver.active, 'launcher_cls')": True,
    "hasattr(triton.runtime.driver.active.utils, 'load_binary')": True,
    "'segment.all.current' in torch.cuda.memory_stats()": True,
    'triton.testing.do_bench.__name__': 'do_bench',
    'torch.cuda.synchronize.__module__': 'torch.cuda',
    'triton.runtime.autotuner.Autotuner.run.__module__': 'triton.runtime.autotuner',
    'hash(7)': 7,
    'hash((1, 2.5))': hash((1, 2.5)),
    'torch._C._len_torch_dispatch_stack()': 0,
    'torch.utils._python_dispatch._get_current_dispatch_mode()': None,
    'torch._C._only_lift_cpu_tensors()': False,
    'torch.backends.cudnn.enabled': True,
    'torch.compile.__module__, torch.compile.__name__': ('torch', 'compile'),
    'torch.cuda.initial_seed() >= 0': True,
    "torch.empty(2, device='cpu').pin_memory().numel()": 2,
}
REFUSED = [
    'list(map(type, [os.getpid]))',
    'next(map(type, iter([os.getpid])))',
    'list(map(type, vars(os).values()))',
    'inspect.getmembers(os, inspect.isfunction)',
    'list(inspect.signature(triton.testing.do_bench).parameters)[1:3]',
    'list(inspect.signature(torch.cuda.mem_get_info).parameters)',
    'type(torch.cuda.get_device_properties(0)).__name__',
    "hasattr(type(KERNEL), 'may_write') or hasattr(type(KERNEL), 'tape_entry')",
    'torch.cuda.current_stream().__class__.__module__',
    'type(triton.runtime.driver.active).__name__',
    'triton.runtime.driver.active.utils.__module__',
    'KERNEL.__class__.__name__',
    'type(os.getpid)',
    'isinstance(time.time, types.BuiltinFunctionType)',
    'inspect.isbuiltin(gc.collect)',
    'os.getcwd.__code__',
    'sys.getrefcount.__class__',
    "getattr(os.cpu_count, '__class__')",
    'type(os.environ)',
    'type(sys.flags)',
    'vars(torch.cuda.synchronize)',
    'torch.cuda.synchronize.__globals__',
    'torch.cuda.Stream.__mro__',
    'isinstance(torch.cuda.current_stream(), torch.Stream)',
    'issubclass(torch.cuda.Stream, torch.Stream)',
    'type(torch.cuda.get_device_properties(0))',
    'isinstance(x, torch.cuda.FloatTensor)',
    "hasattr(triton.runtime.driver.active.utils, 'PyKernelArg')",
    'threading.Thread.ident.fget',
    'triton.compile.__code__.co_filename',
    'triton.testing.do_bench.__defaults__',
    "open('/proc/self/status')",
    "open('/etc/hostname')",
    "os.listdir('/')",
    "os.path.exists('/dev/nvidia0')",
    "pathlib.Path('/proc/uptime').exists()",
    "os.access('/root', 4)",
    'os.stat(0)',
    "importlib.metadata.FastPath('/etc').children()",
    "importlib.metadata.FastPath('/proc').mtime",
    'socket.socket()',
    "subprocess.run(['true'])",
    'os.kill(os.getpid(), 0)',
    'threading.Thread(target=int).start()',
    'ctypes.CDLL(None)',
    'gc.get_objects()',
    'sys._current_frames()',
    'sys._getframe(0)',
    'inspect.stack()',
    'inspect.currentframe().f_back',
]
ALLOWED = [
    'time.perf_counter()',
    "os.environ.get('X')",
    'inspect.getsource(ModelNew)',
    "hash('x')",
    'id(x)',
    'sys.version',
    "importlib.metadata.version('triton')",
    "importlib.metadata.distribution('torch').read_text('METADATA')",
    '__import__("hone_never_compiled").ANSWER',
]
# In the second trace as in an ordinary process, or refused: what tells the first trace alone
# decides what a candidate does there, so the second may not be told by anything.
ORDINARY = {
    "type(torch.Tensor.data_ptr).__name__": "method_descriptor",
    "type(torch.Tensor.device).__name__": "getset_descriptor",
    "[type(getattr(torch.Tensor, n)).__name__ for n in ('to', 'cuda', 'cpu', 'numpy', 'tolist', 'item', 'type')]":
        ["method_descriptor"] * 7,
    "[n for n in ('to', 'device', 'data_ptr', '_version', 'is_cuda', '__getitem__') if n in vars(torch.Tensor)]": [],
    "torch.Tensor.to.__qualname__": "TensorBase.to",
    "torch.Tensor.to.__objclass__ is torch._C.TensorBase": True,
    "type(x.to).__name__": "builtin_function_or_method",
    "torch.Tensor.__getitem__ is torch._C.TensorBase.__getitem__": True,
    "torch.Tensor.__array__.__qualname__": "Tensor.__array__",
    "torch._C.TensorBase.is_cuda.__get__(x)": True,
    "torch._C.TensorBase.device.__get__(x).type": "cuda",
    "type(torch.UntypedStorage.data_ptr).__name__": "method_descriptor",
    "x.untyped_storage().device.type": "cuda",
    "x.storage().type()": "torch.cuda.FloatStorage",
    "x.device is x.device": False,
    "x.untyped_storage().resizable()": True,
    "isinstance(torch.cuda.current_stream(), torch.cuda.Stream)": True,
    "torch.cuda.streams.Stream is torch.cuda.Stream": True,
    "callable(os.getpid)": True,
    "torch.cuda.current_stream() is torch.cuda.current_stream()": False,
    "torch.cuda.current_stream() == torch.cuda.default_stream()": True,
    "triton.runtime.driver.default is triton.runtime.driver.active": True,
    "list(map(type, [1, 'a']))": [int, str],
    "torch.cuda.synchronize.__name__": "synchronize",
    "'pin_memory' in vars(torch.Tensor)": False,
    "torch.empty(1, device='cuda').untyped_storage().is_cuda": True,
    "torch.empty(1).untyped_storage().is_cuda": False,
    "'CPU' in str(torch._C._dispatch_keys(x))": None,
    "torch._C._dispatch_key_set(x)": None,
    "torch._C._nn._parse_to(x)[0].type": None,
    "torch.from_dlpack(x).device.type": None,
    "x[id(x) % 2:]": None,
    "1 if __debug__ else 2": None,
    "__debug__ is not None": True,
    "(lambda v: [v])(3)[0]": 3,
    "__spec__.loader is None": False,
    "__loader__ is None": False,
    "type(__spec__).__name__": "ModuleSpec",
    "os.path.exists(__file__)": None,
    "1 if __builtins__ is vars(builtins) else 2": None,
    "type(id).__name__": "builtin_function_or_method",
    "sorted([x], key=id)[0] is x": True,
    "1 if list(map(id, [x]))[0] % 32 else 2": None,
    "sys.gettrace() is not None": None,
    "sys.getprofile()": None,
    "1 if torch.cuda.device_count() > 1 else 2": None,
    "torch.cuda.device_count() > 0": True,
    "torch.cuda.current_stream().query()": None,
    "torch.cuda.Event().query()": None,
    "sys.stdin.isatty()": None,
}
SOURCE = """import builtins, ctypes, datetime, gc, importlib.metadata, inspect, multiprocessing, numpy, os, pathlib
import platform, random, types, resource, socket, subprocess, sys, threading, time
import torch
import triton


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if not DONE:
            for e in EXPRESSIONS:
                try:
                    value = repr(eval(compile(e, 'candidate.py', 'eval'), globals(), {'x': x}))
                except Exception as error:
                    value = 'raised ' + type(error).__name__
                DONE[e] = (value, FAULT())
        return x
"""
X = {"tensor": {"dtype": "float32", "shape": [16, 1024], "stride": [1024, 1]}}
JOB = {"source": SOURCE, "class": "ModelNew", "init_seed": 42, "init_args": [], "state": {}, "inputs": [X],
       "input_kwargs": {}, "draws": []}


def run(is_plain):
    """{expression: (what it gave, the fault it left)} in a process of its own."""
    r, w = os.pipe()
    pid = os.fork()
    # In the child: the trace as a tracer makes it, with expressions in the candidate's place.
    if pid == 0:
        try:
            gc.disable()
            record = tracer_record.Recorder()

            def fault():
                found, record.fault = record.fault, None
                return found and str(found[0].text)
            builtins.DONE, builtins.FAULT, builtins.EXPRESSIONS = {}, fault, (
                OTHER + list(ELSEWHERE) + list(ORDINARY) + REFUSED + ALLOWED)
            write = os.write
            tracer_cuda.DRAWN.seed()      # as a job does, and takes the card
            tracer_cuda.set_card({})
            tracer_plain.install(77) if is_plain else tracer_clocks.install_first()
            builtins.KERNEL = tracer_driver.TracedKernel.__new__(tracer_driver.TracedKernel)
            builtins.KERNEL.asm = dict(tracer_driver.ASM_MORE, ttir="")
            try:
                tracer.trace(dict(JOB, plain=77) if is_plain else JOB, record, lambda name: None)
            except BaseException as error:
                builtins.DONE.setdefault("fault", (repr(error), None))
            # what belongs to the process is no text there
            data = json.dumps(builtins.DONE, default=lambda value: "drawn").encode()
            while data:
                data = data[write(w, data):]
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        data = f.read()
    os.waitpid(pid, 0)
    return json.loads(data or b"{}")


count = 0


def check(ok, name):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}", flush=True)


# A library that nobody has compiled to bytecode: its loader writes a file beside it, or tries to.
library = tempfile.mkdtemp()
with open(os.path.join(library, "hone_never_compiled.py"), "w") as f:
    f.write("ANSWER = 42\n")
sys.path.append(library)
tracer_watch.READABLE += (library,)
tracer.warm()
first, second = run(False), run(True)
for e in OTHER:
    was = first.get(e, ["nothing"])[0]
    check(e in first and e in second and was != second[e][0], f"{e} is another: {was[:60]}")
for e, value in ELSEWHERE.items():
    for found in (first, second):
        said = found.get(e, ["nothing"])[0]
        check(said == repr(value), f"{e} is as elsewhere: {said[:60]}")
for e, value in ORDINARY.items():
    said, fault = second.get(e, ("nothing", None))
    check(fault is not None if value is None else said == repr(value), f"{e} is as in an ordinary process, or refused: "
          f"{said[:60]} {fault}")
for e in REFUSED:
    check(second.get(e, (0, None))[1] is not None, f"{e} is refused: {second.get(e)}")
for e in ALLOWED:
    value, fault = second.get(e, ("raised", None))
    check(fault is None and not value.startswith("raised"), f"{e} is allowed: {value} {fault}")
check(os.path.isdir(os.path.join(library, "__pycache__")), "the library was compiled meanwhile")
shutil.rmtree(library)
# A generator's state is read by functions that host code cannot put others in the place of.
torch.Tensor.nbytes, torch.Tensor.numel, held = 0, lambda t: 0, ctypes.string_at
ctypes.string_at = lambda *args: b""
before = tracer_chance.state_of(torch.default_generator)
torch.rand(1)
check(tracer_chance.state_of(torch.default_generator) != before, "a draw shows in the state")
del torch.Tensor.nbytes, torch.Tensor.numel
ctypes.string_at = held
# Memory of plain tensors: an address tells which tensor it belongs to, one behind the end, too.
memory, places = tracer_plain.Memory(), []
span = tracer_plain.STEP * tracer_plain.PLACES
for size in (1, span, 2 * span, span - 512, 5, 3 * span, 64 * span, 512, span, span):
    tensor, room, at = memory.tensor_at(size, 7)
    places.append((tensor.data_ptr(), size, tensor))
    room[at] = len(places)
check(all(a % span == 7 * tracer_plain.STEP for a, _, _ in places), "addresses have the bits that were asked for")
check(all(a + n < b or b + m < a for i, (a, n, _) in enumerate(places) for b, m, _ in places[:i]),
      "where one tensor ends no other begins")
check([int(t[0]) for _, _, t in places] == list(range(1, len(places) + 1)), "each has memory of its own")
print(f"1..{count}")
