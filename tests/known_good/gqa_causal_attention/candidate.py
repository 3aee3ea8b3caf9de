import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gqa_flash_kernel(
    Q, K, V, O,
    sqb, sqh, sqt, sqd,
    skb, skh, skt, skd,
    svb, svh, svt, svd,
    sob, soh, sot, sod,
    T, D, GROUP, sm_scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    batch = tl.program_id(2)
    kv_head = head // GROUP

    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    m_ok = offs_m < T
    d_ok = offs_d < D

    q = tl.load(Q + batch * sqb + head * sqh + offs_m[:, None] * sqt + offs_d[None, :] * sqd, mask=m_ok[:, None] & d_ok[None, :], other=0.0)

    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)

    hi = tl.minimum((start_m + 1) * BLOCK_M, T)
    for start_n in range(0, hi, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        n_ok = offs_n < T
        k = tl.load(K + batch * skb + kv_head * skh + offs_n[None, :] * skt + offs_d[:, None] * skd, mask=n_ok[None, :] & d_ok[:, None], other=0.0)
        qk = tl.dot(q, k, input_precision="ieee") * sm_scale
        qk = tl.where((offs_m[:, None] >= offs_n[None, :]) & n_ok[None, :], qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, axis=1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        v = tl.load(V + batch * svb + kv_head * svh + offs_n[:, None] * svt + offs_d[None, :] * svd, mask=n_ok[:, None] & d_ok[None, :], other=0.0)
        acc = tl.dot(p, v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new

    acc = acc / l_i[:, None]
    tl.store(O + batch * sob + head * soh + offs_m[:, None] * sot + offs_d[None, :] * sod, acc, mask=m_ok[:, None] & d_ok[None, :])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, T, D = q.shape
        o = torch.empty_like(q)
        BLOCK_M, BLOCK_N = 16, 32
        gqa_flash_kernel[(triton.cdiv(T, BLOCK_M), H, B)](
            q, k, v, o,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(),
            T, D, H // k.shape[1], 1.0 / math.sqrt(D),
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            num_warps=4, num_stages=2,
        )
        return o
