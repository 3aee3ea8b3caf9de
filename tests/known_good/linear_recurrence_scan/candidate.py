import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def first_order(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def recurrence(a_ptr, b_ptr, h_ptr, T, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.arange(0, BLOCK)
    a = tl.sigmoid(tl.load(a_ptr + row * T + t, mask=t < T, other=0.0))
    b = tl.load(b_ptr + row * T + t, mask=t < T, other=0.0)
    _, h = tl.associative_scan((a, b), axis=0, combine_fn=first_order)
    tl.store(h_ptr + row * T + t, h, mask=t < T)


class ModelNew(nn.Module):
    def forward(self, a, b):
        B, T = b.shape
        h = torch.empty_like(b)
        recurrence[(B,)](a, b, h, T, BLOCK=triton.next_power_of_2(T))
        return h
