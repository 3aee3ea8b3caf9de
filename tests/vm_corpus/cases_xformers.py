"""xformers: its Triton kernels through the public operators."""
# packages: xformers
import torch
from corpus import Case
import torch.utils.cpp_extension
import xformers.ops as X
from xformers.ops.rmsnorm import rms_norm, rms_norm_add
from xformers.ops import fmha
from xformers.ops.tiled_matmul import tiled_matmul
from xformers.ops.fmha.attn_bias import BlockDiagonalCausalWithOffsetPaddedKeysMask as Padded

randn = torch.randn


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def tiled(a, b, c, d):
    return [t for row in tiled_matmul([[a], [b]], [[c, d]]) for t in row]


def apply(op, q, k, v, bias=None):
    """Without the dispatcher, which wants the compiled extension."""
    return op.apply(fmha.Inputs(query=q, key=k, value=v, attn_bias=bias), needs_gradient=False)[0]


def splitk(split):
    def call(q, k, v):
        return apply(type("Split", (fmha.triton_splitk.FwOp,), {"SPLIT_K": split}), q, k, v)
    return call


def attend(q, k, v):
    s = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * q.shape[-1] ** -0.5
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v.float()).to(q.dtype)


def padded(lengths, padding, heads, groups):
    """One query of each sequence against its padded keys."""
    bias = Padded.from_seqlens([1] * len(lengths), padding, lengths)

    def ours(q, k, v):
        return apply(fmha.triton_splitk.FwOp, q, k, v, bias).transpose(0, 1)

    def reference(q, k, v):
        return torch.cat([attend(q[:, i:i + 1], k[:, i * padding:i * padding + n], v[:, i * padding:i * padding + n])
                          for i, n in enumerate(lengths)], 1)
    return Case(f"splitk padded {lengths}", ours, reference,
                lambda: (randn(1, len(lengths), heads, 64).half(),
                         *(randn(1, len(lengths) * padding, heads, 64).half() for _ in range(2))))


def rope(q, k, v, ck, cv):
    bias = Padded.from_seqlens([3, 2], 16, [5, 9])
    out = X.rope_padded(q, k, v, ck, cv, bias, adjacents=True)
    return out, ck, cv


def rope_reference(q, k, v, ck, cv):
    at, rows = torch.tensor([2, 3, 4, 7, 8]).float(), torch.tensor([2, 3, 4, 16 + 7, 16 + 8])
    angle = at[:, None] * 10000.0 ** (-torch.arange(0, q.shape[-1], 2).float() / q.shape[-1])
    c, s = angle.cos()[None, :, None], angle.sin()[None, :, None]

    def turn(x):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
    ck[:, rows], cv[:, rows] = turn(k), v
    return turn(q), ck, cv


CASES = [
    Case("rms_norm", rms_norm, rms, lambda: (randn(5, 7, 96), randn(96))),
    Case("rms_norm bf16 wide", rms_norm, lambda x, w: rms(x.float(), w.float()).bfloat16(),
         lambda: (randn(3, 5000).bfloat16(), randn(5000).bfloat16())),
    Case("rms_norm_add", lambda x, y, w: (rms_norm_add(x, y, w), x), lambda x, y, w: (rms(x + y, w), x + y),
         lambda: (randn(5, 96), randn(5, 96), randn(96))),
    Case("scaled_index_add", lambda x, i, s, c: X.scaled_index_add(x, i, s, c, 0.5), lambda x, i, s, c: x.index_add(0,
        i, s * c, alpha=0.5), lambda: (randn(6, 5, 64), torch.tensor([4, 1, 2]), randn(3, 5, 64), randn(64))),
    Case("index_select_cat", lambda a, b, i, j: X.index_select_cat([a, b], [i, j]),
         lambda a, b, i, j: torch.cat([a[i].flatten(), b[j].flatten()]),
         lambda: (randn(6, 64), randn(4, 32), torch.tensor([4, 1]), torch.tensor([3, 0, 2]))),
    Case("tiled_matmul", tiled, lambda a, b, c, d: (a @ c, a @ d, b @ c, b @ d),
         lambda: (randn(33, 64).half(), randn(20, 64).half(), randn(64, 48).half(), randn(64, 80).half())),
    Case("splitk 1", splitk(1), attend, lambda: tuple(randn(2, n, 3, 64).half() for n in (5, 90, 90))),
    Case("splitk 4", splitk(4), attend, lambda: tuple(randn(2, n, 3, 64).half() for n in (1, 300, 300))),
    padded([5, 30, 17], 32, 2, 1),
    Case("rope_padded", rope, rope_reference, lambda: (randn(1, 5, 4, 32), randn(1, 5, 4, 32), randn(1, 5, 4, 32),
                                                       randn(1, 32, 4, 32), randn(1, 32, 4, 32)), tolerance=1e-3),
]
