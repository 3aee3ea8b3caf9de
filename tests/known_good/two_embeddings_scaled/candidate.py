import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def embed(ids, token, position, out, T, D, scale, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    row = tl.load(ids + t)
    d = tl.arange(0, BLOCK)
    e = tl.load(token + row * D + d, mask=d < D, other=0.0)
    p = tl.load(position + (t % T) * D + d, mask=d < D, other=0.0)
    tl.store(out + t * D + d, e * scale + p, mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, table, dim):
        super().__init__()
        self.token = nn.Embedding(table, dim)
        self.position = nn.Embedding(64, dim)

    def forward(self, ids):
        dim = self.token.embedding_dim
        out = torch.empty(*ids.shape, dim, device=ids.device, dtype=self.token.weight.dtype)
        embed[(ids.numel(),)](ids, self.token.weight, self.position.weight, out, ids.shape[-1], dim, dim**0.5, BLOCK=triton.next_power_of_2(dim))
        return out
