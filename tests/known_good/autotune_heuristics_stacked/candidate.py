import torch
import torch.nn as nn
import triton
import triton.language as tl


def get_configs():
    return [triton.Config({"ROWS": rows}, num_warps=warps) for rows in (1, 2, 4) for warps in (2, 4)]


@triton.autotune(configs=get_configs(), key=["M", "N"], warmup=5, rep=20)
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["N"])})
@triton.jit
def rms_kernel(x, g, y, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    v = tl.load(x + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=1) / N + eps)
    gamma = tl.load(g + cols, mask=cols < N, other=0.0)
    tl.store(y + rows[:, None] * N + cols[None, :], v * scale[:, None] * gamma[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(n))

    def forward(self, x):
        y = torch.empty_like(x)
        M, N = x.shape
        rms_kernel[lambda meta: (triton.cdiv(M, meta["ROWS"]),)](x, self.gamma, y, M, N, 1e-6)
        return y
