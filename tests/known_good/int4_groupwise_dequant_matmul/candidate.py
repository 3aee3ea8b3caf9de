import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul4_kernel(
    a_ptr, b_ptr, c_ptr, scales_ptr, zeros_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, stride_scales_g, stride_scales_n,
    groupsize,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
):
    bits = 4
    infearure_per_bits = 8
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_am = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_bn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    a_mask = offs_am[:, None] < M
    b_ptrs = b_ptr + ((offs_k[:, None] // infearure_per_bits) * stride_bk + offs_bn[None, :] * stride_bn)
    scales_ptrs = scales_ptr + offs_bn * stride_scales_n
    zeros_ptrs = zeros_ptr + offs_bn * stride_scales_n
    shifter = (offs_k % infearure_per_bits) * bits
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    nmask = offs_bn < N
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        g_id = k // (groupsize // BLOCK_SIZE_K)
        scales = tl.load(scales_ptrs + g_id * stride_scales_g, mask=nmask, other=0.0)
        zeros = tl.load(zeros_ptrs + g_id * stride_scales_g, mask=nmask, other=0.0)
        a = tl.load(a_ptrs, mask=a_mask, other=0.)
        b = tl.load(b_ptrs, mask=nmask[None, :], other=0)
        b = (b >> shifter[:, None]) & 0xF
        b = (b - zeros[None, :]) * scales[None, :]
        accumulator += tl.dot(a, b.to(a.dtype), allow_tf32=False)
        a_ptrs += BLOCK_SIZE_K
        b_ptrs += (BLOCK_SIZE_K // infearure_per_bits) * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + stride_cm * offs_am[:, None] + stride_cn * offs_bn[None, :]
    tl.store(c_ptrs, c, mask=a_mask & nmask[None, :])


class ModelNew(nn.Module):
    def forward(self, x, qweight, scales, zeros):
        M, K = x.shape
        N = qweight.shape[1]
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = lambda META: (triton.cdiv(M, META['BLOCK_SIZE_M']), triton.cdiv(N, META['BLOCK_SIZE_N']))
        matmul4_kernel[grid](x, qweight, out, scales, zeros, M, N, K, x.stride(0), x.stride(1), qweight.stride(0),
                             qweight.stride(1), out.stride(0), out.stride(1), scales.stride(0), scales.stride(1), 32,
                             BLOCK_SIZE_M=16, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32)
        return out
