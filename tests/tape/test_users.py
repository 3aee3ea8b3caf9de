"""Settings of the second trace's process that are others (worker/tracer_users.py): every logger
hears of another level, one that was there before, one that was made since and one that was a part
of a name before; limits are on both sides of the usual ones; and all is as it was afterwards."""
import faulthandler
import gc
import logging
import multiprocessing
import os
import sys
import threading
import tracemalloc
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import numpy
import torch
import torch.multiprocessing
import torch.utils.data
import zygote

zygote.Sandbox(os.path.join(BUILD, "libhone_sandbox.so"))
logging.getLogger("before")
logging.getLogger("part.of.a.name")
logging.getLogger("asked").isEnabledFor(logging.DEBUG)
import tracer_users
from command import check, done

tracer_users.install()
loggers = {name: logging.getLogger(name or None) for name in ("", "before", "since", "part.of", "asked")}
then = logging.root.level
for name, logger in loggers.items():
    found = [logger.isEnabledFor(logging.DEBUG)]
    for level in (logging.DEBUG, then):
        tracer_users.LEVELS.put(level)
        found.append(logger.isEnabledFor(logging.DEBUG))
    check(f"'{name}' hears of a level and of the one before", found == [False, True, False], found)


def settings():
    worker = torch.utils.data.get_worker_info()
    return (sys.getswitchinterval(), sys.getrecursionlimit(), gc.get_threshold()[0], torch.distributed.is_initialized(),
            worker is not None, faulthandler.is_enabled(), tracemalloc.is_tracing(), logging.root.level,
            multiprocessing.current_process().name, multiprocessing.parent_process(),
            multiprocessing.get_start_method(allow_none=True), torch.multiprocessing.get_sharing_strategy(),
            sys.flags.hash_randomization, sys.warnoptions, sys._xoptions, sys.prefix, sys.executable, torch.__file__,
            sys.unraisablehook, threading.excepthook, warnings.showwarning, sys.get_asyncgen_hooks().firstiter,
            sys.get_coroutine_origin_tracking_depth(), hasattr(sys, "tracebacklimit"), logging.getLoggerClass(),
            logging.raiseExceptions, logging.root.manager.disable, numpy.get_printoptions()["precision"])


usual = settings()
with tracer_users.set_lower():
    lower = settings()
check("limits are lower", all(a < b for a, b in zip(lower[:3], usual[:3])), (lower, usual))
with tracer_users.set_otherwise():
    otherwise = settings()
check("limits are higher", all(a > b for a, b in zip(otherwise[:3], usual[:3])), (otherwise, usual))
check("others share the work, load data and hear of faults", all(otherwise[3:7]) and not any(usual[3:7]), otherwise)
check("each setting is another", not [i for i, (a, b) in enumerate(zip(otherwise, usual)) if a == b],
      (otherwise, usual))
check("all is as it was", settings() == usual, settings())
done()
