"""How the oracle's data leave: values in the grammar of docs/worker-protocol.md, and tensors one
after another in sealed memfds."""
import fcntl
import math
import os

import torch

ALIGN = 64
GIVEN_BYTES_MAX = 1 << 30
EXPECTED_BYTES_MAX = 2 << 30
F_ADD_SEALS, SEALS = 1033, 0x000F   # SEAL, SHRINK, GROW, WRITE


class Fault(Exception):
    """A task that cannot be judged; code is a reason code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Pack:
    """Tensors one after another in a sealed memfd."""

    def __init__(self, name, limit):
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.used, self.limit, self.name = 0, limit, name

    def add(self, t):
        """(offset, bytes) of the storage that the view t spans."""
        data = image(t)
        offset = self.used
        if offset + len(data) > self.limit:
            raise Fault("task-too-large", f"{self.name} data of one trial needs more than {self.limit >> 20} MiB")
        view = memoryview(data)
        while view:
            view = view[os.pwrite(self.fd, view, self.used):]
            self.used = offset + len(data) - len(view)
        self.used = (offset + len(data) + ALIGN - 1) // ALIGN * ALIGN
        os.ftruncate(self.fd, self.used)
        return offset, len(data)

    def seal(self):
        fcntl.fcntl(self.fd, F_ADD_SEALS, SEALS)
        return self.fd

    def close(self):
        os.close(self.fd)


def image(t):
    """The bytes from the first to the last element of a view, gaps included."""
    t = t.detach()
    if t.numel() == 0:
        return b""
    if not t.is_contiguous():
        extent = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
        t = torch.as_strided(t, (extent,), (1,), t.storage_offset())
    return t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same_bytes(a, b):
    return (len(a) == len(b) and all(x.dtype == y.dtype and x.shape == y.shape
                                     and image(x.contiguous()) == image(y.contiguous()) for x, y in zip(a, b)))


def readable(t):
    """The same numbers in a type that torch can ask about: it asks nothing of floats of 8 bits."""
    return t.float() if t.is_floating_point() and t.element_size() == 1 else t


def dtype_name(t):
    return str(t.dtype).removeprefix("torch.")


def describe(value):
    """A value in the grammar of docs/worker-protocol.md."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise Fault("task-unsupported", "an input holds complex numbers, which no tape has")
        return {"tensor": {"dtype": dtype_name(value), "shape": list(value.shape), "stride": list(value.stride()),
                           "requires_grad": value.requires_grad}}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}     # JSON has no number for it
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, tuple):
        return {"tuple": [describe(v) for v in value]}
    if isinstance(value, list):
        return [describe(v) for v in value]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"dict": {k: describe(v) for k, v in value.items()}}
    raise Fault("task-unsupported", f"an argument of type {type(value).__name__} cannot be passed to a candidate")
