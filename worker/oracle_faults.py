"""Whose fault an exception is in a process that runs a task's reference: the task's, or that of our
own code around it.

What a task does may end in our code as well (values that no kind of input has), so the kind counts
and not the place alone: a name that is not there, an attribute that a module or an object of ours
lacks, an import, a call that does not fit a function of ours, an assertion. Only our own text makes
these, where the innermost frame is ours. Such an exception is never taken for something that the
reference does not allow: it ends the process, and the verdict is `infra` with its words."""

import os
import re
import sys
import traceback

import wire

HERE = os.path.dirname(os.path.abspath(__file__))
CODE = "ours"       # of the fault that is sent; src/verify/oracle.c knows it
CALL = re.compile(r"(?:(\w+)\.)?(\w+)\(\) (?:missing|takes|got)")


def is_of_ours(thing):
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or "/")) == HERE


def names_ours(text, names):
    """Whether the call that a TypeError speaks of is one of our functions: by name in the module of
    the innermost frame, or of a class there."""
    found = CALL.match(text)
    if not found:
        return False
    owner, name = found.groups()
    called = names.get(owner or name)
    return called is not None and is_of_ours(called) and (owner is None or hasattr(called, name))


def is_ours(e):
    frame = None
    for frame, _ in traceback.walk_tb(e.__traceback__):
        pass
    if frame is None or os.path.dirname(os.path.abspath(frame.f_code.co_filename)) != HERE:
        return False
    if isinstance(e, (NameError, ImportError, AssertionError)):
        return True
    if isinstance(e, AttributeError):
        owner = e.obj
        module = getattr(owner, "__file__", None) if isinstance(owner, type(sys)) else None
        return (os.path.dirname(os.path.abspath(module)) == HERE if module
                else is_of_ours(owner if isinstance(owner, type) else type(owner)))
    return isinstance(e, TypeError) and names_ours(str(e), frame.f_globals)


def theirs():
    """For `except theirs():` around what runs a task's code: its exceptions are
    caught, and ours are not."""
    return () if is_ours(sys.exc_info()[1]) else Exception


def place_of(e):
    """Where it was raised, for people."""
    last = traceback.extract_tb(e.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"


def words_of(e):
    """What an exception says, as a text that a message can carry. A task writes it,
    and may fail to say anything."""
    try:
        text = str(e)
    except BaseException:
        text = "(what it says cannot be read)"
    return wire.words(text)
