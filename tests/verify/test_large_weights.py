"""Trials with large weights: behind a softmax of scores in the thousands half a unit in an input's
last place moves the result by a part in a thousand. The reference in fp64 says how far, and an
attention that adds in another order is right within that."""
import os, sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""   # as the zygote sets it
sys.path[:0] = ["tests", "worker"]
import torch

import oracle
from command import check, done
from oracle_reference import Reference

TRIALS = 40
FLOOR, FACTOR, SHARE = 5e-5, 8, 0.002   # of src/verify/compare.c
HEADS = 2


def attention(x, m):
    """In fp32, one product added behind another."""
    (batch, length, width), depth = x.shape, x.shape[-1] // HEADS

    def linear(x, weight, bias):
        total = torch.zeros(*x.shape[:-1], weight.shape[0])
        for k in range(x.shape[-1]):
            total = total + x[..., k:k + 1] * weight[:, k]
        return total + bias

    q, k, v = (t.view(batch, length, HEADS, depth).transpose(1, 2)
               for t in linear(x, m["attn.in_proj_weight"], m["attn.in_proj_bias"]).split(width, -1))
    scores = torch.zeros(batch, HEADS, length, length)
    for d in range(depth):
        scores = scores + q[..., d, None] * k[..., None, :, d]
    scores = scores * torch.tensor(depth ** -0.5)
    p = torch.exp(scores - scores.amax(-1, keepdim=True))
    out = ((p / p.sum(-1, keepdim=True)) @ v).transpose(1, 2).reshape(x.shape)
    return linear(out, m["attn.out_proj.weight"], m["attn.out_proj.bias"])


with open("tests/known_good/multihead_attention_in_proj/task.py") as f:
    variant = oracle.Variant(Reference(f.read(), 1), "stock", {}, 1)
trial = {"distribution": "near-one", "parameters": "random", "seed": 1}
check("nobody asks where weights are ordinary", oracle.run_trial(variant, trial, False, 0)["noise"] is None)
sensitive, wrong, off = 0, 0, 0
for seed in range(TRIALS):
    result = oracle.run_trial(variant, dict(trial, seed=seed, wide=2), False, 0)
    exact, plain, noise = result["exact"][0], result["plain"][0], result["noise"][0]
    mean = exact.abs().mean()
    error = lambda y: (y.double() - exact).abs() / (exact.abs() + SHARE * mean)
    bound = max(FLOOR, FACTOR * error(plain).max().item())
    allowed = torch.clamp(FACTOR * noise, max=10 * FLOOR * mean).reshape(*exact.shape[:-1], 1)
    found = attention(result["inputs"][0], dict(result["params"]))
    is_right = lambda y: ((error(y) <= bound) | ((y.double() - exact).abs() <= allowed)).all().item()
    sensitive += (allowed > FLOOR * mean).any().item()
    wrong += not is_right(found)
    off += is_right(found + (0.02 * mean).float())
print(f"# {sensitive} of {TRIALS} move by more than the floor, {wrong} wrong, {off} right with 0.02 means more")
check("what half a unit in the last place moves is more than the floor in some", sensitive >= 1)
check("an honest attention is right", wrong <= 1)
check("an output that is off everywhere is still wrong", off == 0)
done()
