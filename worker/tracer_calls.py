"""tracer_calls: one call of forward: what it is called with, what it may not leave changed, and the
tape and outputs that it makes.
"""
import math

import torch

import output_form
import tracer_candidate
import tracer_chance
import tracer_cuda
import tracer_plain
import tracer_record
import tracer_tensor
import tracer_walk
from tracer_candidate import make_inputs
from tracer_record import DTYPES
from tracer_stop import Stop, guarded
from tracer_tensor import TraceTensor

OUTPUTS_MAX = 64
SURROUNDINGS = ("the form of its inputs (shape, strides, class, gradient or attributes)",
                "which parameters the module has, or whether they are trained", "whether a module is in training",
                "a mode of torch's (gradients, autocast, default dtype, precision)", "the current stream")


class Calls:
    """The forwards of one trace."""

    def __init__(self, job, rec, tracer, model):
        self.job, self.rec, self.tracer, self.model = job, rec, tracer, model
        self.args = self.kwargs = self.draws = self.buffers = None
        self.held = []           # outputs of former calls, kept alive
        self.ended = len(rec.rows)   # rows that the last call left
        self.younger = None          # another object of the class, made since (tracer_elsewhere.py)
        self.state_bytes = {math.prod(e["shape"]) * DTYPES[e["dtype"]].itemsize
                            for e in job.get("state", {}).values() if e["dtype"] in DTYPES}

    def prepare(self, kind):
        if tracer_plain.SHELL:
            tracer_plain.SHELL.calls += 1
        if kind == "released":
            self.held.clear()
        if kind in ("same", "changed"):
            if kind == "changed":
                for t in tensors_in([self.args, self.kwargs], []):
                    torch.autograd.graph.increment_version(t)
        else:
            if tracer_plain.SHELL:
                tracer_plain.SHELL.turn()
            self.args, self.kwargs, self.draws, self.buffers = make_inputs(self.job, self.tracer, kind == "strided")
        self.check_between()
        self.tracer.draws = list(zip(self.draws, self.job.get("draws", [])))   # each call draws from the first on
        self.rec.begin(self.buffers)

    def check_between(self):
        """Work that an object does at its end, when outputs or inputs are released, is on no call's
        tape."""
        if len(self.rec.rows) != self.ended:
            raise Stop("unsupported", "Fault", "host code launches or writes something between two calls of forward, "
                       "when tensors of an earlier one are released")

    def finish(self):
        """When the last call's tensors go, too."""
        self.held.clear()
        self.args = self.kwargs = None
        self.check_between()

    def tape(self):
        """One counted call: its tape without the contents of constants."""
        before = self.surroundings()
        out = guarded(self.rec, "forward-error", self.forward)
        for what, then, now in zip(SURROUNDINGS, before, self.surroundings()):
            if then != now:
                raise Stop("unsupported", "Fault", f"forward changes {what}, which its caller finds changed")
        self.held.append(out)
        outputs, is_tuple = flatten_output(out)
        self.check_kept(outputs)
        for t in tensors_in([out], []):
            if t.requires_grad and not torch.is_grad_enabled() and not any(
                    t is p for p in tensors_in([self.args, self.kwargs, *self.model.parameters()], [])):
                raise Stop("unsupported", "Fault", "forward returns a tensor that requires a gradient, under no_grad()")
        form = output_form.form_of(out, lambda v: isinstance(v, torch.Tensor))
        found = guarded(self.rec, "unsupported", lambda: tracer_record.tape_json(self.rec, outputs, is_tuple, form))
        self.ended = len(self.rec.rows)
        return found

    def forward(self):
        before = self.hide_seed() if self.draws else None
        try:
            return self.model(*self.args, **self.kwargs)
        finally:
            if before is not None:
                self.show_seed(before)
            self.rec.values.check(self.rec)
            self.rec.check_flights()

    def hide_seed(self):
        """A seed that nobody has set for torch's generator, which tells a forward that sets its own
        from one that does not."""
        with tracer_tensor.without_modes():
            before = torch.default_generator.get_state()
            torch.default_generator.manual_seed(tracer_chance.DRAWN.getrandbits(62))
            self.tracer.hidden = tracer_chance.state_of(torch.default_generator)
        return before

    def show_seed(self, before):
        """What was there before, unless forward set a seed, which stays."""
        with tracer_tensor.without_modes():
            if tracer_chance.state_of(torch.default_generator) == self.tracer.hidden:
                torch.default_generator.set_state(before)
            self.tracer.hidden = None

    def surroundings(self):
        """What a call of forward leaves as it was, beside all memory."""
        given = [(id(t), type(t), t.shape, t.stride(), t.storage_offset(), t.dtype, t.requires_grad, t.is_leaf
                  and t.grad is not None, [k for k in vars(t) if k not in tracer_walk.TRACERS_OWN])
                 for t in tensors_in([self.args, self.kwargs], [])]
        is_module = isinstance(self.model, torch.nn.Module)
        own = [(name, id(p), p.shape, p.stride(), p.requires_grad) for name, p in self.model.named_parameters()
               ] if is_module else ()
        training = [m.training for m in self.model.modules()] if is_module else ()
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cuda"),
                 torch.get_default_dtype(), torch._C._get_deterministic_algorithms(),
                 torch.get_float32_matmul_precision(), torch._C._get_cublas_allow_tf32(),
                 torch._C._get_cudnn_allow_tf32())
        return given, own, training, modes, tracer_cuda.CURRENT[0]

    def check_kept(self, outputs):
        """Memory that was made before this call and that this call writes: what one call leaves
        there, the next may find. As an output it changes under whoever holds an earlier call's
        result."""
        kept = {id(buf) for buf in self.rec.order if self.is_kept(buf)}
        if any(id(buf) in kept for buf, *_ in outputs):
            raise Stop("nondeterministic", "Fault",
                       "forward returned memory that it made before this call and wrote to again: the result of an "
                       "earlier "
                       "call would change under whoever holds it; make the output in each call")
        if kept:
            raise Stop("nondeterministic", "Fault",
                       "forward writes into memory that was made before this call (by the constructor, or by an "
                       "earlier call): "
                       "buffers may not be kept across calls, constants may; make scratch memory in each call")

    def is_kept(self, buf):
        """Parameters and buffers that the task's model has too may be written where its forward
        does that; the replay judges it."""
        if buf.kind not in ("temp", "const") or buf.epoch == self.rec.epoch or buf.written_epoch != self.rec.epoch:
            return False
        return buf.name is None or buf.bytes not in self.state_bytes

    def disturb(self):
        """One call that does not count."""
        try:
            self.model(*self.args, **self.kwargs)
        except Exception:
            pass
        self.rec.fault = None
        self.ended = len(self.rec.rows)


def tensors_in(value, out):
    if isinstance(value, torch.Tensor):
        out.append(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            tensors_in(v, out)
    elif isinstance(value, dict):
        tensors_in(list(value.values()), out)
    return out


def difference(first, tape, call):
    """The fault for two forwards that parted: where, and why that is one."""
    head = f"forward {call} did other work than the first call"
    tail = ("every call must launch the same kernels on the same buffers: no caching of results, counters, clocks or "
            "random choices across calls")
    for i, (a, b) in enumerate(zip(first["rows"], tape["rows"])):
        if a != b:
            return Stop("nondeterministic", "Fault", f"{head}: row {i} is {brief(b)}, was {brief(a)}; {tail}",
                        b["line"])
    if len(first["rows"]) != len(tape["rows"]):
        return Stop("nondeterministic", "Fault", f"{head}: {len(tape['rows'])} rows, was {len(first['rows'])}; {tail}")
    return Stop("nondeterministic", "Fault",
                f"{head}: it used other buffers, or buffers that an earlier call had written; {tail}")


def brief(row):
    return f"{row['op']} (line {row['line']})"


def flatten_output(out):
    """The tensors that forward returned, in order: lists and tuples by position, dicts by
    insertion."""
    if out is None:
        raise Stop("no-output", "TypeError", "forward returned None")
    if isinstance(out, (int, float, str)):
        raise Stop("output-not-tensor", "TypeError", f"forward returned {type(out).__name__}, expected a tensor")
    views = []
    flatten_into(out, views)
    if not views:
        raise Stop("no-output", "TypeError", "forward returned no tensor")
    if len(views) > OUTPUTS_MAX:
        raise Stop("too-large", "ValueError", f"forward returned {len(views)} tensors; the limit is {OUTPUTS_MAX}")
    return views, not isinstance(out, torch.Tensor)


# How items are taken from a collection.
READERS = ("__iter__", "__getitem__", "__len__", "__getattribute__", "__getattr__", "values", "items", "keys", "get",
           "__reversed__", "__contains__", "__class__")


def flatten_into(out, views):
    if tracer_plain.SHELL and isinstance(out, torch.Tensor):
        found = tracer_plain.SHELL.trace_of(out)
        out = out if found is None else found
    if isinstance(out, TraceTensor):
        views.append(out.view_tuple())
    elif isinstance(out, (list, tuple, dict)):
        own = [kind for kind in type(out).__mro__ if kind.__module__ == tracer_candidate.CANDIDATE]
        if any(name in vars(kind) for kind in own for name in READERS):
            raise Stop("output-not-tensor", "TypeError",
                       f"forward returned a {type(out).__name__}, which hands out its items by methods of its own")
        for item in out.values() if isinstance(out, dict) else out:
            flatten_into(item, views)
    elif isinstance(out, torch.Tensor):
        raise Stop("output-not-tensor", "TypeError", f"forward returned a tensor on {out.device}, expected cuda:0")
    elif out is not None and not isinstance(out, (int, float, str)):
        # numbers and strings are no results of kernels: not compared
        raise Stop("output-not-tensor", "TypeError", f"forward returned {type(out).__name__}, expected a tensor")
