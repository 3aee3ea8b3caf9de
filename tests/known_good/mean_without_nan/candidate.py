import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x, o, N, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + r * N + j, mask=j < N, other=float("nan"))
    ok = v == v
    tl.store(o + r, tl.sum(tl.where(ok, v, 0.0), 0) / tl.sum(ok.to(tl.float32), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device)
        k[(x.shape[0],)](x, o, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return o
