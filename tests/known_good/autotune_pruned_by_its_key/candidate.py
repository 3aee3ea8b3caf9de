import torch
import torch.nn as nn
import triton
import triton.language as tl


def fits(configs, named_args, **kwargs):
    n = named_args["cols"]
    return [c for c in configs if c.kwargs["BLOCK"] >= n][:2]


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (16, 32, 64, 128, 256, 512, 1024, 4096, 16384)], key=["cols"],
                 prune_configs_by={"early_config_prune": fits})
@triton.jit
def kernel(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)
    tl.store(y_ptr + row * cols + i, 1.0 / (1.0 + tl.exp(-x)) + 1.5, mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(x.shape[0],)](x, y, x.shape[0], x.shape[1])
        return y
