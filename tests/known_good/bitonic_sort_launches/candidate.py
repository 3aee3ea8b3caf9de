import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fill_padded(src, dst, n, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i, mask=i < n, other=float("inf")), mask=i < size)


@triton.jit
def compare_exchange(data, half, j, k, BLOCK: tl.constexpr):
    """Each lane owns one pair (i, i ^ j), so lanes never touch each other's elements."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = t < half
    i = (t // j) * (2 * j) + t % j
    a = tl.load(data + i, mask=live)
    b = tl.load(data + i + j, mask=live)
    ascending = (i & k) == 0
    swap = (a > b) == ascending
    tl.store(data + i, tl.where(swap, b, a), mask=live)
    tl.store(data + i + j, tl.where(swap, a, b), mask=live)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        size = triton.next_power_of_2(n)
        data = torch.empty(size, device=x.device, dtype=x.dtype)
        fill_padded[(triton.cdiv(size, 64),)](x, data, n, size, BLOCK=64)
        half = size // 2
        k = 2
        while k <= size:
            j = k // 2
            while j >= 1:
                compare_exchange[(triton.cdiv(half, 32),)](data, half, j, k, BLOCK=32)
                j //= 2
            k *= 2
        return data[:n]
