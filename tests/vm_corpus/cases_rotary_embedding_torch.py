"""rotary-embedding-torch: attention that turns its queries and keys on the way, beside the
library's reference."""
# packages: rotary-embedding-torch einops
import torch
from corpus import Case
from rotary_embedding_torch.flash_fused_rotary import get_flash_attention_fused as fused
from rotary_embedding_torch.flash_attn_with_rotary import get_flash_attention_fused as folded

randn = torch.randn


def inputs(length=70, size=32):
    angle = torch.outer(torch.arange(length).float(),
                        10000 ** (-torch.arange(0, size, 2).float() / size)).repeat_interleave(2, -1)
    return lambda: (randn(2, 2, length, size) * 0.3, randn(2, 2, length, size) * 0.3, randn(2, 2, length, size), angle)


def case(name, make, causal, grad=True):
    def call(force):
        function = make(force)
        return lambda q, k, v, angle: function(q, k, v, rotary_pos_emb=angle.detach(), is_causal=causal)
    return Case(f"{name} causal {causal}", call(False), call(True), inputs(), grad=grad, tolerance=2e-2)


CASES = [case(n, f, causal) for n, f in (("fused", fused), ("folded", folded)) for causal in (True, False)]
