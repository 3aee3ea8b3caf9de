"""tracer_words: looks at words of this process's memory, many at once.

CPython keeps a number with each dict that changes whenever the dict does (PEP 509). To look at the
values instead counts references to them, and so writes to a thousand pages that a fork shares with
the zygote.
"""
import ctypes
import sys

import numpy

WORD = 8
LOWEST = 4096        # an array may not begin at 0
MEMORY = numpy.frombuffer((ctypes.c_uint64 * (1 << 44)).from_address(LOWEST), numpy.uint64)


def indices(addresses):
    """Where in MEMORY the words at some addresses are."""
    return (numpy.array(addresses, numpy.int64) - LOWEST) // WORD


def place_of(thing, part):
    """Where among the bytes of an object the address of another one stands."""
    words = (ctypes.c_uint64 * (type(thing).__basicsize__ // WORD)).from_address(id(thing))
    return list(words).index(id(part)) * WORD


def version_of(table):
    return ctypes.c_uint64.from_address(id(table) + VERSION_AT).value


def has_versions():
    """Whether this interpreter keeps that number, at this place."""
    table = {"a": 1}
    seen = [version_of(table)]
    for change in (lambda: table.update(b=2), lambda: table.update(a=3), lambda: table.pop("b")):
        change()
        seen.append(version_of(table))
    return (len(set(seen)) == len(seen) and table["a"] == 3 and version_of(table) == seen[-1]
            and version_of(dict(table)) != seen[-1])


VERSION_AT = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
HAS_VERSIONS = sys.implementation.name == "cpython" and has_versions()
