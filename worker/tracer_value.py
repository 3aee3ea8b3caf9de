"""tracer_value: values of parameters that forward hands to a launch (`self.scale.item()`).

A trace has no values. What the host reads of a parameter is a number that stands for it, and a
launch that is given this number has the element's place on the tape instead (docs/tape-format.md):
each trial has its own. Nothing else may become of it. In the first trace the number is drawn, and a
forward that reads one which no launch gets is refused. In the second trace host code sees an object
that refuses whatever would tell the number (tracer_drawn.py), and Triton's own code, with the hooks
and grids that the candidate gave it, a Value.
"""
import random

import torch

from tracer_fault import Fault

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SOURCE = "the value of a parameter"
DECIDES = ("host code does something else with the value of a parameter (.item(), float()) than handing it to a kernel "
           "as it is: load it in the kernel, or compute there what is made of it")
KEPT = "forward hands a kernel the value that a parameter had in an earlier call: read it in each call"
LOTS = random.SystemRandom()


class Values:
    """What one trace has read."""

    def __init__(self):
        self.numbers = {}     # (id of a buffer, offset) -> the number that stands for this element
        self.places = {}      # number -> (buffer, offset, dtype)
        self.lines = {}       # number -> where this forward has read it
        self.unused = {}      # of those, what no launch of this forward was given

    def begin(self):
        self.lines, self.unused = {}, {}

    def read(self, rec, t, line):
        """The number that stands for a tensor of one element; None where its value is none that a
        trial could set, or may be another by now."""
        buf, offset, dtype, shape, _ = t.view_tuple()
        is_given = buf.kind == "param" or buf.kind == "const" and buf.name is not None
        is_changed = buf.written_epoch == rec.epoch or rec.is_stale(buf)
        if not is_given or is_changed or buf.known or dtype not in DTYPES or t.numel() != 1:
            return None
        number = self.numbers.get((id(buf), offset))
        while number is None or number in self.places and self.places[number][:2] != (buf, offset):
            number = self.numbers[id(buf), offset] = LOTS.uniform(0.25, 0.75)
        self.places[number] = buf, offset, dtype
        if number not in self.lines:
            rec.constant_made(dtype.itemsize)     # the copy that the host waits for
            self.lines[number] = self.unused[number] = line
        return number

    def launched(self, rec, number):
        """The place that a launch's argument stands for, or None for a number of its own."""
        place = self.places.get(number)
        if place is None:
            return None
        if number not in self.lines:
            rec.fail("data-dependent", KEPT)
        self.unused.pop(number, None)
        return place

    def check(self, rec):
        """When forward has ended, one way or the other."""
        if rec.fault is None and self.unused:
            rec.fault = Fault("data-dependent", DECIDES), min(self.unused.values())


class Value(float):
    """The number in Triton's hands: a C launcher reads it, and nothing else does."""

    __slots__ = ("refuse",)


def _refuse(self, *args, **kwargs):
    self.refuse()


for _name in dir(float):
    if _name not in ("__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__delattr__", "__doc__",
                     "__init_subclass__", "__subclasshook__", "__dir__", "__getformat__", "from_number", "fromhex",
                     "__sizeof__"):
        setattr(Value, _name, property(_refuse) if _name in ("real", "imag") else _refuse)


def value_of(number, refuse):
    value = float.__new__(Value, number)
    value.refuse = refuse
    return value
