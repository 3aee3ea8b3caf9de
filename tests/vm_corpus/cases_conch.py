"""conch-triton-kernels: kernels for inference beside the formulas, in PyTorch."""
# packages: conch-triton-kernels
import torch
import torch.nn.functional as F
from corpus import Case
from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.int8 import scaled_int8_quant
from conch.ops.vision.nms import nms
from conch.ops.attention.paged_attention import paged_attention

randn = torch.randn


def norm(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def halves(act):
    return lambda x: act(x[..., : x.shape[-1] // 2]) * x[..., x.shape[-1] // 2:]


def boxes(n=60):
    corner = torch.rand(n, 2) * 10
    return torch.cat((corner, corner + torch.rand(n, 2) * 5 + 0.5), 1), torch.rand(n), 0.4


def nms_reference(b, scores, limit):
    order, keep = scores.argsort(descending=True).tolist(), []
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    while order:
        i = order.pop(0)
        keep.append(i)
        size = (torch.minimum(b[i, 2:], b[order, 2:]) - torch.maximum(b[i, :2], b[order, :2])).clamp(min=0).prod(1)
        iou = size / (area[i] + area[order] - size)
        order = [o for o, x in zip(order, iou.tolist()) if x <= limit]
    return torch.tensor(keep)


def paged():
    heads, kv_heads, size, block, blocks = 4, 2, 64, 16, 10
    return (randn(3, heads, size).half(), randn(blocks, block, kv_heads, size).half(),
            randn(blocks, block, kv_heads, size).half(), torch.randperm(blocks)[:9].reshape(3, 3).int(),
            torch.tensor([5, 33, 48]).int())


def paged_reference(q, kc, vc, table, lens):
    out = []
    for b in range(q.shape[0]):
        k = kc[table[b].long()].flatten(0, 1)[: lens[b]].repeat_interleave(2, 1).float()
        v = vc[table[b].long()].flatten(0, 1)[: lens[b]].repeat_interleave(2, 1).float()
        s = torch.einsum("hd,khd->hk", q[b].float(), k) * q.shape[-1] ** -0.5
        out.append(torch.einsum("hk,khd->hd", s.softmax(-1), v))
    return torch.stack(out).half()


CASES = [
    Case("gelu_tanh_and_mul", gelu_tanh_and_mul, halves(lambda x: F.gelu(x, approximate="tanh")),
         lambda: (randn(5, 200),)),
    Case("gelu_tanh_and_mul bf16", gelu_tanh_and_mul, halves(lambda x: F.gelu(x, approximate="tanh")),
         lambda: (randn(5, 200).bfloat16(),)),
    Case("silu_and_mul", silu_and_mul, halves(F.silu), lambda: (randn(5, 200),)),
    Case("silu_and_mul f16", silu_and_mul, halves(F.silu), lambda: (randn(5, 200).half(),)),
    Case("rms_norm", lambda x, w: rms_norm(x, w, 1e-6), norm, lambda: (randn(5, 200), randn(200))),
    Case("fused_add_rms_norm", lambda x, r, w: fused_add_rms_norm(x, r, w, 1e-6),
         lambda x, r, w: (norm(x + r, w), x + r), lambda: (randn(5, 200), randn(5, 200), randn(200))),
    Case("gemma_rms_norm", lambda x, w: gemma_rms_norm(x, w, 1e-6), lambda x, w: norm(x, w + 1),
         lambda: (randn(5, 200), randn(200))),
    Case("scaled_fp8_quant static", lambda x, s: scaled_fp8_quant(x, s)[0].float(), lambda x, s: (x / s).clamp(-448,
        448).to(torch.float8_e4m3fn).float(), lambda: (randn(6, 256), torch.tensor([0.25])), tolerance=7e-2),
    Case("scaled_int8_quant static", lambda x, s: scaled_int8_quant(x, s)[0], lambda x, s: (x / s).clamp(-128,
        127).to(torch.int8), lambda: (randn(6, 256), torch.tensor([0.05])), tolerance=2e-2),
    Case("nms", nms, nms_reference, boxes),
    Case("paged_attention", paged_attention, paged_reference, paged),
]
