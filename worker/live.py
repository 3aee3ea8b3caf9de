"""A candidate's file, run for real on a GPU (`hone verify --live`): by the timer's zygote, in a
process of its own, sandboxed as a reference's.

Here a candidate's host code meets data, and so can do all that the tracer rules out: look at
values, keep results, call torch. What comes of it is therefore never more than `partial`, and tells
nothing of time. It says two things: that a file which cannot be traced gives right results, and
that a genuine one, run as its user will run it, gives what its tape gave. Inputs and parameters are
one trial's bytes, as in timer.py; no expected value, clock or time is given."""
import hashlib
import importlib.util
import math
import os
import sys

import torch

from oracle_pack import Fault, dtype_name, image as bytes_of
from oracle_reference import DRAW_SEED, named_tensors, seed_all

DTYPES = {dtype_name(torch.empty(0, dtype=d)): d
          for d in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
                    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
                    torch.uint64, torch.bool)}


def image(given, at, dtype, shape, stride):
    """The tensor of these bytes, laid out as it was."""
    if not at["bytes"]:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(given, dtype=torch.uint8, count=at["bytes"], offset=at["offset"]).view(dtype)
    return torch.as_strided(flat, shape, stride)


def dense_stride(shape):
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def value(v, tensor):
    """A value in the grammar of docs/worker-protocol.md; tensor(spec) makes the next tensor."""
    if isinstance(v, list):
        return [value(x, tensor) for x in v]
    if not isinstance(v, dict):
        return v
    if "tensor" in v:
        return tensor(v["tensor"])
    if "tuple" in v:
        return tuple(value(x, tensor) for x in v["tuple"])
    if "dict" in v:
        return {k: value(x, tensor) for k, x in v["dict"].items()}
    if "dtype" in v:
        return DTYPES[v["dtype"]]
    if "float" in v:
        return float(v["float"])
    raise Fault("task-unsupported", f"an argument of the form {sorted(v)}")


def module_of(source, folder):
    """Imported from a file, as anybody would."""
    path = os.path.join(folder, "candidate.py")
    with open(path, "w") as f:
        f.write(source)
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module


def fits(t, entry):
    return entry is not None and list(t.shape) == entry["shape"] and dtype_name(t) == entry["dtype"]


def digest(t):
    """As the oracle takes it of the reference's parameters."""
    return hashlib.sha256(bytes_of(t.detach().cpu().contiguous())).hexdigest()


class Live:
    """The candidate with one trial's bytes in it."""

    def __init__(self, job, given, folder, device):
        self.given, self.device, trial = given, device, job["trial"]
        none = lambda spec: None
        cls = getattr(module_of(job["source"], folder), "ModelNew", None)
        if not isinstance(cls, type):
            raise Fault("task-unsupported", "the source defines no class ModelNew")
        torch.manual_seed(job["init_seed"])
        self.model = cls(*[value(v, none) for v in job["init_args"]],
                         **{k: value(v, none) for k, v in job["init_kwargs"].items()})
        if isinstance(self.model, torch.nn.Module):
            self.model = self.model.to(device).train(job["training"])
            self.state({p["name"]: p for p in trial["params"]}, job["state"])
        following = iter(trial["inputs"])
        self.args = [value(v, lambda spec: self.input(spec, next(following))) for v in job["inputs"]]
        self.kwargs = {k: value(v, lambda spec: self.input(spec, next(following)))
                       for k, v in job["input_kwargs"].items()}

    def input(self, spec, at):
        """An input with its layout, which may have several elements at one place (an expanded one):
        its memory is copied, not its elements."""
        dtype = DTYPES[spec["dtype"]]
        memory = image(self.given, at, dtype, [at["bytes"] // dtype.itemsize], [1]).to(self.device, copy=True)
        laid = torch.empty(0, dtype=dtype, device=self.device).set_(memory, 0, spec["shape"], spec["stride"])
        return laid.requires_grad_(bool(spec.get("requires_grad")))

    def state(self, given, known):
        """Parameters of the reference's name, shape and dtype get the trial's values. One of
        another name that holds what a parameter of the reference holds under the init seed is that
        one, as on a tape; what else there is keeps the candidate's own."""
        tensors = dict(named_tensors(self.model))
        taken = {name for name, t in tensors.items() if name in given and fits(t, known.get(name))}
        with torch.no_grad():
            for name, t in tensors.items():
                found = name if name in taken else None
                if found is None:
                    same = (n for n in given if n not in taken and fits(t, known.get(n)) and
                            known[n].get("sha256") == digest(t))
                    found = next(same, None)
                if found is not None:
                    taken.add(found)
                    t.copy_(image(self.given, given[found], t.dtype, t.shape, dense_stride(t.shape)))

    def work(self):
        seed_all(DRAW_SEED)
        with torch.no_grad():
            return self.model(*self.args, **self.kwargs)
