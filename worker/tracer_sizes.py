"""tracer_sizes: what host code keeps of the sizes of other calls.

A grid of the first call, a block kept under half of a shape's sizes or a configuration under a key
without a size is the next call's mistake. So each trace at other sizes begins with a call at the
task's own, and the task's own sizes are traced again behind calls at smaller ones.
"""
import math

import tracer_calls
import tracer_candidate
import tracer_probe
from tracer_stop import Stop, guarded

FIRST = [None]     # the tape of the process' first call, without contents of constants
RETURNED = []      # that the task's own sizes were called behind others
SIZES_ALONE = 3
STATE_NUMBERS_MAX = 1 << 20
OF_SIZES = ("inputs", "input_kwargs", "draws", "init_args", "init_kwargs", "state", "training", "shapes_only")


def call_at(job, sizes, module, rec, tracer, model=None):
    """One call at other sizes, which a caller has made before those of `job`: what it leaves of
    them (a grid, a block, a configuration) is there. `model`: an object for the job's own sizes,
    which is called where the constructor takes the same at both. Returns the object, which is the
    next call's too; None: the constructor takes others, or there was no call."""
    made = len(rec.init_rows)
    same = all(sizes.get(k) == job.get(k) for k in ("init_args", "init_kwargs", "state", "training"))
    try:
        if model is None or not same:
            model = tracer_candidate.build(sizes, module)
            tracer_candidate.place(sizes, model, tracer)
        rec.epoch, tracer.phase = rec.calls, "forward"
        calls = tracer_calls.Calls(sizes, rec, tracer, model)
        calls.prepare("fresh")
        calls.disturb()
    except BaseException:       # what is wrong there is said of the tape of those sizes
        model = None
    tracer.phase, rec.epoch, rec.fault = "import", 0, None
    if model is None or not same:
        del rec.init_rows[made:]
        return None
    return model


def smaller_ones(job, other):
    """The job with the inputs' sizes of `other`, in two lists: all of them, each alone, two
    exchanged; and all but one, where there are more than two."""
    def replaced(value, sizes):
        if isinstance(value, list):
            return [replaced(v, sizes) for v in value]
        if not isinstance(value, dict):
            return value
        if "tensor" not in value:
            return {k: replaced(v, sizes) for k, v in value.items()}
        shape = [sizes.get(n, n) for n in value["tensor"]["shape"]]
        return {"tensor": {k: v for k, v in dict(value["tensor"], shape=shape).items() if k != "stride"}}

    def shapes(value):
        if isinstance(value, list):
            return [n for v in value for n in shapes(v)]
        if isinstance(value, dict):
            return value["tensor"]["shape"] if "tensor" in value else shapes(list(value.values()))
        return []
    here, there = (shapes([j["inputs"], j.get("input_kwargs", {})]) for j in (job, other))
    sizes = {a: b for a, b in zip(here, there) if a != b} if len(here) == len(there) else {}
    names = list(sizes)[:SIZES_ALONE]
    # One for the other too: their sum and product are the same then.
    few = [{a: sizes[a]} for a in names] + [{a: b, b: a} for a, b in [names[:2]]] if len(sizes) > 1 else []
    most = [{a: b for a, b in sizes.items() if a != name} for name in names if len(sizes) > 2]
    alone, without = ([dict(job, **{k: replaced(job[k], changed) for k in ("inputs", "input_kwargs") if k in job})
                       for changed in part] for part in (few, most))
    return [dict(job, **other), *alone], without


def check_return(job, other, rec, tracer):
    """Behind calls at smaller sizes the job's own have the tape that they have without: nothing of
    another call's sizes is kept. At larger ones a block that one call needs would do for the next,
    too."""
    single, without = ([], []) if other.get("shapes_only") else smaller_ones(job, other)
    # Other objects cost what their parameters do.
    if sum(math.prod(e["shape"]) for e in job.get("state", {}).values()) > STATE_NUMBERS_MAX:
        single, without = single[:1], []
    # What is kept under a part of the sizes is of the first call that has this part, and
    # shows where its other sizes are different ones: all sizes come first, the fewest last.
    # What the last call leaves, or an object's first, shows behind one call, which comes
    # behind one that shares nothing.
    chains = [[*single[:1], *without, *single[1:]]] if single else []
    chains += [[single[0], sizes] for sizes in single[1:]] + [[single[-1], single[0]]] * (len(single) > 1)
    tracer.phase, rec.epoch = "import", 0
    module = chains and guarded(rec, "import-error",
                                lambda: tracer_candidate.load_candidate(job["source"], tracer_probe.code_of(job)))
    for chain in chains:
        model = None
        rec.init_rows.clear()
        for sizes in chain:
            model = call_at(job, sizes, module, rec, tracer, model)
            if model is None:
                rec.init_rows.clear()
        if model is None:
            model = guarded(rec, "init-error", lambda: tracer_candidate.build(job, module))
            tracer_candidate.place(job, model, tracer)
        # The call that counts, as the first one did.
        rec.epoch, tracer.phase = rec.calls, "forward"
        calls = tracer_calls.Calls(job, rec, tracer, model)
        calls.prepare("fresh")
        tape = calls.tape()
        calls.finish()
        if tape != FIRST[0]:
            stop = tracer_calls.difference(FIRST[0], tape, 1)
            raise Stop("nondeterministic", "Fault", "behind a call at smaller sizes " + stop.fault["text"],
                       stop.fault["line"])
        tracer.phase, rec.epoch = "import", 0
    rec.init_rows.clear()


def check_return_once(job, rec, tracer):
    """In front of the first trace at other sizes."""
    if not RETURNED:
        RETURNED.append(True)
        check_return(job["earlier"], {k: job[k] for k in OF_SIZES if k in job}, rec, tracer)
