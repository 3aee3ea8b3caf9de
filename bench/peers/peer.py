"""What the peers of `hone bench cpu` share: their command line and how a result is printed."""
import argparse
import json
import time


def options(doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    for name in ("threads", "sequences", "length", "train_steps", "prompt", "new_tokens"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--batches", type=lambda s: [int(x) for x in s.split(",")], required=True)
    p.add_argument("--cpu_time", action="store_true", help="processor time instead of time")
    o = p.parse_args()
    o.clock = time.process_time if o.cpu_time else time.perf_counter
    return o


def print_result(name, o, generate, **more):
    """generate(batch): tokens a second."""
    print(json.dumps(dict(more, name=name, **{f"generate_{b}": generate(b) for b in o.batches})))
