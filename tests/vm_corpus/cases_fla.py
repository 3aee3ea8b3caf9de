"""flash-linear-attention: its chunked and recurrent kernels beside the recurrences they compute,
written here in PyTorch, or beside each other."""
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
from fla.ops.path_attn.naive import naive_path_attn
from fla.ops.path_attn.parallel import parallel_path_attention
from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum
from fla.ops.utils.softmax import softmax_fwd

randn = torch.randn
B, T, H, K, V = 1, 70, 2, 32, 32
TF32 = 2e-2   # products of tf32 operands, over chunks


def qkv():
    return randn(B, T, H, K), F.normalize(randn(B, T, H, K), dim=-1), randn(B, T, H, V)


def recurrence(q, k, v, decay=None, beta=None, scale=None):
    """S = decay S + k (x) (v - beta-weighted prediction); o = q S. decay: (B, T, H) or (B, T, H,
    K), in logarithms."""
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


def naive(module, name, *swap, **options):
    """A reference that the library ships (it may want heads in front of time)."""
    import importlib
    function = getattr(importlib.import_module(f"fla.ops.{module}.naive"), name)

    def call(*args):
        args = [a.transpose(1, 2) if isinstance(a, torch.Tensor) and a.dim() > 2 and swap else a for a in args]
        out = function(*args, **options)
        out = out[0] if isinstance(out, tuple) else out
        return out.transpose(1, 2) if swap else out
    return call


def pair(name, one, other, inputs, grad=True, **options):
    """Two of the library's own kernels for one recurrence, in chunks and step by step."""
    return Case(name, first(one, **options), first(other, **options), inputs, grad=grad, tolerance=TF32)


def low_rank():
    """a and b of a transition I + a b that shrinks."""
    k = F.normalize(randn(B, T, H, K), dim=-1)
    return -k * torch.rand(B, T, H, 1), k


def rwkv7():
    a, b = low_rank()
    return randn(B, T, H, K) * 0.5, -torch.rand(B, T, H, K) * 0.5, randn(B, T, H, K) * 0.5, randn(B, T, H, V), a, b


MORE = [
    pair("rwkv6", O.chunk_rwkv6, O.fused_recurrent_rwkv6, lambda: (*qkv(), gate(B, T, H, K), randn(H, K)), grad=False),
    pair("rwkv7", O.chunk_rwkv7, O.fused_recurrent_rwkv7, rwkv7, grad=False, scale=1.0),
    pair("dplr", O.chunk_dplr_delta_rule, O.fused_recurrent_dplr_delta_rule,
         lambda: (*qkv(), *low_rank(), -torch.rand(B, T, H, K) * 0.5), grad=False),
    pair("iplr", O.chunk_iplr_delta_rule, O.fused_recurrent_iplr_delta_rule, lambda: (*qkv(), *low_rank()), grad=False),
    pair("lightning", O.chunk_lightning_attn, O.fused_recurrent_lightning_attn, qkv, layer_idx=1, num_layers=4),
    pair("gsa", O.chunk_gsa, O.fused_recurrent_gsa, lambda: (*qkv(), randn(B, T, H, 16), gate(B, T, H, 16))),
    pair("comba steps", O.chunk_comba, lambda q, k, v, p, g, b: O.fused_recurrent_comba(q, k, p, v, g, b),
         lambda: (*qkv(), F.normalize(randn(B, T, H, K), dim=-1), gate(B, T, H), torch.rand(B, T, H)), grad=False),
    both("parallel_based", lambda q, k, v: O.parallel_based(q, k, v), naive("based", "naive_parallel_based", True),
         lambda: (randn(B, T, H, 16), randn(B, T, H, 16), randn(B, T, H, V))),
    both("stickbreaking", lambda q, k, v: O.parallel_stickbreaking_attn(q, k, v),
         naive("stickbreaking_attn", "naive_stickbreaking_attn"), qkv, grad=False),
    both("wall", lambda q, k, v, g: O.parallel_wall_attn(q, k, v, g, scale=0.2),
         naive("wall_attn", "naive_wall_attn", scale=0.2), lambda: (*qkv(), gate(B, T, H, K)), grad=False),
    both("parallax", O.parallel_parallax, naive("parallax", "naive_parallax"),
         lambda: half(randn(B, T, H, K), randn(B, T, H, K), randn(B, T, H, K), randn(B, T, H, V)), grad=False),
    both("log_linear", lambda q, k, v, g, s: O.chunk_log_linear_attn(q, k, v, g, s),
         naive("log_linear_attn", "naive_log_linear_attn"),
         lambda: (*(randn(B, 128, 1, 64) for _ in range(3)), gate(B, 128, 1), torch.rand(B, 128, 1, 8)), grad=False),
    both("mesa_net", O.chunk_mesa_net,
         lambda q, k, v, g, b, l: naive("mesa_net", "naive_mesa_net_exact")(q, k, v, g, l, b),
         lambda: half(*qkv(), gate(B, T, H), torch.rand(B, T, H), torch.rand(H, K) + 1)[:3] + (gate(B, T, H),
             torch.rand(B, T, H), torch.rand(H, K) + 1), grad=False),
    both("gated_delta_product", lambda q, k, v, g, b: O.gated_delta_product.chunk_gated_delta_product(q, k, v, g, b, 2),
         lambda q, k, v, g,
         b: naive("gated_delta_product", "naive_recurrent_gated_delta_product", scale=K ** -0.5, num_householder=2)(q,
             k, v, g, b),
         lambda: half(randn(B, T, H, K), F.normalize(randn(B, 2 * T, H, K), dim=-1), randn(B, 2 * T, H, V),
                      gate(B, T, H), torch.rand(B, 2 * T, H)),
         grad=False),
]


CASES = [
    both("chunk_linear_attn", O.chunk_linear_attn, recurrence, qkv, normalize=False),
    both("fused_recurrent_linear_attn", O.fused_recurrent_linear_attn, recurrence, qkv, normalize=False),
    both("chunk_gla", O.chunk_gla, recurrence, lambda: (*qkv(), gate(B, T, H, K))),
    both("fused_recurrent_gla", O.fused_recurrent_gla, recurrence, lambda: (*qkv(), gate(B, T, H, K))),
    # its gradient refuses Triton 3.6 on Hopper
    both("chunk_simple_gla", O.chunk_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H)), grad=False),
    both("fused_recurrent_simple_gla", O.fused_recurrent_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H))),
    both("fused_chunk_simple_gla", O.fused_chunk_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H))),
    both("parallel_simple_gla", O.parallel_simple_gla, recurrence, lambda: (*qkv(), gate(B, T, H))),
    both("chunk_retention", O.chunk_retention, retention, qkv),
    both("fused_recurrent_retention", O.fused_recurrent_retention, retention, qkv),
    both("parallel_retention", O.parallel_retention, retention, qkv),
    both("chunk_delta_rule", O.chunk_delta_rule, lambda q, k, v, b: recurrence(q, k, v, None, b),
         lambda: half(*qkv(), torch.rand(B, T, H))),
    both("fused_recurrent_delta_rule", O.fused_recurrent_delta_rule, lambda q, k, v, b: recurrence(q, k, v, None, b),
         lambda: (*qkv(), torch.rand(B, T, H))),
    both("chunk_gated_delta_rule", O.chunk_gated_delta_rule, recurrence,
         lambda: (*qkv(), gate(B, T, H), torch.rand(B, T, H)), grad=False),
    both("fused_recurrent_gated_delta_rule", lambda q, k, v, g, b: O.fused_recurrent_gated_delta_rule(q, k, v, g=g,
        beta=b), recurrence, lambda: (*qkv(), gate(B, T, H), torch.rand(B, T, H)), grad=False),
    both("chunk_kda", O.chunk_kda, recurrence, lambda: (*qkv(), gate(B, T, H, K), torch.rand(B, T, H))),
    both("fused_recurrent_kda", O.fused_recurrent_kda, recurrence,
         lambda: (*qkv(), gate(B, T, H, K), torch.rand(B, T, H)), grad=False),
    both("parallel_attn", O.parallel_attn, attention, qkv),
    both("parallel_forgetting_attn", O.parallel_forgetting_attn, forgetting, lambda: (*qkv(), gate(B, T, H))),
    both("fused_recurrent_hgrn", O.fused_recurrent_hgrn, hgrn, lambda: (randn(2, 40, 48), gate(2, 40, 48))),
    Case("l2_norm", l2_norm, lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6),
         lambda: (randn(3, 7, 48),), grad=True),
    Case("layer_norm", layer_norm, lambda x, w, b: F.layer_norm(x, (48,), w, b),
         lambda: (randn(3, 7, 48), randn(48), randn(48)), grad=True),
    Case("rms_norm", lambda x, w: rms_norm(x, w, None),
         lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w, lambda: (randn(3, 7, 48), randn(48)),
         grad=True),
    Case("swish", swish, F.silu, lambda: (randn(3, 300),), grad=True),
    Case("swiglu", swiglu, lambda x, y: F.silu(x) * y, lambda: (randn(3, 300), randn(3, 300)), grad=True),
    Case("sigmoid", sigmoid, torch.sigmoid, lambda: (randn(3, 300),), grad=True),
    Case("logsigmoid", logsigmoid, F.logsigmoid, lambda: (randn(3, 300),), grad=True),
    Case("softmax_fwd", softmax_fwd, lambda x: x.softmax(-1), lambda: (randn(3, 300),)),
    Case("chunk_global_cumsum", chunk_global_cumsum, lambda x: x.cumsum(1), lambda: (randn(2, 70, 3),)),
    Case("chunk_local_cumsum", lambda x: chunk_local_cumsum(x, 16),
         lambda x: x.reshape(2, 4, 16, 3).cumsum(2).reshape(2, 64, 3), lambda: (randn(2, 64, 3),)),
    Case("rotary", lambda x, c, s: rotary_embedding(x, c, s),
         lambda x, c, s: torch.cat((x[..., :16] * c[None, :, None] - x[..., 16:] * s[None, :, None],
                                    x[..., :16] * s[None, :, None] + x[..., 16:] * c[None, :, None]), -1),
         lambda: (randn(2, 9, 3, 32), randn(9, 16), randn(9, 16))),
]
CASES += MORE


def path_inputs():
    half = tuple(randn(1, 128, 2, 64).half() for _ in range(3))
    return (*half, F.normalize(randn(1, 128, 2, 64), dim=-1), torch.rand(1, 128, 2), gate(1, 128, 2))


CASES.append(Case("parallel_path_attn", lambda *a: parallel_path_attention(*a)[0],
                  lambda *a: naive_path_attn(*(t.float() for t in a), 0.125).half(), path_inputs, grad=True,
                  tolerance=2e-2))
