import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def welford_combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    frac = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + delta * frac, m2_a + m2_b + delta * delta * n_a * frac, n


@triton.jit
def welford_kernel(x_ptr, var_ptr, mean_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    weight = mask.to(tl.float32)
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), weight), 0, welford_combine)
    tl.store(var_ptr + row, m2 / (n - 1.0))
    tl.store(mean_ptr + row, mean)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        rows, cols = x.shape
        var = torch.empty(rows, device=x.device, dtype=x.dtype)
        mean = torch.empty(rows, device=x.device, dtype=x.dtype)
        welford_kernel[(rows,)](x, var, mean, cols, BLOCK=triton.next_power_of_2(cols))
        return var, mean
