"""torchao: quantisation to 8 bits and products of quantised operands."""
# packages: torchao
import torch
from corpus import Case
from torchao.kernel.blockwise_quantization import (blockwise_fp8_gemm, fp8_blockwise_act_quant,
                                                   fp8_blockwise_weight_dequant, fp8_blockwise_weight_quant)
from torchao.prototype.blockwise_fp8_training import kernels as training

randn = torch.randn
E4M3 = torch.float8_e4m3fn


def act_quant(x, block=128):
    blocks = x.reshape(*x.shape[:-1], -1, block)
    scale = blocks.abs().amax(-1, keepdim=True) / 448
    return (blocks / scale).to(E4M3).reshape(x.shape).float(), scale.squeeze(-1)


def weight_quant(x, block=128):
    b = x.reshape(x.shape[0] // block, block, x.shape[1] // block, block)
    scale = b.abs().amax((1, 3), keepdim=True) / 448
    return (b / scale).to(E4M3).reshape(x.shape).float(), scale[:, 0, :, 0]


def as_float(result):
    return tuple(t.float() for t in result)


def gemm(x, w):
    q, s = fp8_blockwise_act_quant(x)
    v, t = fp8_blockwise_weight_quant(w)
    return blockwise_fp8_gemm(q, s, v, t).float()


CASES = [
    Case("act_quant", lambda x: as_float(fp8_blockwise_act_quant(x)), act_quant, lambda: (randn(9, 256),),
         tolerance=7e-2),
    Case("weight_quant", lambda x: as_float(fp8_blockwise_weight_quant(x)), weight_quant, lambda: (randn(256, 256),),
         tolerance=7e-2),
    Case("weight_dequant", lambda x: fp8_blockwise_weight_dequant(*fp8_blockwise_weight_quant(x)), lambda x: x,
         lambda: (randn(256, 256),), tolerance=4e-2),
    Case("blockwise gemm", gemm, lambda x, w: x @ w.T, lambda: (randn(16, 256), randn(128, 256)), tolerance=6e-2),
    Case("act_quant_lhs", lambda x: as_float(training.triton_fp8_blockwise_act_quant_lhs(x))[0],
         lambda x: act_quant(x.float())[0], lambda: (randn(16, 256).bfloat16(),), tolerance=7e-2),
]
