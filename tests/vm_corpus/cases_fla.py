"""flash-linear-attention: its chunked and recurrent kernels beside the recurrences they compute, written here in PyTorch, or beside each other."""
# packages: fla-core einops
import math
import torch
import torch.nn.functional as F
from corpus import Case
import fla.ops as O
from fla.modules.norm.l2norm import l2_norm
from fla.modules.norm.layernorm import layer_norm, rms_norm
from fla.modules.activations.ops import logsigmoid, sigmoid, swiglu, swish
from fla.modules.rotary.ops import rotary_embedding
from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum
from fla.ops.utils.softmax import softmax_fwd

randn = torch.randn
B, T, H, K, V = 1, 70, 2, 32, 32
TF32 = 2e-2   # products of tf32 operands, over chunks


def qkv():
    return randn(B, T, H, K), F.normalize(randn(B, T, H, K), dim=-1), randn(B, T, H, V)


def recurrence(q, k, v, decay=None, beta=None, scale=None):
    """S = decay S + k (x) (v - beta-weighted prediction); o = q S. decay: (B, T, H) or (B, T, H, K), in logarithms."""
    scale = scale or q.shape[-1] ** -0.5
    q, k, v = q.float(), k.float(), v.float()
    state, out = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3]), []
    for t in range(q.shape[1]):
        if decay is not None:
            d = decay[:, t].exp()
            state = state * (d[..., None, None] if d.dim() == 2 else d[..., None])
        new = v[:, t]
        if beta is not None:
            new = (new - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t][..., None]
        state = state + k[:, t][..., None] * new[..., None, :]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * scale, state))
    return torch.stack(out, 1)


def attention(q, k, v):
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    s = s.masked_fill(torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), -math.inf)
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v)


def forgetting(q, k, v, g):
    c = g.cumsum(1).transpose(1, 2)
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5 + c[..., None] - c[..., None, :]
    s = s.masked_fill(torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), -math.inf)
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v)


def hgrn(x, g):
    h, out = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = g[:, t].exp() * h + x[:, t]
        out.append(h)
    return torch.stack(out, 1)


def retention(q, k, v):
    decay = (1 - 2.0 ** (-5 - torch.arange(H).float())).log().expand(B, T, H)
    return recurrence(q, k, v, decay)


def gate(*shape):
    return F.logsigmoid(randn(*shape))


def half(*tensors):
    return tuple(t.bfloat16() for t in tensors)


def first(function, **options):
    def call(*args):
        out = function(*args, **options)
        return out[0] if isinstance(out, tuple) else out
    return call


def both(name, function, reference, inputs, grad=True, **options):
    return Case(name, first(function, **options), reference, inputs, grad=grad, tolerance=TF32)


CASES = [
    both("chunk_linear_attn", O.chunk_linear_attn, recurrence, qkv, normalize=False),
    both("fused_recurrent_linear_attn", O.fused_recurrent_linear_attn, recurrence, qkv, normalize=False),
    both("chunk_gla", O.chunk_gla, recurrence, lambda: (*qkv(), gate(B, T, H, K))),
    both("fused_recurrent_gla", O.fused_recurrent_gla, recurrence, lambda: (*qkv(), gate(B, T, H, K))),
    both("chunk_simple_gla", O.chunk_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H)), grad=False),    # its gradient refuses Triton 3.6 on Hopper
    both("fused_recurrent_simple_gla", O.fused_recurrent_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H))),
    both("fused_chunk_simple_gla", O.fused_chunk_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H))),
    both("parallel_simple_gla", O.parallel_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H))),
    both("chunk_retention", O.chunk_retention, retention, qkv),
    both("fused_recurrent_retention", O.fused_recurrent_retention, retention, qkv),
    both("parallel_retention", O.parallel_retention, retention, qkv),
    both("chunk_delta_rule", O.chunk_delta_rule, lambda q, k, v, b: recurrence(q, k, v, None, b), lambda: half(*qkv(), torch.rand(B, T, H))),
    both("fused_recurrent_delta_rule", O.fused_recurrent_delta_rule, lambda q, k, v, b: recurrence(q, k, v, None, b), lambda: (*qkv(), torch.rand(B, T, H))),
    both("chunk_gated_delta_rule", O.chunk_gated_delta_rule, recurrence, lambda: (*qkv(), gate(B, T, H), torch.rand(B, T, H)), grad=False),
    both("fused_recurrent_gated_delta_rule", lambda q, k, v, g, b: O.fused_recurrent_gated_delta_rule(q, k, v, g=g, beta=b), recurrence, lambda: (*qkv(), gate(B, T, H), torch.rand(B, T, H)), grad=False),
    both("chunk_kda", O.chunk_kda, recurrence, lambda: (*qkv(), gate(B, T, H, K), torch.rand(B, T, H))),
    both("fused_recurrent_kda", O.fused_recurrent_kda, recurrence, lambda: (*qkv(), gate(B, T, H, K), torch.rand(B, T, H)), grad=False),
    both("parallel_attn", O.parallel_attn, attention, qkv),
    both("parallel_forgetting_attn", O.parallel_forgetting_attn, forgetting, lambda: (*qkv(), gate(B, T, H))),
    both("fused_recurrent_hgrn", O.fused_recurrent_hgrn, hgrn, lambda: (randn(2, 40, 48), gate(2, 40, 48))),
    Case("l2_norm", l2_norm, lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6), lambda: (randn(3, 7, 48),), grad=True),
    Case("layer_norm", layer_norm, lambda x, w, b: F.layer_norm(x, (48,), w, b), lambda: (randn(3, 7, 48), randn(48), randn(48)), grad=True),
    Case("rms_norm", lambda x, w: rms_norm(x, w, None), lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w, lambda: (randn(3, 7, 48), randn(48)), grad=True),
    Case("swish", swish, F.silu, lambda: (randn(3, 300),), grad=True),
    Case("swiglu", swiglu, lambda x, y: F.silu(x) * y, lambda: (randn(3, 300), randn(3, 300)), grad=True),
    Case("sigmoid", sigmoid, torch.sigmoid, lambda: (randn(3, 300),), grad=True),
    Case("logsigmoid", logsigmoid, F.logsigmoid, lambda: (randn(3, 300),), grad=True),
    Case("softmax_fwd", softmax_fwd, lambda x: x.softmax(-1), lambda: (randn(3, 300),)),
    Case("chunk_global_cumsum", chunk_global_cumsum, lambda x: x.cumsum(1), lambda: (randn(2, 70, 3),)),
    Case("chunk_local_cumsum", lambda x: chunk_local_cumsum(x, 16), lambda x: x.reshape(2, 4, 16, 3).cumsum(2).reshape(2, 64, 3), lambda: (randn(2, 64, 3),)),
    Case("rotary", lambda x, c, s: rotary_embedding(x, c, s), lambda x, c, s: torch.cat((x[..., :16] * c[None, :, None] - x[..., 16:] * s[None, :, None], x[..., :16] * s[None, :, None] + x[..., 16:] * c[None, :, None]), -1),
         lambda: (randn(2, 9, 3, 32), randn(9, 16), randn(9, 16))),
]
