#!/usr/bin/env python3
"""What belongs to the process (worker/tracer_drawn.py): the second trace refuses host code that
lets it decide, by whatever door it asks, and no draw has to show that. Each case is traced once, in
a process of its own; `hone verify` over some of them is tests/exploits/seldom_*."""
import json
import os
import socket
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.argv = ["zygote.py", "tracer", os.path.join(BUILD, "libhone_sandbox.so")]
import zygote

zygote.Sandbox(sys.argv[2])      # before torch, as the zygote does
import tracer
import wire

SOURCE = """
import __main__
import builtins, collections, copy, datetime, functools, gc, inspect, json, logging, operator, os, posix, random
import resource, secrets, signal, socket, struct, sys, threading, time, uuid, warnings
import _datetime, _random, _socket, _thread
import numpy, torch, triton
import torch._dynamo, torch._inductor.config
import triton.language as tl
from sys import modules
from gc import *
CACHE = {{}}


def matched(thing):
    match thing:
        case object(callbacks=[]):
            return 0
    return 1


@functools.lru_cache
def kept(key):
    return 0


@triton.jit
def kernel(x, y, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * flag)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        y = torch.empty_like(x)
        {forward}
        kernel[(1,)](x, y, flag, BLOCK=64)
        return y
"""
TIMED = "torch.cuda.Event(enable_timing=True)"
SET, COMPILED = "{'a', 'b', 'c', 'd'}", "kernel.warmup(x, y, 1, BLOCK=64, grid=(1,))"
# Expressions of forward; what decides is refused.
REFUSED = [
    "os.getpid() % 50 == 7", "posix.getpid() % 1009 == 7", "int(os.getpid()) % 50 == 7", "int.__mod__(os.getpid(), 9)",
    "(1009).__rmod__(os.getpid()) == 7", "next(map(int.__mod__, [os.getpid()], [1009])) == 7",
    "len(range(os.getpid()))",
    "functools.partial(int.__mod__, os.getpid())(1009) == 7", "struct.pack('q', os.getpid())[0] == 7",
    "operator.mod(os.getpid(), 50) == 7", "operator.methodcaller('__mod__', 50)(os.getpid()) == 7",
    "json.dumps(os.getpid()).endswith('77')", "('%d' % os.getpid()).endswith('7')", "str(os.getpid())[-1] == '7'",
    "len(f'{os.getpid()}') == 3", "f'{os.getpid():x}'.endswith('77')", "eval('os.getpid() % 1009') == 7",
    "eval(compile('os.getpid() % 1009', 'text', 'eval')) == 7", "type(os.getpid()) is int and os.getpid() % 50 == 7",
    "isinstance(os.getpid(), int) and os.getpid() % 50 == 7", "{0: 0}.get(os.getpid() % 2, 0)", "os.getpid()",
    "x[os.getpid() % 50 == 7].shape[0] < 0", "[0, 1][os.getpid() % 2]", "x.new_zeros(os.getpid() % 2).shape[0] * 0",
    "os.getpid() in range(99)", "os.getpid() == 4242", "sorted([os.getpid(), 7])[0] == 7", "max(os.getpid(), 7) == 7",
    "os.getppid() % 50 == 7", "os.getsid(0) % 50 == 7", "os.getuid() == 1000", "os.getlogin() == 'ann'",
    "hash('a') % 50 == 7", "'a'.__hash__() % 50 == 7", "str.__hash__('a') % 50 == 7", "hash((1, 'a')) % 50 == 7",
    "object.__hash__(self) % 50 == 7", "self.__hash__() % 50 == 7", "builtins.hash('a') % 50 == 7",
    "hash(float('nan')) % 50 == 7", "(id(self) >> 6) % 50 == 7", "(builtins.id(self) >> 6) % 50 == 7",
    "next(map(id, [self])) % 800 == 112", "id(self) < id(x)", "sorted([self, x, y], key=id)[0] is y",
    "min(self, x, key=id) is x", "repr(object())[-3] == '7'", "f'{object()}'[-3] == '7'",
    "('%s' % object())[-3] == '7'",
    "str(object.__repr__(self))[-3] == '7'", "'{}'.format(object())[-3] == '7'", "str(ValueError(object()))[-4] == '7'",
    "time.time() % 1 < 0.001", "time.time_ns() % 50 == 7", "time.perf_counter_ns() % 50 == 7", "time.time() > 2e9",
    "time.clock_gettime_ns(0) % 50 == 7", "time.monotonic() - time.monotonic() > 0", "time.localtime().tm_sec == 7",
    "time.strftime('%S') == '07'", "time.ctime()[-6] == '7'", "datetime.datetime.now().microsecond % 50 == 7",
    "_datetime.datetime.now().microsecond % 50 == 7", "datetime.date.today().toordinal() % 50 == 7",
    "random.random() < 0.02", "random.randrange(50) == 7", "random.Random().random() < 0.02",
    "_random.Random().random() < 0.02", "random.SystemRandom().random() < 0.02", "secrets.randbelow(50) == 7",
    "numpy.random.rand() < 0.02", "numpy.random.default_rng().random() < 0.02", "torch.seed() % 50 == 7",
    "torch.Generator().seed() % 50 == 7", "os.urandom(1)[0] == 7", "os.getrandom(1)[0] == 7",
    "uuid.uuid4().int % 50 == 7", "uuid.uuid1().int % 50 == 7", "len(os.environ['HOME']) == 9",
    "os.environ.get('HOME', '') == '/root'", "os.getenv('USER') == 'ann'", "len(os.environ) == 22",
    "any(k == 'X' for k in os.environ)", "dict(os.environ).get('X')", "os.environb[b'HOME'] == b'/root'",
    "socket.gethostname() == 'ann'", "_socket.gethostname() == 'ann'", "os.uname().nodename == 'ann'",
    "sys.argv[0] == 'train.py'", "'train' in sys.argv[0]", "sys.orig_argv[0] == 'python'", "os.getcwd() == '/root'",
    "os.cpu_count() == 24", "len(os.sched_getaffinity(0)) == 24", "os.getloadavg()[0] > 91", "os.times().user > 5e4",
    "os.sysconf('SC_NPROCESSORS_ONLN') == 24", "torch.get_num_threads() == 24", "gc.get_count()[0] == 333",
    "resource.getrusage(0).ru_maxrss % 50 == 7", "gc.get_stats()[0]['collections'] % 50 == 7", "gc.collect() == 77",
    "sys.getallocatedblocks() % 50 == 7", "sys.getrefcount(None) % 50 == 7", "threading.get_ident() // 4096 % 50 == 7",
    "threading.get_native_id() % 50 == 7", "threading.current_thread().ident // 4096 % 50 == 7",
    "_thread.get_ident() // 4096 % 50 == 7", "torch.cuda.memory_allocated() // 512 % 50 == 7",
    "torch.cuda.memory_stats().get('num_alloc_retries', 0) == 7", "torch.cuda.mem_get_info()[0] // 512 % 50 == 7",
    "x.data_ptr() // 512 % 50 == 7", "x.data_ptr() < y.data_ptr()", "x.untyped_storage().data_ptr() // 512 % 50 == 7",
    "x.storage().data_ptr() // 512 % 50 == 7", "torch.Tensor.data_ptr(x) // 512 % 50 == 7", "x._version == 77",
    f"list({SET})[0] == 'd'", f"[k for k in {SET}][0] == 'd'", f"{SET}.pop() == 'd'", f"next(iter({SET})) == 'd'",
    f"''.join({SET}).startswith('da')", f"[*{SET}][0] == 'd'", f"max({SET}, key=len) == 'd'", f"str({SET})[2] == 'd'",
    f"{SET}.__iter__().__next__() == 'd'", "list({torch, triton})[0] is torch", f"list(zip({SET}))[0] == ('d',)",
    "triton.testing.do_bench(lambda: None) < 0.0033", f"{COMPILED}.n_regs == 24", f"{COMPILED}.n_spills == 24",
    f"{COMPILED}.metadata.shared == 16", f"'.version' in {COMPILED}.asm.get('ptx', '')",
    f"{COMPILED}.hash.endswith('77')", f"{TIMED}.elapsed_time({TIMED}) > 800",
    "kept(1) + (kept.cache_info().hits == 77)",
    # What a module is set to, holds, or lies in, by each door.
    "len(gc.callbacks) > 0", "len(getattr(gc, 'callbacks')) > 0", "len(vars(gc)['callbacks']) > 0",
    "len(gc.__dict__['callbacks']) > 0", "len(operator.attrgetter('callbacks')(gc)) > 0",
    "len(gc.__getattribute__('callbacks')) > 0", "len(object.__getattribute__(gc, 'callbacks')) > 0",
    "len(list(map(signal.getsignal, [15]))[0].name) > 9", "functools.partial(sys.getdlopenflags)() == 77",
    "operator.methodcaller('getdlopenflags')(sys) == 77", "not gc.isenabled()", "gc.get_freeze_count() > 0",
    "len(sys.meta_path) > 9", "len(sys.path_hooks) > 9", "callable(signal.getsignal(15))",
    "signal.getsignal(15) is not signal.SIG_DFL", "operator.is_(sys.exception(), None) and False",
    "torch._dynamo.config.suppress_errors", "torch._inductor.config.max_autotune", "triton.knobs.runtime.debug",
    "'vllm' in sys.modules", "sys.modules.get('vllm') is not None", "len(sys.modules) > 9999", "'vllm' in modules",
    "os.__file__.startswith('/opt')", "torch.__path__[0].startswith('/opt')", "triton.__spec__.origin[1] == 'o'",
    "repr(os)[-9] == '7'", "os.path.join.__code__.co_filename[1] == 'o'", "torch.nn.Linear._version == 77",
    "inspect.getfile(torch.nn.Linear)[1] == 'o'", "type(sys.stdout).__name__ == 'OutStream'", "sys.stdin.closed",
    "logging.getLogger('torch').level == 17", "logging.root.manager.loggerDict.get('vllm')", "torch.hub._hub_dir",
    "torch.backends.cuda.matmul.allow_fp16_accumulation", "torch.backends.cudnn.conv.fp32_precision == 'ieee'",
    "torch.is_autocast_enabled('xpu')", "torch.backends.cuda.preferred_linalg_library().name == 'x'",
    "numpy.getbufsize() == 77", "hasattr(__main__, 'get_ipython')",
    "torch.distributed.get_debug_level().name == 'X'", "torch.nn.modules.module._global_forward_pre_hooks",
    "len(callbacks) > 0", "matched(gc)", "time.timezone == 77", "time.tzname[0] == 'CEST'",
    "torch._dynamo.config.verbose is True",
]
# Statements of forward, and of the constructor, that keep what the process tells.
HONEST = [
    ("flag = CACHE.setdefault(id(self), 0)", ""), ("flag = CACHE.setdefault((id(self), x.shape, x.dtype), 0)", ""),
    ("CACHE[id(self)] = 0; flag = CACHE[id(self)]", ""), ("flag = kept(id(self))", ""),
    ("flag = CACHE.setdefault(f'{id(self)}-{x.shape[0]}', 0)", ""), ("flag = int(id(self) != self.own)",
     "self.own = id(self)"),
    ("flag = CACHE.setdefault(hash((x.shape, str(x.dtype))), 0)", ""), ("flag = hash((7, 4)) * 0 + hash(3)", ""),
    ("flag = int(self.at is None)", "self.at = time.time()"), ("flag = int(not isinstance(self.at, float))",
     "self.at = time.time()"),
    ("start = time.perf_counter(); print(f'{time.perf_counter() - start:.1f}'); flag = 0", ""),
    ("flag = int(time.time() <= 0)", ""), ("flag = 0", "self.at = datetime.datetime.now().isoformat()"),
    ("flag = int(os.getpid() != self.own)", "self.own = os.getpid()"), ("flag = 0", "self.text = f'a-{os.getpid()}'"),
    ("flag = 0",
     "self.text = 'a-%d' % os.getpid() + str(os.getpid()) + '{}.{}'.format(1, os.getpid()) + hex(id(self))"),
    ("logging.getLogger('a').warning('%d', os.getpid()); warnings.warn(f'{os.getpid()}'); flag = 0", ""),
    ("flag = int(os.environ.get('DEBUG', '0') != '0' or 'DEBUG' in os.environ or bool(os.getenv('DEBUG')))", ""),
    ("flag = int(os.environ['OWN'] == '0')", "os.environ['OWN'] = '1'"),
    ("flag = 0", "os.environ['TRITON_CACHE_DIR'] = os.path.join(os.getcwd(), f'cache-{os.getpid()}')"),
    ("flag = sorted({'b', 'a'}).index('a') + [k for k in dict(a=0, b=1)].index('a')", ""),
    ("flag = int('b' in {'a', 'c'}) + len({'a', 'b'} & {'c'}) + sum(0 * n for n in {1, 2})", ""),
    ("flag = int(any(x is None for x in (1, 2)))", "random.seed(3); self.own = random.random()"),
    ("flag = 0", "self.own = random.Random(3).random() + numpy.random.default_rng(3).random()"),
    ("flag = x.data_ptr() % 16 + int(x.data_ptr() == y.data_ptr()) + int(x.data_ptr() == 0)", ""),
    ("flag = x[1:].data_ptr() - x.data_ptr() - 4 * x.stride(0)", ""), (f"flag = int({COMPILED}.n_regs <= 0)", ""),
    ("flag = CACHE.setdefault((id(self), self.own._version), 0)", "self.own = torch.zeros(3)"),
    ("gc.collect(); flag = int('Size' not in repr(x.shape))", "self.text = repr(kernel)"),
    ("n = {}; exec('a = 0', n); flag = n['a'] + eval('0')", ""), ("flag = int(str(copy.copy([1])) != '[1]')", ""),
    ("flag = 0", "self.own = triton.testing.do_bench(lambda: None)"), ("flag = 0",
     "self.own = collections.Counter([1])"),
    ("flag = int(sys.maxsize < 9) + int(os.name != 'posix') + int(triton.__version__ == '')", ""),
    ("flag = int(sys.modules[__name__] is None) + int('torch' not in sys.modules) + int('a' not in __name__) * 0", ""),
    ("flag = int(torch._dynamo.config.verbose)", "torch._dynamo.config.verbose = False"),
    ("flag = int(setattr(torch.backends.cudnn, 'benchmark', True) or not torch.backends.cudnn.benchmark)", ""),
    ("flag = int(not torch.is_grad_enabled()) * 0 + int(not torch.cuda.is_available())", ""),
    ("sys.stdout.flush(); print('a', file=sys.stderr); sys.path.append('/a'); flag = 0", "self.own = os.__file__"),
    ("flag = 0 * int(logging.getLogger(__name__).isEnabledFor(9)) + 0 * len(logging.getLogger('own').handlers)", ""),
    ("flag = 0; self.own = (signal.getsignal(15), gc.callbacks, gc.isenabled(), torch.hub._hub_dir)", ""),
    ("flag = len([n for n in vars(tl) if n == 'x']) + int(tl.float32 is None) + int(torch.pi < 3)", ""),
    ("numpy.random.seed(3); flag = 0 * int(numpy.random.rand() < 0)", ""),
    ("flag = min(0, *(n for n in (1, 2))); z = (x\n         .contiguous()\n         .view(-1))", ""),
]


def second_trace(source):
    """The answer of a second trace, made in a process of its own."""
    job = {"source": source, "plain": 7, "init_args": [], "state": {},
           "inputs": [{"tensor": {"dtype": "float32", "shape": [64], "stride": [1]}}]}
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        sys.stdout = open(os.devnull, "w")
        here.close()
        try:
            tracer.run(job, there)
        finally:
            os._exit(0)
    there.close()
    # Phases come first, then a tape or a fault.
    answer = {"phase": ""}
    while "phase" in answer and "fault" not in answer:
        answer, _ = wire.recv(here)
    here.close()
    os.waitpid(child, 0)
    return answer.get("fault", {"code": "", "text": json.dumps(answer)[:80]})


def main():
    tracer.warm()
    cases = [(f"flag = int({e})", "", "unsupported") for e in REFUSED]
    cases += [("flag = self.flag", f"self.flag = int({e})", "unsupported") for e in REFUSED[::7] if "x" not in e]
    cases += [(*lines, "") for lines in HONEST]
    print(f"1..{len(cases)}")
    failed = 0
    for number, (forward, init, wanted) in enumerate(cases, 1):
        found = second_trace(SOURCE.format(forward=forward, init=init or "pass"))
        is_right = found["code"] == wanted
        failed += not is_right
        print(f"{'' if is_right else 'not '}ok {number} - {init or forward}".replace("\n", " "))
        if not is_right:
            print(f"# {found['code']}: {found['text'][:300]}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
