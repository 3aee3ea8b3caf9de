import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_with_lock(x, out, lock, M, N, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    part = tl.zeros((BLOCK,), tl.float32)
    for r in range(CHUNK):
        row = tl.program_id(0) * CHUNK + r
        part += tl.load(x + row * N + cols, mask=mask & (row < M), other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    first = tl.load(lock + 1)
    if first == 0:
        tl.atomic_xchg(lock + 1, 1)
    else:
        part += tl.load(out + cols, mask=mask)
    tl.store(out + cols, part, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        out = torch.empty(N, device=x.device, dtype=x.dtype)
        lock = torch.zeros(2, dtype=torch.int32, device=x.device)
        sum_with_lock[(triton.cdiv(M, 5),)](x, out, lock, M, N, CHUNK=5, BLOCK=triton.next_power_of_2(N))
        return out
