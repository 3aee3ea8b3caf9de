"""tracer_codes: the code that traces run lies close together.

Whoever runs a function counts a reference to its code, and so writes to the page of it, which a
forked process has to copy first. A trace runs some eight hundred functions of a hundred modules,
nearly each of them on a page of its own. In the zygote their code is copied, one behind the other
into memory of large pages, where the functions find it from then on. What is counted in it of how
it ran comes along.
"""
import ctypes
import gc
import mmap
import sys
import types

from tracer_words import place_of

PIECE = 2 << 20         # a large page
ALIGNED = 16
# Of these all functions: a second trace, of which the zygote makes none, runs nearly all of the
# tracer's, and some of the library's.
OWN = ("tracer", "ttir_compile", "wire", "output_form")
LIBRARYS = ("ast", "contextlib", "logging", "random", "threading")
MOVED = []              # memory, what lies there, and where that comes from: nothing of it ends,
ctypes.pythonapi.Py_IncRef(ctypes.py_object(MOVED))      # not even where Python does
# Objects as this Python lays them out.
IS_KNOWN = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)
COUNT_AT, LENGTH_AT = 0, object.__basicsize__


def word(at):
    return ctypes.c_uint64.from_address(at)


def code_place():
    """Where a function keeps the address of its code."""
    def function():
        pass
    return place_of(function, function.__code__)


class Running:
    """While this is entered it collects the code that runs: {identity: code}."""

    def __enter__(self):
        self.codes = {}
        sys.setprofile(self.hear)
        return self.codes

    def hear(self, frame, event, argument):
        if event == "call":
            self.codes[id(frame.f_code)] = frame.f_code

    def __exit__(self, *error):
        sys.setprofile(None)


def inner(code):
    """The code of functions that are made where this one runs."""
    for part in code.co_consts:
        if type(part) is types.CodeType:
            yield part
            yield from inner(part)


def move(codes):
    """Copies these, and what the functions above run, and lets everyone who runs it find the copy.
    In the zygote, before any seal is made."""
    if not IS_KNOWN:
        return
    functions = [thing for thing in gc.get_objects() if type(thing) is types.FunctionType]
    for function in functions:
        module = str(function.__module__)
        if module in LIBRARYS or module.startswith(OWN):
            codes.update((id(code), code) for code in (function.__code__, *inner(function.__code__)))
    # Each copy has the parts of what it was copied from, which stays and keeps them alive.
    fixed, each = types.CodeType.__basicsize__, types.CodeType.__itemsize__
    sizes = {at: fixed + each * word(at + LENGTH_AT).value for at in codes}
    room = mmap.mmap(-1, sum(sizes.values()) + ALIGNED * len(sizes) + 2 * PIECE,
                     flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    end = -(-ctypes.addressof(ctypes.c_char.from_buffer(room)) // PIECE) * PIECE
    copies = {}
    for at, size in sizes.items():
        copies[at] = end
        ctypes.memmove(end, at, size)
        word(end + COUNT_AT).value = 0
        word(end + types.CodeType.__weakrefoffset__).value = 0
        end += -(-size // ALIGNED) * ALIGNED
    # Who runs it: functions, and code that makes functions.
    places = [id(function) + CODE_AT for function in functions]
    places += [id(code.co_consts) + tuple.__basicsize__ + i * ctypes.sizeof(ctypes.c_void_p) for code in codes.values()
               for i, part in enumerate(code.co_consts) if type(part) is types.CodeType]
    for place in dict.fromkeys(places):
        copy = copies.get(word(place).value)
        if copy:
            word(copy + COUNT_AT).value += 1
            word(place).value = copy
    MOVED.append((room, [ctypes.cast(copy, ctypes.py_object).value for copy in copies.values()], dict(codes)))


CODE_AT = code_place()
