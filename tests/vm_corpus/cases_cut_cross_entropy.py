"""cut-cross-entropy: the loss of a linear classifier without its logits, forward and backward
(locks in its backward pass, block sparsity)."""
# packages: cut-cross-entropy
import torch
import torch.nn.functional as F
from corpus import Case
from cut_cross_entropy import linear_cross_entropy


def reference(reduction="mean", softcap=None):
    def call(e, c, targets):
        logits = e.float() @ c.float().T
        if softcap:
            logits = softcap * torch.tanh(logits / softcap)
        return F.cross_entropy(logits, targets, reduction=reduction)
    return call


def inputs(dtype=torch.bfloat16):
    targets = torch.randint(0, 300, (70,))
    targets[::9] = -100
    return lambda: (torch.randn(70, 64).to(dtype) * 0.3, torch.randn(300, 64).to(dtype) * 0.3, targets)


CASES = [
    Case("bf16", lambda e, c, t: linear_cross_entropy(e, c, t, filter_eps=None), reference(), inputs(), grad=True,
         tolerance=3e-2),
    Case("f16 filtered", lambda e, c, t: linear_cross_entropy(e, c, t), reference(), inputs(torch.float16), grad=True,
         tolerance=3e-2),
    Case("sum softcap", lambda e, c, t: linear_cross_entropy(e, c, t, softcap=3.0, reduction="sum", filter_eps=None),
         reference("sum", 3.0), inputs(), grad=True, tolerance=3e-2),
    Case("none", lambda e, c, t: linear_cross_entropy(e, c, t, reduction="none"), reference("none"), inputs(),
         tolerance=3e-2),
]
