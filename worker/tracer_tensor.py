"""tracer_tensor: the tensors a candidate computes with while it is traced, and what happens to each
torch operator over them.

A TraceTensor is a torch.Tensor on cuda:0 without contents: a wrapper subclass around an inner
tensor that lives on the meta device (or, while its buffer is known, on the CPU). torch's own
kernels for those devices give shape, strides, type and aliasing; this file only decides what the
operator means for the tape:
  value read     a scalar or a data-dependent shape out of an unknown tensor: fault `data-dependent`
  random         fault `random`, except while the module is built
  known          every operand is known: it ran already, nothing to record
  view           the result shares its operand's storage: nothing to record
  allocation     a new buffer (empty), or one with a late fill (zeros, full)
  movement       copies and fills (tracer_movement.py)
  anything else  a library row
"""
import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

import draw_law
import tracer_chance
import tracer_cuda
from tracer_operators import (EMPTY_OPS, FILL_OPS, IGNORED_OPS, LAZY_OPS, LIBRARY_NAMESPACES, PINNED_OPS,
                              UNSUPPORTED_OPS, VIEWED_IN_PLACE, argument, custom_body, is_dead_dropout, is_pure,
                              is_view, tag_names)
from tracer_record import ADDRESS_SHIFT, DTYPE_NAMES, HOST_BYTES, candidate_line, number_text

CUDA = torch.device("cuda", 0)
META = torch.device("meta")
CPU = torch.device("cpu")
# Operators inside go past all modes, as under torch's _disable_current_modes(), which takes the
# modes off and puts them on again in Python.
without_modes = torch._C._DisableTorchDispatch


class TraceTensor(torch.Tensor):
    """A CUDA tensor without contents."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, buffer, tracer, requires_grad=False):
        self = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(),
                                                   storage_offset=inner.storage_offset(), dtype=inner.dtype,
                                                   device=CUDA, requires_grad=requires_grad)
        self._inner = inner
        self._buffer = buffer
        self._tracer = tracer
        if tracer.rec.memory.is_watched:
            tracer.rec.memory.show(self, buffer)
        return self

    def inner(self):
        """The tensor behind this one; rebuilt when its buffer was frozen, or made known, since."""
        inner = self._inner
        storage = self._buffer.storage
        if inner.device != storage.device:
            inner = torch.empty(0, dtype=inner.dtype, device=storage.device).set_(storage, inner.storage_offset(),
                inner.shape, inner.stride())
            self._inner = inner
        return inner

    def view_tuple(self):
        """(buffer, offset in bytes, dtype, shape, stride): how rows name a view."""
        return (self._buffer, self.storage_offset() * self.dtype.itemsize, self.dtype, tuple(self.shape),
                tuple(self.stride()))

    def data_ptr(self):
        rec = self._tracer.rec
        self._tracer.refuse_addresses(self)
        return ((rec.number(self._buffer) + 1) << ADDRESS_SHIFT) + self.storage_offset() * self.dtype.itemsize

    def numpy(self, *args, **kwargs):
        return self._tracer.read_value(self, "numpy()").numpy(*args, **kwargs)

    def tolist(self):
        return self._tracer.read_value(self, "tolist()").tolist()

    def __array__(self, *args, **kwargs):
        return self._tracer.read_value(self, "numpy conversion").numpy()

    def __repr__(self, **kwargs):
        return f"tensor(..., device='cuda:0', shape={tuple(self.shape)}, dtype={self.dtype})"

    def __format__(self, spec):
        return repr(self)

    def __reduce_ex__(self, protocol):
        self._tracer.rec.fail("unsupported", "pickling a CUDA tensor is not supported while a candidate is traced")

    def __deepcopy__(self, memo):
        return self.clone()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return TRACER.dispatch(func, args, kwargs or {})


_DATA = torch._C.TensorBase.data


def _set_data(self, value):
    """t.data = value, also where one of the two is an ordinary tensor: module.cuda() does that to
    parameters. The object stays, what is behind it changes."""
    _DATA.__set__(self, value)
    if isinstance(value, TraceTensor):
        if type(self) is not TraceTensor:
            is_parameter = isinstance(self, torch.nn.Parameter)
            self.__class__ = TraceTensor
            self._is_param = is_parameter
        self._inner, self._buffer, self._tracer = value._inner, value._buffer, value._tracer


class Engine:
    """torch's engine for backward passes. Over CUDA tensors it asks the driver for streams and
    threads: there is none here, and it would end the process."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def run_backward(self, tensors, *args, **kwargs):
        if TRACER is not None and any(t.is_cuda for t in tensors):
            TRACER.rec.fail(
                "unsupported",
                "forward runs a backward pass of torch's autograd (torch.autograd.grad, backward, torch.func.grad); "
                "its operators are torch's own: write the gradient as kernels")
        return self._real.run_backward(tensors, *args, **kwargs)


def compile_nothing(*args, **kwargs):
    """In place of torch.compile. Inside what it returns, host code could do other work than outside
    (torch.compiler.is_compiling), and kernels that it makes are the compiler's."""
    TRACER.rec.fail("unsupported",
                    "torch.compile is not supported: its kernels would be the compiler's, not the answer's; call the "
                    "function as it is, and write as a Triton kernel what the compiler should fuse")


def install():
    """Once, in the zygote."""
    tracer_cuda.shows(compile_nothing, torch.compile)
    torch.compile = compile_nothing
    torch.Tensor.data = property(_DATA.__get__, _set_data)
    torch.autograd.Variable._execution_engine = Engine(torch.autograd.Variable._execution_engine)


class TraceMode(TorchDispatchMode):
    """Catches factories (torch.empty(..., device="cuda")), which have no tensor argument to catch
    them."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False   # its guard would import torch._dynamo and stand in front of every operator

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return TRACER.dispatch(func, args, kwargs or {})


TRACER = None   # the process's one tracer: dispatch is entered from torch without a context argument

FLOPS_A_BYTE = 12       # a product's operations that take as long as moving a byte, in fp32 on the GPUs of the table
POINTERS_MAX = 1 << 16  # elements of a constant that are looked at for addresses
PASSES = 4              # over its operands, by an operator that is neither element-wise nor a product


def moved_bytes(func, args, kwargs, inputs, out):
    """What an operator on constants moves on a GPU, products and the like in proportion."""
    results = out if isinstance(out, (list, tuple)) else [out]
    moved = sum(t.numel() * t.element_size() for t in [*(i.inner() for i in inputs), *results]
                if isinstance(t, torch.Tensor))
    formula = flop_registry.get(func._overloadpacket)
    if formula is not None:
        with contextlib.suppress(Exception):
            inner = {}
            return max(moved, int(formula(*unwrap(args, inner), **unwrap(kwargs, inner), out_val=out)) // FLOPS_A_BYTE)
    return moved if "pointwise" in tag_names(func) or not inputs else PASSES * moved


def host_bytes(args, kwargs):
    """What comes from the host's memory, by way of PCIe, as bytes that a GPU moves meanwhile. One
    number travels with the launch."""
    flat = [v for value in (*args, *kwargs.values()) for v in (value if isinstance(value, (list, tuple)) else (value,))]
    return HOST_BYTES * sum(t.numel() * t.element_size() for t in flat if isinstance(t, torch.Tensor) and t.dim()
                            and not isinstance(t, TraceTensor))


DRAWN = {"randn", "rand", "randint", "randn_like", "rand_like", "randint_like", "normal", "randperm"}
DRAWN_IN_PLACE = {"normal_", "uniform_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_"}


def is_cuda_device(value):
    return value is not None and torch.device(value).type == "cuda"


def is_on_cuda(args, kwargs):
    """Whether what is drawn lies on the device."""
    return is_cuda_device(kwargs.get("device")) or bool(args) and isinstance(args[0], TraceTensor)


def told(seed):
    """A seed of draw_law.py in words."""
    return ("under the caller's seed" if seed is None else f"first under the seed {seed[0]}" if seed[1]
            else f"again under the seed {seed[0]}")


class Tracer:
    def __init__(self, rec, movement):
        self.rec = rec
        self.movement = movement     # operator name -> handler(tracer, func, args, kwargs)
        self.phase = "import"
        self.mode = TraceMode        # what catches operators while candidate code runs
        self.shell = None            # the second trace's plain tensors (tracer_plain.py)
        self.draws = []              # what forward's random draws are, in order, each with its entry in the job
        self.hidden = None           # the state of torch's generator while forward has not seeded it

    # ---- tensors ----

    def wrap(self, inner, kind="temp"):
        buf, is_new = self.rec.buffer_of(inner, kind)
        return TraceTensor(inner, buf, self)

    def read_value(self, t, how):
        """The contents of a known tensor, or of one that is a single value so far, as a CPU tensor;
        a fault for an unknown one."""
        if self.rec.is_plain_fill(t._buffer):
            self.now_known(t._buffer)
            return t.inner().clone()
        self.rec.fail("data-dependent",
                      f"{how} reads the contents of a CUDA tensor; a kernel's host code may depend on shapes, strides "
                      f"and types only (a parameter's .item() or float() may go to a launch as it is)")

    def value_number(self, t):
        """The number that stands for a parameter's value (tracer_value.py), or None."""
        return self.rec.values.read(self.rec, t, candidate_line()) if self.phase == "forward" else None

    def now_known(self, buf):
        if self.phase == "forward" and not buf.known:
            self.rec.constant_made(buf.bytes)     # its fill, of which no row tells now
        self.rec.to_known(buf)

    def lift(self, cpu):
        """A CPU tensor's contents as a constant on the device."""
        with without_modes():
            copy = cpu.detach().clone()
        if self.phase == "forward":
            self.rec.constant_made(host_bytes((copy,), {}))
        return self.wrap(copy)

    def refuse_addresses(self, t):
        """A table of pointers would reach a kernel as plain numbers, which no trial could fill in.
        To be asked while the table is still known."""
        if t.dtype not in (torch.int64, torch.uint64) or not t._buffer.known or t.numel() > POINTERS_MAX:
            return
        with without_modes():
            values = [v for v in t.inner().flatten().tolist() if v]
        if values and all(map(self.rec.buffer_at, values)):
            self.rec.fail(
                "unsupported",
                "host code makes a tensor of other tensors' addresses (data_ptr()), and a launch reaches the buffers "
                "of its own arguments alone: give the kernel the tensors themselves, each as an argument or several in "
                "a tuple, and launch once for each group where their number is open")

    def draw(self, func, args, kwargs):
        """The reference's own draw in place of the candidate's, where it is the next one and has
        the same shape and dtype; None otherwise."""
        name = func._schema.name.split("::")[-1]
        in_place = name.endswith("_")
        if not self.draws or name not in DRAWN and name not in DRAWN_IN_PLACE:
            return None
        meta = dict(kwargs, device=META) if not in_place and "_like" not in name else dict(kwargs)
        shape_of = args[0] if in_place else func(*self.to_meta(args, {}), **self.to_meta(meta, {}))
        (drawn, spec), is_host = self.draws[0], not is_on_cuda(args, kwargs)
        if list(shape_of.shape) != list(drawn.shape) or shape_of.dtype != drawn.dtype:
            return None
        self.check_law(spec, draw_law.distribution(func, args, kwargs), is_host, kwargs.get("generator"), func.name())
        self.draws.pop(0)
        return args[0].copy_(drawn) if in_place else drawn.clone()

    def check_law(self, spec, law, is_host, generator, name):
        """The reference's draw and the candidate's give the same numbers on a GPU."""
        seed, source = None, generator or torch.default_generator
        if generator is not None or self.hidden is not None and tracer_chance.state_of(source) != self.hidden:
            seed = draw_law.seed_of(source)
            torch.empty(1).uniform_(generator=source)     # it has been drawn from
        why = (f"draws {law}, where the reference draws {spec['law']}" if law != spec["law"]
               else f"draws on the {'host' if is_host else 'device'}, where the reference draws on the {spec['place']}"
               if spec["place"] not in (None, "host" if is_host else "device")
               else f"draws {told(seed)}, where the reference draws {told(spec['seed'])}" if seed != spec["seed"]
               else "")
        if why:
            self.rec.fail("random", f"{name} {why}: on a GPU these are other numbers")

    # ---- dispatch ----

    def dispatch(self, func, args, kwargs):
        tensors = []
        collect(args, tensors)
        if kwargs:
            collect(kwargs.values(), tensors)
        to_cuda = is_cuda_device(kwargs.get("device"))
        if "nondeterministic_seeded" in tag_names(func) and self.phase == "forward" and not is_dead_dropout(func, args):
            drawn = self.draw(func, args, kwargs)
            if drawn is not None:
                return drawn
            self.rec.fail("random", f"{func.name()} draws random numbers in forward; a kernel takes its seed as an "
                          f"argument")
        if func._schema.name in PINNED_OPS or kwargs.get("pin_memory"):
            return self.pinned(func, args, kwargs)
        body = custom_body(func) if func.namespace not in LIBRARY_NAMESPACES else None
        if body is not None:
            return self.run_custom(func, body, args, kwargs)
        if not tensors and not to_cuda:
            return func(*args, **kwargs)
        return self.dispatch_cuda(func, args, kwargs, tensors, to_cuda)

    def pinned(self, func, args, kwargs):
        """Pinned memory of the host's, without a driver: ordinary memory of which it is known."""
        name = func._schema.name
        if name == "aten::is_pinned":
            return not isinstance(args[0], TraceTensor) and self.rec.is_pinned(args[0])
        if name == "aten::_pin_memory":
            if isinstance(args[0], TraceTensor):
                raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
            with without_modes():
                out = args[0].clone(memory_format=torch.contiguous_format)
        else:
            if is_cuda_device(kwargs.get("device")):
                raise RuntimeError("Only dense CPU tensors can be pinned")
            out = func(*args, **dict(kwargs, pin_memory=False))
        self.rec.pin(out)
        return out

    def dispatch_cuda(self, func, args, kwargs, tensors, to_cuda):
        schema = func._schema
        name = schema.name
        source = {"aten::_to_copy": 0, "aten::copy_": 1}.get(name)
        if source is not None and argument(func, args, kwargs, "non_blocking"):
            self.rec.copied_later(args[source])
        # What cannot be recorded, what only makes a view, and what reads a value.
        if name in UNSUPPORTED_OPS:
            self.rec.fail("unsupported", f"{name} gives a tensor other memory in place; make a new tensor")
        if name in LAZY_OPS:
            self.rec.fail("unsupported", f"{name} changes the sign of what is read, and not what is in memory")
        if name in VIEWED_IN_PLACE:
            return view_in_place(func, args, kwargs)
        if name in IGNORED_OPS:
            return None
        if name == "aten::_local_scalar_dense":
            # In the second trace tracer_plain.py has answered host code that asks itself.
            number = self.value_number(args[0]) if self.shell is None else None
            if number is not None:
                return number
            return self.read_value(
                args[0], "reading a value (.item(), bool(), int(), float(), if or while on a tensor)").item()
        if name == "aten::_to_copy" and kwargs.get("device") is not None and not to_cuda:
            return self.move_off_device(args[0], kwargs)
        # Tensors whose values are known (made of constants) are computed
        # here, and become constants.
        if tensors and all(t._buffer.known for t in tensors) or not tensors and self.may_compute(name):
            if self.may_write(func, args, kwargs):
                return self.run_known(func, args, kwargs)
        for t in tensors:
            if t._buffer.known and not self.rec.is_plain_fill(t._buffer):
                self.rec.number(t._buffer)
        # Operators that only move or fill are rows of their own.
        handler = self.movement.get(name)
        if func._schema.is_mutable and name in FILL_OPS:
            return self.fill_given(func, args, kwargs)
        if handler is not None and not writes_what_it_reads(func, args, kwargs):
            out = handler(self, func, args, kwargs)
            if out is not NotImplemented:
                return out
        if tensors and is_pure(func) and all(self.rec.is_plain_fill(t._buffer) for t in tensors):
            for t in tensors:
                self.now_known(t._buffer)
            return self.run_known(func, args, kwargs)
        # Everything else is torch's work on data: a library row.
        return self.run_unknown(func, args, kwargs)

    def run_custom(self, func, body, args, kwargs):
        """An operator that the candidate made: its body is host code like any other, and what
        happens in it goes on the tape."""
        with self.mode():
            if self.shell is None:
                out = body(*args, **kwargs)
            else:
                out = body(*self.shell.outwards(args, {}), **{k: self.shell.outwards(v, {}) for k, v in kwargs.items()})
                out = self.shell.inwards(out, {})
        self.check_custom(func, args, kwargs, out)
        return out

    def check_custom(self, func, args, kwargs, out):
        """What torch refuses of an operator made by custom_op, which it can say on a GPU alone: a
        result that shares memory with an argument or another result, or is no tensor."""
        returns = func._schema.returns
        if torch._library.custom_ops._maybe_get_opdef(func) is None or any(r.alias_info for r in returns):
            return
        outs, given = [], []
        collect(out if isinstance(out, (list, tuple)) else (out,), outs)
        collect((*args, *kwargs.values()), given)
        memory = [id(t._buffer) for t in outs]
        if len(set(memory)) < len(memory) or not {id(t._buffer) for t in given}.isdisjoint(memory):
            raise RuntimeError(f"{func._schema.name} (with implementation in {self.phase}): The output of this custom "
                               "operator (1) must not also be an input to this custom operator and (2) may not alias "
                               "any inputs to this custom operator or other returns.")
        values = out if isinstance(out, tuple) and len(returns) != 1 else (out,) if returns else ()
        if len(values) != len(returns) or any(
                str(r.type) == "Tensor" and not isinstance(v, torch.Tensor) for r, v in zip(returns, values)):
            raise RuntimeError(f"Unable to cast what {func._schema.name} returned to what its schema says")

    def may_compute(self, name):
        """Factories: while the module is built all of them have contents (parameters need them); in
        forward only those with a value of their own."""
        return self.phase != "forward" or name not in EMPTY_OPS and name not in FILL_OPS

    def may_write(self, func, args, kwargs):
        """A known buffer may be computed on only by the forward that made it: else one call's state
        would reach the next."""
        if self.phase != "forward" or not func._schema.is_mutable:
            return True
        return all(t._buffer.epoch == self.rec.epoch for t in written_tensors(func, args, kwargs))

    def run_known(self, func, args, kwargs):
        name = func._schema.name
        kwargs = dict(kwargs)
        if "device" in kwargs:
            kwargs["device"] = CPU
        inputs = {}
        out = func(*unwrap(args, inputs), **unwrap(kwargs, inputs))
        if self.phase == "forward" and name not in EMPTY_OPS and not is_view(func):
            self.rec.constant_made(moved_bytes(func, args, kwargs, inputs.values(), out) + host_bytes(args, kwargs))
        if func._schema.is_mutable:
            for t in written_tensors(func, args, kwargs):
                self.rec.written(t._buffer)
        return self.rewrap(out, inputs, self.origin(name, func, args, kwargs, out))

    def fill_given(self, func, args, kwargs):
        """zeros, ones and full with `out`: no new memory, and a write that is on the tape."""
        out, = written_tensors(func, args, kwargs)
        meta = func(*self.to_meta(args, {}), **self.to_meta(kwargs, {}))
        if meta.shape != out.shape:
            self.rec.fail("unsupported", f"{func.name()} gives a tensor another size in place; make a new tensor")
        value = FILL_OPS[func._schema.name]
        value = argument(func, args, kwargs, "fill_value") if value == "fill_value" else value
        self.rec.fill(out.view_tuple(), value, out.dtype)
        return out

    def origin(self, name, func, args, kwargs, out):
        if func._schema.is_mutable:
            return None       # what it was given is not new
        if name in EMPTY_OPS:
            return "empty"
        value = FILL_OPS.get(name)
        if value is None or out.dtype not in DTYPE_NAMES:
            return None
        if value == "fill_value":
            value = argument(func, args, kwargs, "fill_value")
        return ("fill", out.dtype, value)

    def run_unknown(self, func, args, kwargs):
        """Runs the operator on the meta device and records what it means."""
        name = func._schema.name
        inputs = {}
        meta_kwargs = dict(kwargs)
        if "device" in meta_kwargs:
            meta_kwargs["device"] = META
        meta_kwargs.pop("pin_memory", None)
        try:
            out = self.alike(name, args, meta_kwargs, inputs)
            if out is None:
                out = func(*self.to_meta(args, inputs), **self.to_meta(meta_kwargs, inputs))
        except (NotImplementedError, RuntimeError) as error:
            if tag_names(func) & {"data_dependent_output", "dynamic_output_shape"}:
                self.rec.fail("data-dependent",
                              f"the result of {func.name()} has a shape or value that depends on a tensor's contents")
            if isinstance(error, NotImplementedError):
                self.rec.fail("unsupported", f"{func.name()} cannot be traced, torch has no shapes for it: {error}")
            # The words of the exception are the meta device's: a candidate may not go on from here.
            self.rec.failed = func.name()
            raise
        origin = self.origin(name, func, args, kwargs, out)
        result = self.rewrap(out, inputs, origin)
        if origin is None:
            self.record_library(func, args, kwargs, result)
        return result

    def alike(self, name, args, kwargs, inputs):
        """empty_like of a dense tensor without more words, which forwards begin with: torch's own
        shape function for it is a hundred steps of Python. None: it is that function's to say."""
        if name != "aten::empty_like" or not kwargs.keys() <= {"pin_memory", "memory_format"}:
            return None
        if kwargs.get("memory_format") not in (None, torch.preserve_format):
            return None
        inner = self.to_meta(args[0], inputs)
        out = torch.empty(inner.shape, dtype=inner.dtype, device=META)
        return out if out.stride() == inner.stride() else None

    def to_meta(self, value, inputs):
        if isinstance(value, TraceTensor):
            inner = value.inner()
            inputs[id(inner)] = value
            return inner
        if isinstance(value, torch.Tensor):
            if value.dim() == 0:
                return value
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and {value.device}")
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_meta(v, inputs) for v in value)
        if isinstance(value, dict):
            return {k: self.to_meta(v, inputs) for k, v in value.items()}
        return value

    def rewrap(self, out, inputs, origin=None):
        """Inner results back to TraceTensors: an operand that came back is that operand, shared
        storage is a view."""
        if isinstance(out, torch.Tensor):
            same = inputs.get(id(out))
            if same is not None:
                return same
            buf, is_new = self.rec.buffer_of(out)
            if is_new and origin is not None:
                buf.origin = origin
            return TraceTensor(out, buf, self)
        if isinstance(out, (list, tuple)):
            return type(out)(self.rewrap(o, inputs) for o in out)
        if isinstance(out, (bool, int, float)):
            self.rec.fail("data-dependent",
                          "an operator returned a Python number computed from a CUDA tensor's contents")
        return out

    def record_library(self, func, args, kwargs, result):
        """Rows for what is neither view nor movement: everything read, everything written (new
        buffers and mutated arguments)."""
        outs = []
        collect((result,), outs)
        reads = []
        collect(args, reads)
        collect(kwargs.values(), reads)
        read_buffers = {id(t._buffer) for t in reads}
        mutated = written_tensors(func, args, kwargs) if func._schema.is_mutable else []
        writes = list(mutated) + [t for t in outs if id(t._buffer) not in read_buffers]
        if not writes:
            return   # only views
        index, views = {}, {}     # equal views are one operand, in whichever objects they come
        for t in reads:
            index[id(t)] = views.setdefault(t.view_tuple(), len(views))
        arguments = {"args": argument_json(args, index), "kwargs": argument_json(dict(kwargs), index)}
        self.rec.library(func.name(), list(views), [t.view_tuple() for t in writes], arguments)

    def move_off_device(self, t, kwargs):
        if torch.device(kwargs["device"]).type == "meta":
            return func_meta(t, kwargs)
        value = self.read_value(t, "moving a tensor to the CPU (.cpu(), .to('cpu'))")
        return value.to(dtype=kwargs.get("dtype") or value.dtype)


def view_in_place(func, args, kwargs):
    """Another shape for the same memory: of the tensor that the candidate holds, and of the one
    behind it."""
    t = args[0]
    if isinstance(t, TraceTensor):
        t._inner = torch.empty(0, dtype=t.dtype, device=t._buffer.storage.device).set_(t._buffer.storage,
            t.storage_offset(), t.shape, t.stride())
        func(t._inner, *args[1:], **kwargs)
    with without_modes():
        return func(*args, **kwargs)


def func_meta(t, kwargs):
    return torch.empty_strided(t.shape, t.stride(), dtype=kwargs.get("dtype") or t.dtype, device=META)


# ---- small helpers over arguments ----

def collect(values, out):
    for value in values:
        if isinstance(value, TraceTensor):
            out.append(value)
        elif isinstance(value, (list, tuple)):
            collect(value, out)


def unwrap(value, inputs):
    if isinstance(value, TraceTensor):
        inner = value.inner()
        inputs[id(inner)] = value
        return inner
    if isinstance(value, (list, tuple)):
        return type(value)(unwrap(v, inputs) for v in value)
    if isinstance(value, dict):
        return {k: unwrap(v, inputs) for k, v in value.items()}
    return value


_WRITTEN = {}


def written_tensors(func, args, kwargs):
    """The tensors that the operator's schema says it writes."""
    slots = _WRITTEN.get(func)
    if slots is None:
        slots = _WRITTEN[func] = [(i, a.name) for i, a in enumerate(func._schema.arguments)
                                  if a.alias_info is not None and a.alias_info.is_write]
    out = []
    for i, name in slots:
        value = args[i] if i < len(args) else kwargs.get(name)
        collect((value,), out)
    return out


def writes_what_it_reads(func, args, kwargs):
    """An operator with `out`, which is one of its operands: torch computes it as a whole first."""
    if func._overloadname != "out" or not func._schema.is_mutable:
        return False
    reads, outs = [], {id(t._buffer) for t in written_tensors(func, args, kwargs)}
    collect(args, reads)
    return any(id(t._buffer) in outs for t in reads)


def argument_json(value, index):
    """An operator's arguments as JSON; tensors as {"view": index into reads}."""
    if isinstance(value, TraceTensor):
        return {"view": index[id(value)]}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, (list, tuple)):
        return [argument_json(v, index) for v in value]
    if isinstance(value, dict):
        return {str(k): argument_json(v, index) for k, v in value.items()}
    if isinstance(value, torch.dtype):
        return {"dtype": DTYPE_NAMES.get(value, str(value))}
    if isinstance(value, torch.Tensor):
        return {"scalar": number_text(value.item()), "dtype": DTYPE_NAMES.get(value.dtype, str(value.dtype))}
    return {"other": str(value)}
