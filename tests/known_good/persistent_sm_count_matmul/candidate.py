import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tile_of(tile, tiles_n):
    return tile // tiles_n, tile % tiles_n


@triton.jit
def persistent_mm(a, b, c, M, N, K, NUM_SMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, NUM_SMS, flatten=False):
        tm, tn = tile_of(tile, tiles_n)
        m = tm * BM + tl.arange(0, BM)
        n = tn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k0 in range(0, K, BK):
            k = k0 + tl.arange(0, BK)
            x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            acc = tl.dot(x, y, acc=acc, input_precision="ieee", out_dtype=tl.float32)
        tl.store(c + m[:, None] * N + n[None, :], tl.maximum(acc, 0), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_sms = 0

    def forward(self, a, b):
        if not self.num_sms:
            self.num_sms = torch.cuda.get_device_properties(a.device).multi_processor_count
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        tiles = triton.cdiv(M, 16) * triton.cdiv(N, 16)
        with torch.cuda.device(a.device):
            persistent_mm[(min(self.num_sms, tiles),)](a, b, c, M, N, K, NUM_SMS=min(self.num_sms, tiles), BM=16, BN=16, BK=32)
        return c
