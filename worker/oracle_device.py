"""References that were written for a GPU, on a machine without one: while `OneDevice` is active,
tensors lie in ordinary memory and say cuda:0, and every device argument that names CUDA becomes the
memory's own device on its way into PyTorch. Active for tasks whose text says "cuda"; others see the
CPU as it is. torch.cuda answers as an H200 would (tracer_cuda.py), so a reference and a candidate
that ask get the same answers."""
import torch
from torch.overrides import TorchFunctionMode

import tracer_cuda

CUDA = torch.device("cuda", 0)


def names_cuda(value):
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class OneDevice(TorchFunctionMode):
    """`device` is where the memory is: the CPU, or meta in a walk over shapes."""

    def __init__(self, device):
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func == torch.Tensor.is_cuda.__get__:
            return True
        if func == torch.Tensor.device.__get__:
            return CUDA if func(*args).type == self.device.type else func(*args)
        if name == "get_device" and args and isinstance(args[0], torch.Tensor):
            return 0
        if name in ("cuda", "pin_memory") and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "cpu" and self.device.type == "meta":
            return args[0]
        kwargs.pop("pin_memory", None)
        args = tuple(self.device if names_cuda(a) else a for a in args)
        return func(*args, **{k: self.device if names_cuda(v) else v for k, v in kwargs.items()})


def install():
    """What no function mode sees: torch.cuda's functions, generators, the default device and
    autocast for CUDA. In the job's process alone."""
    tracer_cuda.install()
    generator, autocast = torch.Generator, torch.autocast
    torch.Generator = lambda device="cpu": generator(device="cpu")
    torch.set_default_device = lambda device: None
    torch.autocast = lambda device_type, dtype=None, **more: autocast("cpu", dtype=dtype or torch.float16, **more)
