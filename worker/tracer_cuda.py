"""tracer_cuda: what torch.cuda answers in a process that has no GPU.

Candidates ask for the device's name, its multiprocessors, the current stream, and enter `with torch.cuda.device(x.device)`. In the tracer
these answer as an H200 would, and everything that would touch a driver does nothing: there is one stream, nothing runs, nothing waits.
Each answer is a row of a table below.
"""
import types

import torch

from tracer_fault import Unsupported

PROPERTIES = dict(
    name="NVIDIA H200", major=9, minor=0, total_memory=150_109_880_320, multi_processor_count=132, is_integrated=False,
    is_multi_gpu_board=False, max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32,
    regs_per_multiprocessor=65536, shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472, L2_cache_size=62_914_560, gcnArchName="NVIDIA H200",
    clock_rate=1_980_000, memory_clock_rate=3_201_000, memory_bus_width=6144, uuid="00000000-0000-0000-0000-000000000000",
)
TRITON_PROPERTIES = dict(
    max_shared_mem=232448, max_num_regs=65536, multiprocessor_count=132, warpSize=32, sm_clock_rate=1_980_000,
    mem_clock_rate=3_201_000, mem_bus_width=6144,
)


class Stream:
    """The one stream there is. Work is recorded in program order, so streams and events order nothing."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    priority = 0

    def __init__(self, *args, **kwargs):
        self.device = torch.device("cuda", 0)

    def synchronize(self): pass
    def wait_stream(self, stream): pass
    def wait_event(self, event): pass
    def query(self): return True
    def record_event(self, event=None): return event or Event()
    def __enter__(self): return self
    def __exit__(self, *exc): return None
    def __eq__(self, other): return isinstance(other, Stream)
    def __hash__(self): return 0


class Event:
    def __init__(self, *args, **kwargs): pass
    def record(self, stream=None): pass
    def wait(self, stream=None): pass
    def query(self): return True
    def synchronize(self): pass
    def elapsed_time(self, end): return 1.0


class Device:
    """torch.cuda.device(...) and device_of(...): there is one device."""

    def __init__(self, device=None):
        self.idx = 0

    def __enter__(self): return None
    def __exit__(self, *exc): return False


class StreamContext:
    def __init__(self, stream): self.stream = stream
    def __enter__(self): return None
    def __exit__(self, *exc): return None


def _constant(value):
    return lambda *args, **kwargs: value


def _unsupported(what):
    def refuse(*args, **kwargs):
        raise Unsupported(f"{what} is not supported while a candidate is traced")
    return refuse


def install():
    """Replaces torch.cuda's functions by the answers. Called once, in the zygote."""
    props = types.SimpleNamespace(**PROPERTIES)
    stream = Stream()
    answers = dict(
        _lazy_init=_constant(None), init=_constant(None), is_available=_constant(True), is_initialized=_constant(True),
        device_count=_constant(1), current_device=_constant(0), set_device=_constant(None), synchronize=_constant(None),
        _exchange_device=_constant(0), _maybe_exchange_device=_constant(0), _get_device_index=_constant(0),
        get_device_properties=_constant(props), get_device_name=_constant(props.name),
        get_device_capability=_constant((9, 0)), get_arch_list=_constant(["sm_90"]),
        is_bf16_supported=_constant(True), is_tf32_supported=_constant(True), _check_bf16_tensor_supported=_constant(True),
        current_stream=_constant(stream), default_stream=_constant(stream), set_stream=_constant(None), stream=StreamContext,
        Stream=Stream, ExternalStream=Stream, Event=Event, device=Device, device_of=Device, StreamContext=StreamContext,
        empty_cache=_constant(None), ipc_collect=_constant(None), mem_get_info=_constant((props.total_memory, props.total_memory)),
        memory_allocated=_constant(0), max_memory_allocated=_constant(0), memory_reserved=_constant(0),
        max_memory_reserved=_constant(0), reset_peak_memory_stats=_constant(None), memory_stats=_constant({}),
        manual_seed=_constant(None), manual_seed_all=_constant(None), is_current_stream_capturing=_constant(False),
        can_device_access_peer=_constant(False), CUDAGraph=_unsupported("torch.cuda.CUDAGraph"),
        graph=_unsupported("torch.cuda.graph"), make_graphed_callables=_unsupported("torch.cuda.make_graphed_callables"),
    )
    for name, value in answers.items():
        setattr(torch.cuda, name, value)
    torch._C._cuda_getCurrentRawStream = _constant(0)
    torch._C._cuda_getDevice = _constant(0)
    torch._C._cuda_setDevice = _constant(None)
