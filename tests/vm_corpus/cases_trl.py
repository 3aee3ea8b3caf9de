"""trl: log-probability and entropy of a token in one pass."""
# packages: trl
import torch
from corpus import Case, bare_package, folder_of

bare_package("trl", folder_of("trl", "trl"))
from trl.kernels.logprob_entropy import selective_log_softmax_and_entropy as both


def reference(logits, index, temperature=1.0):
    p = (logits.float() / temperature).log_softmax(-1)
    return p.gather(-1, index[..., None]).squeeze(-1), -(p.exp() * p).sum(-1)


CASES = [
    Case("f32", both, reference, lambda: (torch.randn(2, 5, 3000), torch.randint(0, 3000, (2, 5))), grad=True),
    Case("bf16, temperature", lambda x, i: both(x, i, 0.7), lambda x, i: reference(x, i, 0.7),
         lambda: (torch.randn(2, 5, 700).bfloat16(), torch.randint(0, 700, (2, 5))), grad=True),
]
