"""flash-attn: the Triton operators beside the compiled ones (which are absent here), and the
attention kernels in Triton."""
# packages: flash-attn einops
# build: FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE
import importlib
import torch
import torch.nn.functional as F
from corpus import Case, absent, bare_package, folder_of

absent("flash_attn_2_cuda", "fused_dense_lib", "dropout_layer_norm", "pytest")
bare_package("flash_attn", folder_of("flash-attn", "flash_attn"))


def module(name):
    return importlib.import_module(f"flash_attn.{name}")


randn = torch.randn
norm, rotary, loss, attention, og = (module(n) for n in (
    "ops.triton.layer_norm", "layers.rotary", "ops.triton.cross_entropy", "flash_attn_triton", "flash_attn_triton_og"))


def attend(q, k, v, bias=None, causal=False):
    """(batch, length, heads, size)"""
    s = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * q.shape[-1] ** -0.5
    s = s if bias is None else s + bias
    s = s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf) if causal else s
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v.float()).to(q.dtype)


def qkv(length=70, size=64, kv=None):
    return lambda: tuple(randn(2, n, 2, size).half() for n in (length, kv or length, kv or length))


def rotated(x, cos, sin, interleaved=False):
    c, s = cos[None, :, None], sin[None, :, None]
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    r = (a * c - b * s, a * s + b * c)
    return torch.stack(r, -1).flatten(-2) if interleaved else torch.cat(r, -1)


def turned(q, k, v, causal, scale):
    return attend(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


CASES = [
    Case("layer_norm", lambda x, w, b: norm.layer_norm_fn(x, w, b), lambda x, w, b: F.layer_norm(x, (96,), w, b, 1e-6),
         lambda: (randn(5, 96), randn(96), randn(96)), grad=True),
    Case("rms_norm residual", lambda x, w, r: norm.rms_norm_fn(x, w, None, residual=r, prenorm=True),
         lambda x, w, r: (((x + r) * torch.rsqrt((x + r).pow(2).mean(-1, keepdim=True) + 1e-6)) * w, x + r),
         lambda: (randn(5, 96), randn(96), randn(5, 96)), grad=True),
    Case("layer_norm two inputs", lambda x, w, b, x1: norm.layer_norm_fn(x, w, b, x1=x1),
         lambda x, w, b, x1: F.layer_norm(x + x1, (96,), w, b, 1e-6),
         lambda: (randn(5, 96), randn(96), randn(96), randn(5, 96)), grad=True),
    Case("rotary", lambda x, c, s: rotary.apply_rotary_emb(x, c, s), rotated,
         lambda: (randn(2, 9, 3, 32), randn(9, 16), randn(9, 16)), grad=False),
    Case("rotary interleaved", lambda x, c, s: rotary.apply_rotary_emb(x, c, s, True),
         lambda x, c, s: rotated(x, c, s, True), lambda: (randn(2, 9, 3, 32), randn(9, 16), randn(9, 16))),
    Case("cross_entropy", lambda x, t: loss.cross_entropy_loss(x, t)[0], lambda x, t: F.cross_entropy(x, t,
        reduction="none"), lambda: (randn(9, 300), torch.randint(0, 300, (9,))), grad=True),
    Case("cross_entropy smoothing, two blocks", lambda x, t: loss.cross_entropy_loss(x, t, label_smoothing=0.1,
        logit_scale=0.5)[0], lambda x, t: F.cross_entropy(x * 0.5, t, label_smoothing=0.1, reduction="none"),
         lambda: (randn(3, 70000), torch.randint(0, 70000, (3,))), grad=True),
    Case("attention", lambda q, k, v: attention.flash_attn_func(q, k, v), attend, qkv(), grad=True),
    Case("attention causal", lambda q, k, v: attention.flash_attn_func(q, k, v, None, True),
         lambda q, k, v: attend(q, k, v, None, True), qkv(130), grad=True),
    Case("attention bias", lambda q, k, v, b: attention.flash_attn_func(q, k, v, b.detach()),
         lambda q, k, v, b: attend(q, k, v, b.detach()), lambda: (*qkv(40, 64, 200)(), randn(2, 2, 40, 200).half())),
    Case("attention of OpenAI",
         lambda q, k, v: og.attention(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), 0.125).transpose(1, 2),
         lambda q, k, v: attend(q, k, v, None, True), qkv(256)),
]
