import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tri_matmul(a, b, c, N, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    r = i * BLOCK + tl.arange(0, BLOCK)
    s = j * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    if i >= j:
        # only tiles between the column's and the row's diagonal are not zero
        for t in range(j, i + 1):
            k = t * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(a + r[:, None] * N + k[None, :], mask=(r[:, None] < N) & (k[None, :] <= r[:, None]), other=0.0)
            y = tl.load(b + k[:, None] * N + s[None, :], mask=(k[:, None] < N) & (s[None, :] <= k[:, None]), other=0.0)
            acc += tl.dot(x, y, input_precision="ieee")
    tl.store(c + r[:, None] * N + s[None, :], acc, mask=(r[:, None] < N) & (s[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, A, B):
        n = A.shape[0]
        C = torch.empty_like(A)
        t = triton.cdiv(n, 16)
        tri_matmul[(t, t)](A, B, C, n, BLOCK=16)
        return C
