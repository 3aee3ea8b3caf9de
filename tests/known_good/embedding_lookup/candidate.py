import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lookup(idx, table, out, D, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.load(idx + r)
    d = tl.arange(0, BLOCK)
    tl.store(out + r * D + d, tl.load(table + i * D + d, mask=d < D), mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.emb = nn.Embedding(n, d)

    def forward(self, idx):
        D = self.emb.embedding_dim
        out = torch.empty((*idx.shape, D), device=idx.device, dtype=self.emb.weight.dtype)
        lookup[(idx.numel(),)](idx, self.emb.weight, out, D, BLOCK=32)
        return out
