import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bn_stats_kernel(x_ptr, sum_ptr, sq_ptr, C, HW, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    c = tl.program_id(1)
    base = (n * C + c) * HW
    s = 0.0
    q = 0.0
    for start in range(0, HW, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + base + i, mask=i < HW, other=0.0)
        s += tl.sum(v)
        q += tl.sum(v * v)
    tl.store(sum_ptr + n * C + c, s)
    tl.store(sq_ptr + n * C + c, q)


@triton.jit
def bn_apply_kernel(x_ptr, sum_ptr, sq_ptr, w_ptr, b_ptr, y_ptr, N, C, HW, eps, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr):
    n = tl.program_id(0)
    c = tl.program_id(1)
    rows = tl.arange(0, BLOCK_N)
    count = N * HW
    mean = tl.sum(tl.load(sum_ptr + rows * C + c, mask=rows < N, other=0.0)) / count
    var = tl.sum(tl.load(sq_ptr + rows * C + c, mask=rows < N, other=0.0)) / count - mean * mean
    rstd = 1.0 / tl.sqrt(var + eps)
    w = tl.load(w_ptr + c)
    b = tl.load(b_ptr + c)
    base = (n * C + c) * HW
    for start in range(0, HW, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + base + i, mask=i < HW)
        tl.store(y_ptr + base + i, (v - mean) * rstd * w + b, mask=i < HW)


class ModelNew(nn.Module):
    def __init__(self, num_features: int):
        super(ModelNew, self).__init__()
        self.bn = nn.BatchNorm2d(num_features=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        N, C, H, W = x.shape
        sums = torch.empty((2, N, C), device=x.device, dtype=torch.float32)
        y = torch.empty_like(x)
        bn_stats_kernel[(N, C)](x, sums[0], sums[1], C, H * W, BLOCK=128)
        bn_apply_kernel[(N, C)](x, sums[0], sums[1], self.bn.weight, self.bn.bias, y, N, C, H * W, self.bn.eps, BLOCK=128, BLOCK_N=triton.next_power_of_2(N))
        return y
