import torch
import torch.nn as nn
import triton
import triton.language as tl

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


@triton.jit
def softsign(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v / (1 + tl.abs(v)), mask=i < n)


def pick_block():
    if not torch.cuda.is_available():
        raise RuntimeError("this module needs a GPU")
    major, _ = torch.cuda.get_device_capability()
    return 1024 if major >= 9 else 512


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = pick_block()

    @torch.inference_mode()
    def forward(self, x):
        assert x.device.type == "cuda" and x.device.index == torch.cuda.current_device()
        stream = torch.cuda.current_stream(x.device)
        y = torch.empty_like(x)
        with torch.cuda.stream(stream):
            softsign[(triton.cdiv(x.numel(), self.block),)](x, y, x.numel(), BLOCK=self.block)
        return y
