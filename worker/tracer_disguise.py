"""tracer_disguise: what stands in a tracer for torch's and Triton's own functions goes by their
names.

Host code that reads a function's module, name or file could tell that it is traced, in both traces
alike, so that comparing them would not find it. Here the stand-ins are given what an ordinary
process shows, in the zygote, once; a candidate that looks finds nothing and does what it does
elsewhere.
"""
import os
import random
import sys
import types

import torch
import triton
from triton.runtime.autotuner import Autotuner

import tracer_cuda
import tracer_drawn
import tracer_driver
import tracer_questions

DRAWN = random.SystemRandom()
HERE = os.path.dirname(os.path.abspath(__file__))
STAND_INS = set()      # identities of what was disguised: how such a function is made, nobody may ask
SHOWN = ("__name__", "__qualname__", "__module__", "__doc__")      # what they have like the others
CLASSES = (
    (tracer_driver.Driver, "CudaDriver", "triton.backends.nvidia.driver"),
    (tracer_driver.Utils, "CudaUtils", "triton.backends.nvidia.driver"),
    (tracer_driver.Launcher, "CudaLauncher", "triton.backends.nvidia.driver"),
    (tracer_cuda.Stream, "Stream", "torch.cuda.streams"),
    (tracer_cuda.DefaultStream, "Stream", "torch.cuda.streams"),
    (tracer_cuda.Event, "Event", "torch.cuda.streams"),
    (tracer_cuda.DeviceGenerator, "Generator", "torch._C"),
    (tracer_cuda.Properties, "_CudaDeviceProperties", "torch._C"),
    (tracer_driver.TracedKernel, "CompiledKernel", "triton.compiler.compiler"),
)
OWNERS = (
    (torch.cuda, "torch.cuda"),
    (torch.Tensor, "torch._tensor"),
    (torch._C, "torch._C"),
    (torch.library.Library, "torch.library"),
    (triton, "triton.compiler.compiler"),
    (triton.compiler, "triton.compiler.compiler"),
    (triton.compiler.compiler, "triton.compiler.compiler"),
    (triton.testing, "triton.testing"),
    (torch.utils._python_dispatch, "torch.utils._python_dispatch"),
    (Autotuner, "triton.runtime.autotuner"),
)


STAND_IN_CLASSES = {id(cls) for cls, _, _ in CLASSES}      # what they are made of, nobody may ask either


def is_stand_in(thing):
    """Whether this is a function of ours, or a method that is one."""
    if type(thing) is types.MethodType:
        thing = thing.__func__
    return type(thing) is types.FunctionType and (id(thing) in STAND_INS or tracer_drawn.is_ours(thing))


def tells(thing, name):
    """Whether an attribute of it would tell that it stands in for another: of a function any, of an
    object and of its class those that Python itself gives them."""
    kind = type(thing)
    if kind is types.FunctionType and id(thing) in STAND_INS and name in SHOWN:
        return False
    if kind is types.FunctionType or kind is types.MethodType:
        return is_stand_in(thing)
    return type(name) is str and name.startswith("__") and (
        id(kind) in STAND_IN_CLASSES or kind is type and id(thing) in STAND_IN_CLASSES)


def file_of(module):
    return getattr(sys.modules.get(module), "__file__", None) or f"{module.replace('.', '/')}.py"


def disguise(function, name, module):
    """A function of ours under another name and from another file."""
    if not isinstance(function, types.FunctionType) or not function.__code__.co_filename.startswith(HERE):
        return
    STAND_INS.add(id(function))
    function.__module__, function.__name__, function.__qualname__ = module, name.rpartition(".")[2], name
    function.__code__ = function.__code__.replace(co_filename=file_of(module), co_name=function.__name__)


def disguise_class(cls, name, module):
    for key, value in list(vars(cls).items()):
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        disguise(value, f"{name}.{key}", module)
    cls.__name__ = cls.__qualname__ = name
    cls.__module__ = module


def disguise_all(owner, module):
    """Everything of ours that `owner` has."""
    for name, value in list(vars(owner).items()):
        if isinstance(value, type) and getattr(value, "__module__", "").startswith("tracer"):
            disguise_class(value, name, module)
        else:
            disguise(value, name, module)


def no_stack(at):
    raise RuntimeError("Tried to get stack at idx that's too big")


# Functions by which torch tells that it is traced, and what they answer where nobody traces.
MODES = {
    "_get_dispatch_stack_at": no_stack,
    "_len_torch_dispatch_stack": lambda: 0,
    "_only_lift_cpu_tensors": lambda: False,
    "_get_dispatch_mode": lambda key: None,
}
MODE_NAMES = {
    "_get_current_dispatch_mode": lambda: None,
    "_get_current_dispatch_mode_stack": lambda: [],
    "_len_torch_dispatch_stack": lambda: 0,
}


def unseen(owner, answers):
    """The candidate's own calls get these answers; torch's get the real ones."""
    for name, answer in answers.items():
        real = getattr(owner, name, None)
        if real is None:
            continue

        def seen(*args, real=real, answer=answer):
            return answer(*args) if sys._getframe(1).f_code.co_filename in tracer_drawn.FILES else real(*args)
        setattr(owner, name, seen)


def seed():
    """torch.seed, which reads a file of the system's."""
    number = DRAWN.getrandbits(63)
    torch.default_generator.manual_seed(number)
    return number


def install():
    """In the zygote, after everything else is in its place."""
    torch.seed = torch.random.seed = seed
    torch.cuda.streams.Stream, torch.cuda.streams.Event = torch.cuda.Stream, torch.cuda.Event
    torch.cuda.default_generators = (tracer_cuda.DeviceGenerator(),)
    tracer_questions.install(disguise)
    disguise(seed, "seed", "torch.random")
    disguise(torch.compile, "compile", "torch")
    unseen(torch._C, MODES)
    unseen(torch.utils._python_dispatch, MODE_NAMES)
    type(torch.backends.cudnn).__dict__["enabled"].getter = lambda: True
    for owner, module in OWNERS:
        disguise_all(owner, module)
    for cls, name, module in CLASSES:
        disguise_class(cls, name, module)
