"""tracer_chance: random numbers: the tracer's own, and the generators of the second trace's
process, which host code may draw from where it has seeded them itself.
"""
import ctypes
import random
import sys

import torch

from tracer_drawn import refused

# taken before any candidate's code runs: what this process shows of itself is drawn, or a candidate
# would know it
DRAWN = random.SystemRandom()

GENERATORS = {}      # identity of a generator that nobody has seeded -> (it, how its state is read, its state)
# As they are where nobody stands in for them, and before host code may put others in their place.
ADDRESS, NUMEL, BYTES_AT = torch.Tensor.data_ptr, torch.Tensor.numel, ctypes.string_at
RANDOM = random.Random.__mro__[1]


def state_of(generator):
    """A state of torch's as bytes. Read from its memory: what a first comparison by torch, or
    numpy, writes to is a hundred pages that a fork has to copy."""
    state = generator.get_state()
    return BYTES_AT(ADDRESS(state), NUMEL(state))


def watch_generators():
    """Before the candidate's first line."""
    found = [(random._inst, random._inst.getstate),
             (torch.default_generator, lambda: state_of(torch.default_generator))]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        legacy = numpy.random.mtrand._rand
        found.append((legacy, lambda: [v.tobytes() if hasattr(v, "tobytes") else v for v in legacy.get_state()]))
    for generator, state in found:
        GENERATORS[id(generator)] = (generator, state, state())


def draws(generator, name, args):
    """A method of a generator of the process is called."""
    if name in ("seed", "setstate", "set_state") and args and args[0] is not None:
        del GENERATORS[id(generator)]
    elif name not in ("getstate", "get_state"):
        refused_draw()


def refused_draw():
    refused("host code draws from a generator of random numbers that it has not seeded: what it does may not depend "
            "on chance")


def check_generators(is_seeded):
    """When a phase ends: whether one was drawn from. is_seeded: torch's is, from here on."""
    for generator, state, then in list(GENERATORS.values()):
        if state() != then:
            refused_draw()
    if is_seeded:
        GENERATORS.pop(id(torch.default_generator), None)


def install(seed):
    """Generators that a process of its own would have seeded otherwise; what the job seeds itself
    comes later."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed + 1)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed((seed + 2) & 0xffffffff)
    watch_generators()
