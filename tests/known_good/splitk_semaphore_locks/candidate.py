import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def splitk(a, b, c, locks, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """Programs of a tile add their parts under a lock; the first to come stores, the others add."""
    pid = tl.program_id(0)
    part = tl.program_id(1)
    tiles_n = tl.cdiv(N, BN)
    rm = (pid // tiles_n) * BM + tl.arange(0, BM)
    rn = (pid % tiles_n) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(part * BK, K, BK * SPLIT):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
        y = tl.load(b + rk[:, None] * N + rn[None, :], mask=rk[:, None] < K, other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    out = c + rm[:, None] * N + rn[None, :]
    lock = locks + pid
    count = locks + tl.num_programs(0) + pid
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.store(out, acc)
        tl.atomic_xchg(count, 1)
    else:
        tl.store(out, acc + tl.load(out))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        BM, BN, BK, SPLIT = 32, 32, 32, 4
        tiles = triton.cdiv(M, BM) * triton.cdiv(N, BN)
        locks = torch.zeros(2 * tiles, device=a.device, dtype=torch.int32)
        splitk[(tiles, SPLIT)](a, b, c, locks, M, N, K, BM=BM, BN=BN, BK=BK, SPLIT=SPLIT)
        return c
