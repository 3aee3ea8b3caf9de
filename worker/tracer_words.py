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

words_other = ctypes.PyDLL(None).words_other      # worker/words.c, in libhone_sandbox.so, which is there already
words_other.argtypes = 3 * [ctypes.c_void_p] + 2 * [ctypes.c_int64]
words_other.restype = ctypes.c_int64
words_others_in = ctypes.PyDLL(None).words_others_in
words_others_in.argtypes = 3 * [ctypes.py_object]
words_others_in.restype = None


def indices(addresses):
    """Where in MEMORY the words at some addresses are."""
    return (numpy.array(addresses, numpy.int64) - LOWEST) // WORD


class Words:
    """The words at some addresses, and what they were."""

    def __init__(self, addresses):
        self.at = indices(addresses)
        self.then = MEMORY[self.at]
        self.arrays = LOWEST, self.at.ctypes.data, self.then.ctypes.data      # as the function in C takes them

    def first_other(self, begin=0):
        """The number of the first word, from this one on, that is another now; None: there is
        none."""
        i = words_other(*self.arrays, begin, len(self.at))
        return None if i < 0 else i

    def others(self):
        """The numbers of all that are others now."""
        i = self.first_other()
        while i is not None:
            yield i
            i = self.first_other(i + 1)

    def keep(self, i):
        """What this word is now is what it was."""
        self.then[i] = MEMORY[self.at[i]]


def others_in(table, then):
    """The keys of a dict under which another one has another object, or none. No reference is
    counted to what it holds."""
    found = []
    words_others_in(table, then, found)
    return found


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
