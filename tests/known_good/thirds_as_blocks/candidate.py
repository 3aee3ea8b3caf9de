import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def thirds(x, y, P: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, P)
    s = tl.zeros((P,), tl.float32)
    for k in range(3):
        s += tl.load(x + row * 3 * P + k * P + i)
    tl.store(y + row * P + i, s)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        P = x.shape[1] // 3
        y = torch.empty(x.shape[0], P, device=x.device)
        thirds[(x.shape[0],)](x, y, P=P)
        return y
