import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(image, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(image + i, mask=i < n, other=0).to(tl.int32)
    h = tl.histogram(v, 256)
    # the lanes beyond the end were counted as zeros
    extra = tl.sum((i >= n).to(tl.int32), axis=0)
    bins = tl.arange(0, 256)
    h = h - tl.where(bins == 0, extra, 0)
    tl.atomic_add(counts + bins, h.to(tl.int64), sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, image):
        counts = torch.zeros(256, dtype=torch.int64, device=image.device)
        n = image.numel()
        histogram_kernel[(triton.cdiv(n, 128),)](image, counts, n, BLOCK=128)
        return counts
