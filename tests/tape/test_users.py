"""Settings of the second trace's process that are others (worker/tracer_users.py): every logger
hears of another level, one that was there before, one that was made since and one that was a part
of a name before."""
import logging
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
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
done()
