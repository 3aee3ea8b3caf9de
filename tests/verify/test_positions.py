"""Positions are judged only where they do not hang on subnormal numbers (worker/oracle.py)."""
import os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]
import torch

import oracle
import oracle_inputs
from command import check, done
from oracle_reference import Reference, device_mode

SOURCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.topk(torch.softmax(x, -1), 2)


def get_inputs():
    return [torch.randn(4, 6)]


def get_init_inputs():
    return []
"""
SEEDS = 100
POWER = 8      # magnitudes at which a second probability is often next to nothing
NORMAL_MIN = torch.finfo(torch.float32).tiny



def results(source):
    """(result, whether positions are kept) of trials in which they are those of fp64 and of plainer
    values."""
    with device_mode(source, "cpu"):
        variant = oracle.Variant(Reference(source, 42), "stock", {}, 7)
        for seed in range(SEEDS):
            trial = {"seed": seed, "distribution": "large", "parameters": "random"}
            r = oracle.run_trial(variant, trial, False, POWER)
            others = [oracle.run_trial(variant, trial, *oracle_inputs.PLAINEST["large"])["plain"], r["exact"]]
            if all(torch.equal(other[-1], r["plain"][-1]) for other in others):
                yield r, oracle.keeps_positions(variant, trial, False, POWER, r)


def has_subnormal(values):
    return bool(((values > 0) & (values < NORMAL_MIN)).any())


both = [(has_subnormal(r["plain"][0]), is_kept) for r, is_kept in results(SOURCE)]
check("some trials have subnormal numbers, and some have none", len({small for small, _ in both}) == 2)
check("positions among ordinary numbers are judged", all(is_kept for small, is_kept in both if not small))
check("positions of subnormal numbers are not", not any(is_kept for small, is_kept in both if small))
check("numbers are subnormal again afterwards", (torch.tensor(NORMAL_MIN) / 2 > 0).item())
# Positions alone show no such number, but they are others where those are zero.
alone = [is_kept for _, is_kept in results(SOURCE.replace("2)", "2).indices"))]
check("nor are most where positions are all there is", any(alone) and not all(alone))
done()
