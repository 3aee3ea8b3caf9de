import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def abs1(x, y, n, programs, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    blocks = tl.cdiv(n, BLOCK)
    while block < blocks:
        i = block * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        tl.store(y + i, tl.abs(v) + 1, mask=i < n)
        block += programs


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sms = None

    def forward(self, x):
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
        programs = min(sms, triton.cdiv(x.numel(), 1024))
        y = torch.empty_like(x)
        abs1[(programs,)](x, y, x.numel(), programs, BLOCK=1024)
        return y
