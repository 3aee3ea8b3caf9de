import torch
import torch.nn as nn

N = 24
D = 16


class Model(nn.Module):
    def forward(self, rowptr, col, val, x):
        n = rowptr.numel() - 1
        out = torch.zeros(n, x.shape[1], dtype=x.dtype)
        row = torch.repeat_interleave(torch.arange(n), rowptr[1:] - rowptr[:-1])
        return out.index_add(0, row, val[:, None] * x[col])


def get_inputs():
    deg = torch.randint(0, 6, (N,))
    deg[3] = 0
    rp = torch.cat([torch.zeros(1, dtype=torch.long), deg.cumsum(0)])
    nnz = int(rp[-1])
    return [rp, torch.randint(0, N, (nnz,)), torch.randn(nnz), torch.randn(N, D)]


def get_init_inputs():
    return []
