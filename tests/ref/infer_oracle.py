"""Greedy continuations by transformers for tests/infer/test_generate.c.

    python tests/ref/infer_oracle.py OUT_DIR      writes OUT_DIR/model/ (a small random Qwen3) and
                                                  OUT_DIR/greedy.json
                                                  [{"prompt": [...], "tokens": [...]}, ...]

Weights are larger than a fresh model's, so that logits are far apart and the continuation wanders
through the vocabulary. Some prompts end by the end-of-sequence token, none of the others contains
it.
"""
import json
import os
import sys

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
torch.manual_seed(11)
torch.set_num_threads(1)
config = Qwen3Config(vocab_size=307, hidden_size=64, intermediate_size=144, num_hidden_layers=3,
                     num_attention_heads=6, num_key_value_heads=2, head_dim=32, max_position_embeddings=512,
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0), tie_word_embeddings=True,
                     bos_token_id=None, eos_token_id=5, pad_token_id=None)
model = Qwen3ForCausalLM(config).float().eval()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(1 + 0.2 * torch.randn_like(p) if p.ndim == 1 else torch.randn_like(p) * (1.5 / p.shape[1] ** 0.5))
model.save_pretrained(os.path.join(out, "model"))
rows = []
for n in (1, 7, 31, 32, 65, 100):
    prompt = torch.randint(6, config.vocab_size, (1, n))
    with torch.no_grad():
        tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=64, do_sample=False,
                                pad_token_id=0)[0, n:]
    rows.append({"prompt": prompt[0].tolist(), "tokens": tokens.tolist()})
with open(os.path.join(out, "greedy.json"), "w") as f:
    json.dump(rows, f)
