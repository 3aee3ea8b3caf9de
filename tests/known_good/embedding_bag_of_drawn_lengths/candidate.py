import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(I, O, W, Y, n, nb, D: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, D)
    s = tl.load(O + b)
    e = tl.load(O + b + 1, mask=b + 1 < nb, other=0)
    e = tl.where(b + 1 < nb, e, n)
    acc = tl.zeros([D], tl.float32)
    for j in range(s, e):
        i = tl.load(I + j)
        acc += tl.load(W + i * D + d)
    cnt = e - s
    tl.store(Y + b * D + d, acc / tl.maximum(cnt, 1).to(tl.float32))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(50, 16, mode="mean")

    def forward(self, ids, offsets):
        y = torch.empty(offsets.shape[0], 16, device=ids.device)
        k[(offsets.shape[0],)](ids, offsets, self.emb.weight, y, ids.shape[0], offsets.shape[0], D=16)
        return y
