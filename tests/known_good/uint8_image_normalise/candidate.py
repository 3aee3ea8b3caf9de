import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalise(image, mean, std, out, HW, total, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = o < total
    pix = o % HW
    c = (o // HW) % 3
    n = o // (3 * HW)
    v = tl.load(image + (n * HW + pix) * 3 + c, mask=ok, other=0).to(tl.float32) / 255.0
    tl.store(out + o, (v - tl.load(mean + c)) / tl.load(std + c), mask=ok)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]))

    def forward(self, image):
        n, h, w, c = image.shape
        out = torch.empty((n, c, h, w), dtype=torch.float32, device=image.device)
        normalise[(triton.cdiv(out.numel(), 256),)](image, self.mean, self.std, out, h * w, out.numel(), BLOCK=256)
        return out
