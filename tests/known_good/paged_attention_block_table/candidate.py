import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def paged_decode(
    q_ptr, k_ptr, v_ptr, table_ptr, len_ptr, o_ptr,
    H, D, PAGES, scale,
    PAGE: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr,
):
    seq = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, BD)
    p = tl.arange(0, BP)
    q = tl.load(q_ptr + (seq * H + head) * D + d, mask=d < D, other=0.0)
    length = tl.load(len_ptr + seq)

    best = -float("inf")
    total = 0.0
    acc = tl.zeros((BD,), dtype=tl.float32)
    page = 0
    while page * PAGE < length:
        block = tl.load(table_ptr + seq * PAGES + page).to(tl.int64)
        tok = page * PAGE + p
        ok = (p < PAGE) & (tok < length)
        at = ((block * PAGE + p[:, None]) * H + head) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=ok[:, None] & (d < D)[None, :], other=0.0)
        v = tl.load(v_ptr + at, mask=ok[:, None] & (d < D)[None, :], other=0.0)
        s = tl.where(ok, tl.sum(k * q[None, :], axis=1) * scale, float("-inf"))
        new = tl.maximum(best, tl.max(s, axis=0))
        w = tl.exp(s - new)
        fade = tl.exp(best - new)
        total = total * fade + tl.sum(w, axis=0)
        acc = acc * fade + tl.sum(w[:, None] * v, axis=0)
        best = new
        page += 1
    tl.store(o_ptr + (seq * H + head) * D + d, acc / total, mask=d < D)


class ModelNew(nn.Module):
    def forward(self, q, cache_k, cache_v, block_table, lengths):
        S, H, D = q.shape
        page = cache_k.shape[1]
        o = torch.empty_like(q)
        paged_decode[(S, H)](
            q, cache_k, cache_v, block_table, lengths, o,
            H, D, block_table.shape[1], D ** -0.5,
            PAGE=page, BP=triton.next_power_of_2(page), BD=triton.next_power_of_2(D),
        )
        return o
