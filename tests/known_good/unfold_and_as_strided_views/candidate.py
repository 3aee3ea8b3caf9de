import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def last_axis_max(v, y, ROWS, COLS, W, s0, s1, s2, BC: tl.constexpr, BW: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    w = tl.arange(0, BW)
    x = tl.load(v + row * s0 + c[:, None] * s1 + w[None, :] * s2, mask=(c < COLS)[:, None] & (w < W)[None, :], other=float("-inf"))
    tl.store(y + row * COLS + c, tl.max(x, axis=1), mask=c < COLS)


class ModelNew(nn.Module):
    def __init__(self, window, step):
        super().__init__()
        self.window, self.step = window, step

    def forward(self, x):
        rows, length = x.shape
        count = (length - self.window) // self.step + 1
        view = torch.as_strided(x, (rows, count, self.window), (x.stride(0), self.step * x.stride(1), x.stride(1)))
        assert view.shape == x.unfold(1, self.window, self.step).shape
        y = x.new_empty(rows, count)
        last_axis_max[(rows, triton.cdiv(count, 8))](view, y, rows, count, self.window, *view.stride(), BC=8, BW=triton.next_power_of_2(self.window))
        return y
