"""tracer_cuda: what torch.cuda answers in a process that has no GPU.

Candidates ask for the device's name, its multiprocessors, the current stream, and enter `with
torch.cuda.device(x.device)`. In the tracer these answer as the card would for which kernels are
compiled (the job's "gpu", a row of the supervisor's table), and everything that would touch a
driver does nothing: nothing runs, nothing waits. Streams and events are kept: each row of the tape
has its stream, and what one stream waits for on another becomes rows (tracer_record).
"""
import copy
import ctypes
import inspect
import random
import types
import uuid

import torch

from tracer_fault import Unsupported

# The card while the zygote warms itself; a job sets its own.
CARD = dict(name="H200", capability=90, sms=132, shared_bytes=232448, memory_bytes=150_109_880_320, l2_bytes=62_914_560,
            clock_hz=1.98e9, dram_bytes_s=4.8e12, bus_bits=6144, l1_bytes=262144, registers=65536, threads=2048)


class Done:
    """Where no recorder is (`hone vm`): whatever a stream or event could wait for has run
    already."""

    def synchronize(self, streams): pass
    def wait_event(self, event, stream): pass
    def record_event(self, event, stream): pass
    def wait_on_host(self, event): pass
    def fail(self, code, text): raise Unsupported(text)


RECORDER = Done()    # the tracer puts its own here: streams and events leave rows in it


DRAWN = random.Random()       # seeded anew in each job


class Properties:
    """What torch._C answers about a device."""


PROPERTIES = Properties()
USED = 1 << 29       # bytes of the device's memory that are taken
STATS = {f"{what}.{pool}.{when}": 0
         for what in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                      "active_bytes", "inactive_split_bytes", "requested_bytes")
         for pool in ("all", "small_pool", "large_pool") for when in ("current", "peak", "allocated", "freed")}
STATS |= {"num_alloc_retries": 0, "num_ooms": 0, "max_split_size": -1, "num_sync_all_streams": 0,
          "num_device_alloc": 0, "num_device_free": 0}


def capability():
    return divmod(CARD["capability"], 10)


def memory_khz():
    """Two transfers a clock."""
    return int(CARD["dram_bytes_s"] * 8 / 2 / CARD["bus_bits"] / 1e3)


def set_card(card):
    """In the job's process, before the candidate's first line: the answers are this card's."""
    CARD.update(card)
    major, minor = capability()
    name = f"NVIDIA {CARD['name']}"
    PROPERTIES.__dict__.update(
        name=name, major=major, minor=minor, total_memory=CARD["memory_bytes"], multi_processor_count=CARD["sms"],
        is_integrated=False,
        is_multi_gpu_board=False, max_threads_per_multi_processor=CARD["threads"], max_threads_per_block=1024,
        warp_size=32,
        regs_per_multiprocessor=CARD["registers"], shared_memory_per_block=49152,
        shared_memory_per_block_optin=CARD["shared_bytes"],
        shared_memory_per_multiprocessor=CARD["shared_bytes"] + 1024, L2_cache_size=CARD["l2_bytes"], gcnArchName=name,
        clock_rate=int(CARD["clock_hz"] / 1e3), memory_clock_rate=memory_khz(), memory_bus_width=CARD["bus_bits"],
        pci_bus_id=DRAWN.randrange(1, 255), pci_device_id=0, pci_domain_id=0,
        uuid=uuid.UUID(bytes=DRAWN.randbytes(16)))


def as_nvidia_smi_says():
    """Name, memory in MiB, clocks of multiprocessors and memory in MHz, compute capability: what
    shim_bin/nvidia-smi answers by."""
    major, minor = capability()
    return (f"NVIDIA {CARD['name']};{CARD['memory_bytes'] >> 20};{CARD['clock_hz'] / 1e6:.0f};"
            f"{memory_khz() // 1000};{major}.{minor}")


def triton_properties():
    return dict(max_shared_mem=CARD["shared_bytes"], max_num_regs=65536, multiprocessor_count=CARD["sms"], warpSize=32,
                sm_clock_rate=int(CARD["clock_hz"] / 1e3), mem_clock_rate=memory_khz(), mem_bus_width=CARD["bus_bits"])


class Stream:
    """Work is recorded in program order, with the stream that it was given to. Its number is drawn:
    one that counts would tell how many calls there were."""

    device_type = 1     # CUDA, in torch's own list

    def __init__(self, *args, **kwargs):
        self.stream_id = DRAWN.randrange(1, 1 << 28)
        self.cuda_stream = self.stream_id << 12
        self.device = torch.device("cuda", 0)
        self.device_index = 0
        self.priority = kwargs.get("priority", 0)

    def synchronize(self): RECORDER.synchronize([self])
    def wait_stream(self, stream): self.wait_event(stream.record_event())
    def wait_event(self, event): RECORDER.wait_event(event, self)
    def query(self): return is_done()

    @staticmethod
    def priority_range(): return 0, -5

    @property
    def native_handle(self): return self.cuda_stream

    @property
    def _as_parameter_(self): return ctypes.c_void_p(self.cuda_stream)

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        self.before = CURRENT[0]
        CURRENT[0] = self

    def __exit__(self, *exc): CURRENT[0] = self.before
    def __eq__(self, other): return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream
    def __hash__(self): return self.cuda_stream


class DefaultStream(Stream):
    """Stream 0 of every tape."""

    def __init__(self):
        super().__init__()
        self.cuda_stream = self.stream_id = 0


class Event:
    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.is_timed = enable_timing

    def record(self, stream=None): RECORDER.record_event(self, CURRENT[0] if stream is None else stream)
    def wait(self, stream=None): RECORDER.wait_event(self, CURRENT[0] if stream is None else stream)
    def query(self): return is_done()
    def synchronize(self): RECORDER.wait_on_host(self)
    def ipc_handle(self): refuse_handle()
    cuda_event = event_id = _as_parameter_ = property(lambda self: refuse_handle())

    @classmethod
    def from_ipc_handle(cls, device, handle): refuse_handle()

    @property
    def device(self): return torch.device("cuda", 0)

    def elapsed_time(self, end):
        if not (self.is_timed and end.is_timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return 10 ** DRAWN.uniform(-3, 3)


DEFAULT = DefaultStream()
CURRENT = [DEFAULT]
CALLER = [DEFAULT]     # the stream on which forward is called: stream 0 of the tape


def external_stream(handle, *args, **kwargs):
    """A stream by its number: one of ours, or nothing that exists."""
    return DEFAULT if handle == 0 else _unsupported("a stream that torch did not make",
                                                     "torch.cuda.Stream() makes one")()


def set_stream(stream):
    CURRENT[0] = DEFAULT if stream is None else stream


def begin(recorder):
    """A new trace in this process."""
    global RECORDER
    RECORDER = recorder
    CURRENT[0] = CALLER[0] = DEFAULT


class Device:
    """torch.cuda.device(...) and device_of(...): there is one device."""

    def __init__(self, device=None):
        self.idx = 0

    def __enter__(self): return None
    def __exit__(self, *exc): return False


class StreamContext:
    def __init__(self, stream): self.stream = stream

    def __enter__(self):
        self.before = CURRENT[0]
        set_stream(self.stream if self.stream is not None else self.before)

    def __exit__(self, *exc):
        CURRENT[0] = self.before


def _constant(value):
    return lambda *args, **kwargs: value


def _unsupported(what, instead):
    """Refuses whoever asks, also where host code has another way: a real run would take this
    one."""
    def refuse(*args, **kwargs):
        RECORDER.fail("unsupported", f"{what} is not supported: {instead}")
    return refuse


NO_GRAPH = "a trace keeps the launches themselves, so launch the kernels in forward as they are"


# Both answers of a query() are right ones: a GPU's clock says which.
is_done = _unsupported("whether the GPU's work is done", "wait for it")
refuse_handle = _unsupported("an event's handle", "let one stream wait for it")


class DeviceGenerator(torch.Generator):
    """The device's generator of random numbers."""

    device = torch.device("cuda", 0)

    def get_offset(self): refuse_generator()
    def set_offset(self, offset): refuse_generator()
    def graphsafe_get_state(self): refuse_generator()
    def graphsafe_set_state(self, state): refuse_generator()
    def get_state(self): return rng_state()


refuse_generator = _unsupported("the state of the device's generator", "seed it and draw")


def record_stream(self, stream):
    """The allocator is told that a stream uses this tensor's memory."""
    if hasattr(self, "_buffer") and hasattr(RECORDER, "memory"):
        RECORDER.memory.tell(self._buffer, stream)


def rng_state(*args):
    """The device's generator: a seed, and how far it has come."""
    return torch.tensor(list(DRAWN.randbytes(8) + bytes(8)), dtype=torch.uint8)


def shows(stand_in, real):
    """What a function says of itself is what the one that it stands for says."""
    if isinstance(stand_in, (types.FunctionType, type)):
        stand_in.__doc__ = getattr(real, "__doc__", None)
    if isinstance(stand_in, types.FunctionType) and isinstance(real, types.FunctionType):
        stand_in.__annotations__, stand_in.__signature__ = real.__annotations__, inspect.signature(real)


def install():
    """Replaces torch.cuda's functions by the answers. Called once, in the zygote."""
    set_card(CARD)
    props = PROPERTIES
    answers = dict(
        _lazy_init=_constant(None), init=_constant(None), is_available=_constant(True), is_initialized=_constant(True),
        device_count=_constant(1), current_device=_constant(0), set_device=_constant(None),
        synchronize=lambda *args, **kwargs: RECORDER.synchronize(None),
        _exchange_device=_constant(0), _maybe_exchange_device=_constant(0), _get_device_index=_constant(0),
        get_device_properties=_constant(props), get_device_name=lambda *args: props.name,
        get_device_capability=lambda *args: capability(), get_arch_list=lambda: [f"sm_{CARD['capability']}"],
        is_bf16_supported=_constant(True), is_tf32_supported=_constant(True),
        _check_bf16_tensor_supported=_constant(True),
        current_stream=lambda *args: copy.copy(CURRENT[0]), default_stream=lambda *args: copy.copy(DEFAULT),
        set_stream=set_stream,
        stream=StreamContext,
        Stream=Stream, ExternalStream=external_stream, Event=Event, device=Device, device_of=Device,
        StreamContext=StreamContext,
        empty_cache=_constant(None), ipc_collect=_constant(None),
        mem_get_info=lambda *args: (props.total_memory - USED, props.total_memory),
        memory_allocated=_constant(0), max_memory_allocated=_constant(0), memory_reserved=_constant(0),
        max_memory_reserved=_constant(0), reset_peak_memory_stats=_constant(None),
        memory_stats=lambda *args: dict(STATS), get_rng_state=rng_state, set_rng_state=_constant(None),
        manual_seed=_constant(None), manual_seed_all=_constant(None), is_current_stream_capturing=_constant(False),
        can_device_access_peer=_constant(False), CUDAGraph=_unsupported("torch.cuda.CUDAGraph", NO_GRAPH),
        graph=_unsupported("torch.cuda.graph", NO_GRAPH),
        make_graphed_callables=_unsupported("torch.cuda.make_graphed_callables", NO_GRAPH),
    )
    for name, value in answers.items():
        shows(value, getattr(torch.cuda, name, None))
        setattr(torch.cuda, name, value)
    # devices that are not there: torch would keep each call's stack as text
    torch.xpu.manual_seed_all = torch.mtia.manual_seed_all = _constant(None)
    # its own takes no stream but torch's
    torch.Tensor.record_stream = record_stream
    torch.cuda._initialized, torch.cuda._queued_calls = True, []
    for name, value in (("current_stream", torch.cuda.current_stream), ("set_stream", set_stream),
                        ("synchronize", torch.cuda.synchronize), ("empty_cache", _constant(None))):
        setattr(torch.accelerator, name, value)
    torch.accelerator.memory.empty_cache = torch.accelerator.empty_cache
    torch._C._cuda_getCurrentRawStream = lambda *args: CURRENT[0].cuda_stream
    torch._C._set_cudnn_enabled(False)
    torch._C._cuda_getDevice = _constant(0)
    torch._C._cuda_setDevice = _constant(None)
