"""tracer_stop: how a job of a tracer ends where it has no tape: a fault, from what a candidate's
code raised or what was recorded of it.
"""
import os

import tracer_driver
import wire
from tracer_fault import Fault
from tracer_record import SOURCE_NAME

TEXT_MAX = 2048
INDUCTOR = os.path.join("torch", "_inductor", "runtime", "triton_heuristics.py")


class Stop(Exception):
    """Ends the job with a fault: (code, type, text, line)."""

    def __init__(self, code, kind, text, line=0):
        super().__init__(text)
        self.fault = {"code": code, "type": wire.words(kind), "text": wire.words(text[:TEXT_MAX]), "line": line}


def guarded(rec, code, work):
    """Runs candidate code; whatever it raises becomes a Stop. A recorded fault counts even where
    the candidate caught it, and so does an operator that failed: its words are other ones here."""
    rec.failed = None
    try:
        value = work()
    except Stop:
        raise
    except BaseException as error:   # SystemExit and KeyboardInterrupt are the candidate's too
        if rec.fault is None:
            raise stop_of(code, error) from None
    if rec.fault is not None:
        fault, line = rec.fault
        raise Stop(fault.code, "Fault", fault.text, line)
    if rec.failed is not None:
        raise Stop("unsupported", "Fault",
                   f"host code goes on after {rec.failed} failed, whose exception is not the GPU's")
    return value


def stop_of(code, error):
    if isinstance(error, Fault):
        return Stop(error.code, "Fault", error.text, traceback_line(error))
    compile_failed = error
    while compile_failed is not None and not isinstance(compile_failed, tracer_driver.CompileFailed):
        compile_failed = compile_failed.__cause__ or compile_failed.__context__
    if compile_failed is not None and code != "import-error":
        return Stop("triton-compile-error", type(compile_failed.__cause__).__name__, str(compile_failed),
                    compile_failed.line)
    if isinstance(error, tracer_driver.GridTooLarge):
        code = "grid-too-large"
    text = safe_text(error)
    # Its launcher compiles and loads kernels by itself, which nothing here does: what it meets
    # then, a refused call mostly, names nothing that the candidate could change.
    if came_through(error, INDUCTOR):
        code = "unsupported"
        text = (f"kernels are launched by Triton alone, not by TorchInductor's launcher: decorate them with triton.jit "
                f"and launch them as kernel[grid](...) ({text})")
    return Stop(code, type(error).__name__, text, traceback_line(error))


def came_through(error, file):
    tb = error.__traceback__
    while tb is not None and not tb.tb_frame.f_code.co_filename.endswith(file):
        tb = tb.tb_next
    return tb is not None


def safe_text(error):
    try:
        return str(error)
    except BaseException:
        return "(the exception has no text)"


def traceback_line(error):
    if isinstance(error, SyntaxError) and error.filename == SOURCE_NAME:
        return error.lineno or 0
    line = 0
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == SOURCE_NAME:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line
