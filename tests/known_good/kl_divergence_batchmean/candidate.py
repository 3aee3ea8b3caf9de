import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kl_kernel(p_ptr, t_ptr, out_ptr, n, batch, BLOCK: tl.constexpr):
    # one program: the sum is exact in its order
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + i, mask=i < n, other=1.0)
        t = tl.load(t_ptr + i, mask=i < n, other=1.0)
        acc += t * (tl.log(t) - tl.log(p))
    tl.store(out_ptr, tl.sum(acc, axis=0) / batch)


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        out = predictions.new_empty(())
        kl_kernel[(1,)](predictions, targets, out, predictions.numel(), predictions.shape[0], BLOCK=128)
        return out
