"""The other side of `hone bench cpu`: the same random model, batch and number of threads through
transformers. Prints one JSON object.

    python bench/peers/cpu_peer.py MODEL_DIR --threads 2 --sequences 8 --length 256 --train_steps 5
        --prompt 64 --new_tokens 128 --batches 16,1

With --train_steps 0 there is no training. transformers is used as its documentation says it is fast
on a CPU: sdpa attention, fused AdamW, gradients set to None, generate() under inference mode with
the default dynamic cache.
"""
import peer
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.set_verbosity_error()
o = peer.options(__doc__)
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
        start = o.clock()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step:   # the first one allocates
            best = min(best, o.clock() - start)
    return ids.numel() / best


def generate(batch):
    model.eval()
    ids = torch.randint(0, V, (batch, o.prompt), generator=gen)
    best = float("inf")
    for _ in range(2):
        start = o.clock()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=o.new_tokens,
                                 min_new_tokens=o.new_tokens, do_sample=True, temperature=1.0, top_k=0, pad_token_id=0)
        assert out.shape[1] == o.prompt + o.new_tokens
        best = min(best, o.clock() - start)
    return batch * o.new_tokens / best


peer.print_result("transformers", o, generate, **({"train": train()} if o.train_steps else {}))
