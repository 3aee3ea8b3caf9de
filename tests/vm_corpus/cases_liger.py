"""Liger-Kernel's functional interface, forward and backward."""
# packages: liger-kernel
import torch
import torch.nn.functional as F
from corpus import Case
import liger_kernel.transformers.functional as L

randn = torch.randn


def rms_norm(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def rope(q, k, cos, sin):
    def half(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    c, s = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * c + half(q) * s, k * c + half(k) * s


def angles(T, D):
    a = torch.outer(torch.arange(T).float(), 10000 ** (-torch.arange(0, D, 2).float() / D))
    a = torch.cat((a, a), -1).unsqueeze(0)
    return a.cos(), a.sin()


def jsd(x, y, beta):
    m = torch.log(beta * y.exp() + (1 - beta) * x.exp())
    return (beta * F.kl_div(m, y, log_target=True, reduction="batchmean")
            + (1 - beta) * F.kl_div(m, x, log_target=True, reduction="batchmean"))


def tvd(p, q):
    return (0.5 * (p - q).abs()).sum() / p.shape[0]


def sparsemax(x):
    z, _ = x.sort(dim=-1, descending=True)
    k = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    c = z.cumsum(-1)
    n = (1 + k * z > c).sum(-1, keepdim=True)
    return (x - (c.gather(-1, n - 1) - 1) / n).clamp(min=0)


def poly_norm(x, w, b, eps=1e-6):
    norm = lambda v: v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps)
    return w[0] * norm(x ** 3) + w[1] * norm(x ** 2) + w[2] * norm(x) + b


def logits(n=9, v=57):
    return randn(n, v), torch.tensor([0, 5, 56, -100, 3, 3, 9, -100, 1][:n])


CASES = [
    Case("rms_norm f32", lambda x, w: L.liger_rms_norm(x, w, 1e-6), rms_norm, lambda: (randn(5, 7, 96), randn(96)),
         grad=True),
    Case("rms_norm bf16", lambda x, w: L.liger_rms_norm(x, w, 1e-6), rms_norm,
         lambda: (randn(5, 96).bfloat16(), randn(96).bfloat16()), grad=True, tolerance=4e-2),
    Case("rms_norm gemma", lambda x, w: L.liger_rms_norm(x, w, 1e-6, 1.0, "gemma"), lambda x, w: rms_norm(x, w + 1),
         lambda: (randn(5, 130), randn(130)), grad=True),
    Case("fused_add_rms_norm", lambda x, r, w: L.liger_fused_add_rms_norm(x, r, w, 1e-6),
         lambda x, r, w: (rms_norm(x + r, w), x + r), lambda: (randn(6, 96), randn(6, 96), randn(96)), grad=True),
    Case("layer_norm", lambda x, w, b: L.liger_layer_norm(x, w, b, 1e-5), lambda x, w, b: F.layer_norm(x, (100,), w, b,
        1e-5), lambda: (randn(7, 100), randn(100), randn(100)), grad=True),
    Case("group_norm", lambda x, w, b: L.liger_group_norm(x, w, b, 12, 3, 1e-5),
         lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5), lambda: (randn(2, 12, 50), randn(12), randn(12)), grad=True),
    Case("poly_norm", L.liger_poly_norm, poly_norm, lambda: (randn(6, 64), randn(3), randn(())), grad=True,
         tolerance=1e-3),
    Case("swiglu", L.liger_swiglu, lambda a, b: F.silu(a) * b, lambda: (randn(3, 5, 70), randn(3, 5, 70)), grad=True),
    Case("swiglu f16", L.liger_swiglu, lambda a, b: F.silu(a) * b, lambda: (randn(5, 70).half(), randn(5, 70).half()),
         grad=True),
    Case("geglu", L.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, lambda: (randn(5, 70), randn(5, 70)),
         grad=True),
    Case("relu_squared", L.liger_relu_squared, lambda x: F.relu(x) ** 2, lambda: (randn(5, 70),), grad=True),
    Case("softmax", L.liger_softmax, lambda x: x.softmax(-1), lambda: (randn(5, 300),), grad=True),
    Case("softmax wide", L.liger_softmax, lambda x: x.softmax(-1), lambda: (randn(2, 40000),), grad=True),
    Case("sparsemax", L.liger_sparsemax, sparsemax, lambda: (randn(6, 37),), grad=True),
    Case("dyt", L.liger_dyt, lambda x, a, g, b: g * torch.tanh(a * x) + b,
         lambda: (randn(4, 3, 48), randn(1), randn(48), randn(48)), grad=True),
    Case("rope", L.liger_rope, rope, lambda: (randn(2, 4, 9, 32), randn(2, 2, 9, 32), *angles(9, 32)), grad=False),
    Case("cross_entropy", L.liger_cross_entropy, F.cross_entropy, logits, grad=True),
    Case("cross_entropy smoothing", lambda x, t: L.liger_cross_entropy(x, t, label_smoothing=0.1), lambda x,
         t: F.cross_entropy(x, t, label_smoothing=0.1), logits, grad=True),
    Case("cross_entropy sum softcap", lambda x, t: L.liger_cross_entropy(x, t, reduction="sum", softcap=5.0), lambda x,
         t: F.cross_entropy(5 * torch.tanh(x / 5), t, reduction="sum"), logits, grad=True),
    Case("cross_entropy weight", lambda x, t, w: L.liger_cross_entropy(x, t, w.detach()),
         lambda x, t, w: F.cross_entropy(x, t, w.detach()), lambda: (*logits(), torch.rand(57) + 0.5), grad=True),
    Case("fused_linear_cross_entropy", lambda x, w, t: L.liger_fused_linear_cross_entropy(x, w, t),
         lambda x, w, t: F.cross_entropy(x @ w.T, t), lambda: (randn(9, 32), randn(57, 32), logits()[1]), grad=True,
         tolerance=1e-3),
    Case("fused_linear_cross_entropy bias", lambda x, w, t, b: L.liger_fused_linear_cross_entropy(x, w, t, b),
         lambda x, w, t, b: F.cross_entropy(x @ w.T + b, t),
         lambda: (randn(9, 32), randn(57, 32), logits()[1], randn(57)), grad=True, tolerance=1e-3),
    Case("jsd", lambda x, y: L.liger_jsd(x.log_softmax(-1), y.log_softmax(-1)), lambda x, y: jsd(x.log_softmax(-1),
        y.detach().log_softmax(-1), 0.5), lambda: (randn(6, 41), randn(6, 41)), grad=False),
    Case("kl_div", lambda x, y: L.liger_kl_div(x, y, reduction="batchmean"), lambda x, y: F.kl_div(x, y,
        reduction="batchmean"), lambda: (randn(6, 41).log_softmax(-1), randn(6, 41).softmax(-1)), tolerance=1e-3),
    Case("tvd", lambda p, q: L.liger_tvd(p, q, None, "batchmean"), tvd,
         lambda: (randn(6, 41).softmax(-1), randn(6, 41).softmax(-1))),
    Case("fused_linear_jsd", lambda a, b, c, d: L.liger_fused_linear_jsd(a, b, c, d), lambda a, b, c,
         d: jsd((a @ b.T).log_softmax(-1), (c @ d.T).log_softmax(-1), 0.5),
         lambda: (randn(6, 16), randn(41, 16), randn(6, 24), randn(41, 24)), tolerance=1e-3),
    Case("multi_token_attention", lambda s, w: L.liger_multi_token_attention(s, w, None, 1, 1),
         lambda s, w: (F.conv2d((s.masked_fill(torch.ones(16, 16).triu(1).bool(), -1e9)).softmax(-1),
                                w, None, 1, 1)).masked_fill(torch.ones(16, 16).triu(1).bool(), 0),
         lambda: (randn(2, 3, 16, 16), randn(3, 3, 3, 3)), grad=True, tolerance=1e-3),
]
