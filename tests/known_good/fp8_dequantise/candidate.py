import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dequantise(q, scale, out, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    s = tl.load(scale + r)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(q + r * N + c, mask=c < N, other=0.0).to(tl.float32)
        tl.store(out + r * N + c, v * s, mask=c < N)


class ModelNew(nn.Module):
    def forward(self, q, scale):
        out = torch.empty(q.shape, dtype=scale.dtype, device=q.device)
        dequantise[(q.shape[0],)](q, scale, out, q.shape[1], BLOCK=32)
        return out
