import time

import torch
import torch.nn as nn
import triton
import triton.language as tl

N = 410


class Model(nn.Module):
    """The original, kept for comparison in the test below."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return nn.functional.softshrink(x, lambd=0.3)


@triton.jit
def softshrink_kernel(x_ptr, y_ptr, n, lambd, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.where(x > lambd, x - lambd, tl.where(x < -lambd, x + lambd, 0.0))
    tl.store(y_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        softshrink_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 0.3, BLOCK=256)
        return y


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []


def benchmark(fn, x, repeats=100):
    fn(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        fn(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def test():
    x = get_inputs()[0].cuda()
    try:
        assert torch.allclose(Model()(x), ModelNew()(x), atol=1e-5)
    except AssertionError as e:
        print("mismatch", e)
    print(benchmark(Model(), x), benchmark(ModelNew(), x))


if __name__ == "__main__":
    test()
