import torch
import torch.nn as nn
import triton
import triton.language as tl


from torch._inductor.runtime import triton_helpers


@triton.jit
def triton_per_fused_argmax_softmax_0(in_ptr0, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel*xindex), r0_mask & xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None]
    tmp5 = tmp0 - tmp4
    tmp6 = tl.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None]
    tmp11 = (tmp6 / tmp10)
    tmp12 = tl.broadcast_to(r0_index, tmp3.shape)
    _, tmp13_tmp = triton_helpers.max_with_index(tmp3, tmp12, 1)
    tmp13 = tmp13_tmp[:, None]
    tl.store(out_ptr0 + (r0_index + r0_numel*xindex), tmp11, r0_mask & xmask)
    tl.store(out_ptr1 + xindex, tmp13, xmask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        idx = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        triton_per_fused_argmax_softmax_0[(triton.cdiv(x.shape[0], 2),)](x, out, idx, x.shape[0], x.shape[1], XBLOCK=2, R0_BLOCK=128)
        return out, idx
