import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def selective_scan(x, dt, B, C, A_log, D, y, T, DIM, STATE, BS: tl.constexpr):
    batch = tl.program_id(0)
    d = tl.program_id(1)
    s = tl.arange(0, BS)
    ok = s < STATE
    a = -tl.exp(tl.load(A_log + d * STATE + s, mask=ok, other=0.0))
    skip = tl.load(D + d)
    h = tl.zeros((BS,), dtype=tl.float32)
    for t in range(T):
        at = (batch * T + t) * DIM + d
        xv = tl.load(x + at)
        step = softplus(tl.load(dt + at))
        bv = tl.load(B + (batch * T + t) * STATE + s, mask=ok, other=0.0)
        cv = tl.load(C + (batch * T + t) * STATE + s, mask=ok, other=0.0)
        h = tl.exp(step * a) * h + step * bv * xv
        tl.store(y + at, tl.sum(h * cv, axis=0) + skip * xv)


class ModelNew(nn.Module):
    def __init__(self, dim, state):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(dim, 1))
        self.D = nn.Parameter(torch.ones(dim))

    def forward(self, x, dt, B, C):
        batch, steps, dim = x.shape
        state = B.shape[-1]
        y = torch.empty_like(x)
        selective_scan[(batch, dim)](x, dt, B, C, self.A_log, self.D, y, steps, dim, state, BS=triton.next_power_of_2(state), num_warps=1)
        return y
