from __future__ import annotations
import abc, argparse, bisect, collections, copy, contextlib, dataclasses, enum, functools, hashlib, importlib.metadata
import inspect, io, itertools, json, logging, math, operator, os, pathlib, pprint, random, re, statistics, string
import textwrap, threading, time, traceback, types, typing, warnings, weakref
from typing import Any, Callable, Dict, Generic, List, Literal, Optional, Protocol, Sequence, Tuple, TypeVar, Union, overload

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
from packaging import version
from torch import Tensor

T = TypeVar("T")
TRITON_VERSION = version.parse(importlib.metadata.version("triton"))
WORD = re.compile(r"(?x) \b [a-z]+ \b", re.I | re.M | re.S)
assert WORD.findall("Ab cd") == ["Ab", "cd"]


class Mode(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Runner(Protocol):
    def __call__(self, x: Tensor) -> Tensor: ...


class Base(abc.ABC, Generic[T]):
    @abc.abstractmethod
    def apply(self, x: T) -> T: ...


@functools.singledispatch
def block(n) -> int:
    return 128


@block.register
def _(n: int) -> int:
    return 1 << max(5, min(10, n.bit_length()))


@triton.jit
def relu_kernel(x_ptr: torch.Tensor, y_ptr: torch.Tensor, n: int, BLOCK: tl.constexpr = 128):
    i: torch.Tensor = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep: torch.Tensor = i < n
    half: tl.constexpr = BLOCK // 2
    tl.static_assert(half * 2 == BLOCK)
    x: np.ndarray = tl.load(x_ptr + i, mask=keep, other=0.0)
    tl.store(y_ptr + i, tl.maximum(x, 0.0), mask=keep)


@dataclasses.dataclass
class Plan:
    grid: Tuple[int, ...]
    block: int
    flags: Mode = Mode.A | Mode.B
    notes: List[str] = dataclasses.field(default_factory=list)


class Relu(Base[Tensor]):
    def apply(self, x: Tensor) -> Tensor:
        n = math.prod(x.shape)
        b = block(n)
        plan = Plan((triton.cdiv(n, b),), b, notes=[f"{n:,} elements"])
        plan = copy.deepcopy(plan)
        with contextlib.ExitStack():
            y = torch.empty_like(x)
            relu_kernel[plan.grid](x, y, n, BLOCK=plan.block)
        return y


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.impl = Relu()
        self.names = tuple(inspect.signature(relu_kernel.fn).parameters)
        self.tag = hashlib.sha256(json.dumps(self.names).encode()).hexdigest()[:8]

    def forward(self, x: Tensor) -> Tensor:
        return self.impl.apply(x)
