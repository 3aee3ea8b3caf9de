"""tracer_clocks: the clocks of a trace. In none of them time is the machine's.

In the first trace every clock stands nearly still. In the second one it runs, from another date
than the machine's, by years, so that neither a date nor how long a launch took tells a trace.
"""
import datetime
import os
import time

import tracer_driver
from tracer_chance import DRAWN
from tracer_drawn import stand_for, told

DAY = 86400


class Frozen:
    """A clock of the first trace: it stands nearly still."""

    def __init__(self, real, step):
        self.value, self.step = real(), step

    def __call__(self):
        self.value += self.step
        return self.value


def install_first():
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        setattr(time, name, Frozen(getattr(time, name), DRAWN.randrange(60, 4000) * 1e-9))
    for name in ("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns"):
        setattr(time, name, Frozen(getattr(time, name), DRAWN.randrange(60, 4000)))


class Clock:
    """A clock far from the machine's. Host code may ask how long a launch took: in every second
    call of forward that is as long as a compiler takes, in the others next to nothing."""

    def __init__(self, real, later, unit):
        self.value, self.unit = real() + later * unit, unit

    def __call__(self):
        calls = tracer_driver.SHELL.calls
        low, high = ((-7.3, 0.3) if not calls else (-7.3, -6) if calls % 2 else (-1, 0.3))
        step = 10 ** DRAWN.uniform(low, high) * self.unit
        self.value += int(step) + 1 if self.unit > 1 else step
        return self.value


def install_second():
    """In both traces time is not the machine's; here it is another than in the first, by years: a
    date is a clock too."""
    later = DRAWN.randrange(8 * 366 * DAY, 13 * 366 * DAY)
    install_zone()
    # Every clock of time, in seconds and in nanoseconds, runs on from a drawn date.
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        for ending, unit in (("", 1), ("_ns", 10**9)):
            real = getattr(time, name + ending)
            clock = told(Clock(real, later, unit), f"time.{name}{ending}()", float if unit == 1 else int, low=1e-9)
            stand_for(real, clock)
            setattr(time, name + ending, clock)
    for ending, kind in (("", float), ("_ns", int)):
        now = {True: getattr(time, f"time{ending}"), False: getattr(time, f"monotonic{ending}")}
        setattr(time, f"clock_gettime{ending}", told(lambda clock, now=now: now[clock == time.CLOCK_REALTIME](),
                                                     f"time.clock_gettime{ending}()", kind, low=1e-9))
    # What takes the time of day where none is given.
    for name in ("gmtime", "localtime"):
        setattr(time, name, told(lambda seconds=None, real=getattr(time, name): real(
            time.time() if seconds is None else seconds), f"time.{name}()", time.struct_time, is_one=is_empty))
    for name in ("ctime", "asctime"):
        setattr(time, name, told(lambda at=None, real=getattr(time, name), now="time" if name == "ctime"
                else "localtime": real(getattr(time, now)() if at is None else at), f"time.{name}()", str,
                is_one=is_empty))
    time.strftime = told(lambda form, at=None, real=time.strftime: real(form, time.localtime() if at is None else at),
                         "time.strftime()", str, is_one=lambda args: len(args) < 2)

    # datetime's classes are of C, so theirs are replaced by classes of the same names.
    class LaterDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls):
            return datetime.datetime.utcfromtimestamp(time.time())
    LaterDatetime.__name__ = LaterDatetime.__qualname__ = "datetime"
    datetime.datetime = LaterDatetime

    class LaterDate(datetime.date):
        @classmethod
        def today(cls):
            return datetime.date.fromtimestamp(time.time())
    LaterDate.__name__ = LaterDate.__qualname__ = "date"
    datetime.date = LaterDate


def install_zone():
    """Another place on earth: none of its hours are the first trace's, and it has a summer. The
    variable is set where C's functions look for it, and not where Python's do."""
    names = ["".join(DRAWN.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4)) for _ in range(2)]
    os.putenv("TZ", f"{names[0]}{DRAWN.choice('-+')}{DRAWN.randrange(2, 12)}:{DRAWN.choice((15, 30, 45))}{names[1]}")
    time.tzset()


def is_empty(args):
    return not args or args[0] is None
