import torch
import torch.nn as nn

SEQS = 3
HEADS = 2
DIM = 16
PAGE = 4
PAGES = 5
POOL = 20


class Model(nn.Module):
    """Decoding over a paged cache: block_table[s, j] names the page of tokens j * page .. of sequence s."""

    def forward(self, q, cache_k, cache_v, block_table, lengths):
        k = cache_k[block_table].flatten(1, 2)
        v = cache_v[block_table].flatten(1, 2)
        s = torch.einsum("shd,sthd->sht", q, k) * q.shape[-1] ** -0.5
        t = torch.arange(k.shape[1], device=q.device)
        s = s.masked_fill(t[None, None, :] >= lengths[:, None, None], float("-inf"))
        return torch.einsum("sht,sthd->shd", torch.softmax(s, dim=-1), v)


def get_inputs():
    return [
        torch.randn(SEQS, HEADS, DIM),
        torch.randn(POOL, PAGE, HEADS, DIM),
        torch.randn(POOL, PAGE, HEADS, DIM),
        torch.randint(0, POOL, (SEQS, PAGES), dtype=torch.int32),
        torch.randint(1, PAGE * PAGES + 1, (SEQS,), dtype=torch.int32),
    ]


def get_init_inputs():
    return []
