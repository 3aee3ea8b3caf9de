"""The other side of `hone bench cpu`: the same random model, batch and number of threads through transformers. Prints one JSON object.

    python bench/cpu_peer.py MODEL_DIR --threads 2 --sequences 8 --length 256 --train_steps 5 --prompt 64 --new_tokens 128 --batches 16,1

With --train_steps 0 there is no training. transformers is used as its documentation says it is fast on a CPU: sdpa attention, fused AdamW, gradients set to
None, generate() under inference mode with the default dynamic cache.
"""
import argparse
import json
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.set_verbosity_error()
p = argparse.ArgumentParser()
p.add_argument("model")
for name in ("threads", "sequences", "length", "train_steps", "prompt", "new_tokens"):
    p.add_argument("--" + name, type=int, required=True)
p.add_argument("--batches", type=lambda s: [int(x) for x in s.split(",")], required=True)
p.add_argument("--cpu_time", action="store_true")
o = p.parse_args()
clock = time.process_time if o.cpu_time else time.perf_counter
torch.set_num_threads(o.threads)
model = AutoModelForCausalLM.from_pretrained(o.model, dtype=torch.float32, attn_implementation="sdpa")
V = model.config.vocab_size
gen = torch.Generator().manual_seed(0)


def train():
    model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, V, (o.sequences, o.length), generator=gen)
    best = float("inf")
    for step in range(o.train_steps + 1):
        start = clock()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step:   # the first one allocates
            best = min(best, clock() - start)
    return ids.numel() / best


def generate(batch):
    model.eval()
    ids = torch.randint(0, V, (batch, o.prompt), generator=gen)
    best = float("inf")
    for _ in range(2):
        start = clock()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=o.new_tokens, min_new_tokens=o.new_tokens, do_sample=True,
                                 temperature=1.0, top_k=0, pad_token_id=0)
        assert out.shape[1] == o.prompt + o.new_tokens
        best = min(best, clock() - start)
    return batch * o.new_tokens / best


result = dict({"train": train()} if o.train_steps else {}, name="transformers")
for b in o.batches:
    result[f"generate_{b}"] = generate(b)
print(json.dumps(result))
