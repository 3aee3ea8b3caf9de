"""The code that a tracer's zygote copies together (worker/tracer_codes.py): functions, what they
make, generators and what raises do as before, their code lies in order and is what it was, and it
outlives them."""
import gc
import os
import sys
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import zygote

zygote.Sandbox(os.path.join(BUILD, "libhone_sandbox.so"))      # of which the tracer's modules take functions
import tracer_codes
from command import check, done

SOURCE = """
def plain(a, b=2, *, c=3):
    return a + b + c
def outer(n):
    def inside(k):
        return n * k
    return [inside(i) for i in range(4)]
def steps(n):
    for i in range(n):
        yield i * i
def fail():
    raise ValueError("x")
def seldom():
    return lambda: 7
"""
NAMES = ("plain", "outer", "steps", "fail", "seldom")


def run(names):
    """What all of them say."""
    try:
        names["fail"]()
    except ValueError as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
    return names["plain"](1), names["outer"](3), list(names["steps"](3)), line, names["seldom"]()()


names = {"__name__": "some"}
exec(compile(SOURCE, "some.py", "exec"), names)
for _ in range(20):      # until Python has made them faster
    expected = run(names)
before = [names[name].__code__ for name in NAMES]
with tracer_codes.Running() as codes:
    run(names)
check("what runs is heard of", all(codes.get(id(code)) is code for code in before))
check("and nobody listens behind that", sys.getprofile() is None)
own = len(codes)
tracer_codes.move(codes)
after = [names[name].__code__ for name in NAMES]
check("the tracer's own functions come along", len(codes) > own + 100)
check("code is another object that says the same", all(a is not b and a == b for a, b in zip(after, before)))
copies = tracer_codes.MOVED[-1][1]
ends = [id(code) + code.__sizeof__() for code in copies]
check("it lies one behind the other", all(0 <= id(b) - end < 64 for b, end in zip(copies[1:], ends)))
check("functions run the copies", {id(code) for code in after} <= set(map(id, copies)))
inside = [names["seldom"]().__code__, *(c for c in after[1].co_consts if hasattr(c, "co_code"))]
check("and make functions that do", {id(code) for code in inside} <= set(map(id, copies)))
check("so do functions of the tracer's", id(tracer_codes.move.__code__) in set(map(id, copies)))
for _ in range(100):
    found = run(names)
check("they do what they did", found == expected)
# Copies belong to nobody who could end them.
made = names["seldom"]()
del names, after, inside, before
gc.collect()
check("what is left runs on", made() == 7)
done()
