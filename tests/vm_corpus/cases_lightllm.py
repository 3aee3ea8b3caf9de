"""lightllm: kernels for serving llama, over a table of requests and tokens."""
# packages: lightllm
import importlib
import torch
import torch.nn.functional as F
from corpus import Case, bare_package, folder_of

for package in ("lightllm", "lightllm.common", "lightllm.common.basemodel", "lightllm.common.basemodel.triton_kernel",
                "lightllm.models", "lightllm.models.llama", "lightllm.models.llama.triton_kernel"):
    bare_package(package, folder_of("lightllm", *package.split(".")))


def llama(name):
    return importlib.import_module(f"lightllm.models.llama.triton_kernel.{name}")


def common(name):
    return importlib.import_module(f"lightllm.common.basemodel.triton_kernel.{name}")


randn = torch.randn
LENGTHS = [5, 70, 33]
STARTS = [0, 5, 75]
REQUESTS = torch.tensor([2, 0, 3]).int()
lengths, starts = torch.tensor(LENGTHS).int(), torch.tensor(STARTS).int()
torch.manual_seed(11)
PLACES = torch.randperm(200)[:108].int()           # of the tokens in the cache
TABLE = torch.zeros(4, 128).int()
for r, n, s in zip(REQUESTS.tolist(), LENGTHS, STARTS):
    TABLE[r, :n] = PLACES[s:s + n]


def attend(q, k, v, causal):
    """(tokens, heads, size)"""
    k, v = (t.float().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = torch.einsum("qhd,khd->hqk", q.float(), k) * q.shape[-1] ** -0.5
    s = s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf) if causal else s
    return torch.einsum("hqk,khd->qhd", s.softmax(-1), v).half()


def parts(t):
    return [t[s:s + n] for s, n in zip(STARTS, LENGTHS)]


def prefill(q, k, v):
    o = torch.empty_like(q)
    llama("context_flashattention_nopad").context_attention_fwd_no_prompt_cache(q, k, v, o, starts, lengths, 70)
    return o


def prefill_cached(q, k, v):
    o = torch.empty_like(q)
    llama("context_flashattention_nopad").context_attention_fwd(q, k, v, o, REQUESTS, starts, lengths,
                                                                torch.zeros(3).int(), 70, TABLE)
    return o


def decode_gqa(q, k, v):
    o = torch.empty_like(q)
    llama("gqa_decode_flashattention_nopad").gqa_decode_attention_fwd(q, k, v, o, TABLE, REQUESTS, lengths)
    return o


def decode_tokens(q, k, v):
    scores, prob, o = torch.empty(q.shape[1], 108), torch.empty(q.shape[1], 108), torch.empty_like(q)
    llama("token_attention_nopad_att1").token_att_fwd(q, k, scores, TABLE, REQUESTS, starts, lengths, 70)
    llama("token_attention_nopad_softmax").token_softmax_fwd(scores, starts, lengths, prob, 70)
    llama("token_attention_nopad_reduceV").token_att_fwd2(prob, v, o, TABLE, REQUESTS, starts, lengths)
    return o


def decode_flash(q, k, v):
    mid, lse, o = torch.empty(3, q.shape[1], 2, q.shape[2]), torch.empty(3, q.shape[1], 2), torch.empty_like(q)
    llama("flash_decoding_stage1").flash_decode_stage1(q, k, v, TABLE, REQUESTS, lengths, 70, mid, lse, 64)
    llama("flash_decoding_stage2").flash_decode_stage2(mid, lse, lengths, o, 64)
    return o


def decoded(q, k, v):
    rows = [p.long() for p in parts(PLACES)]
    return torch.cat([attend(q[i:i + 1], k[r], v[r], False) for i, r in enumerate(rows)])


def prefilled(cached):
    def call(q, k, v):
        rows = [p.long() if cached else slice(s, s + n) for p, s, n in zip(parts(PLACES), STARTS, LENGTHS)]
        return torch.cat([attend(a, k[r], v[r], True) for a, r in zip(parts(q), rows)])
    return call


def rotary(q, k, cos, sin):
    llama("rotary_emb").rotary_emb_fwd(q, k, cos, sin)
    return q, k


def turned(q, k, cos, sin):
    def turn(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos[:, None] - b * sin[:, None], a * sin[:, None] + b * cos[:, None]), -1)
    return turn(q), turn(k)


def silu(x):
    x = x.clone()
    out = llama("silu_and_mul").silu_and_mul_fwd(x)
    return x[:, : x.shape[1] // 2] if out is None else out


def copied(k):
    out = torch.zeros(200, 2, 64).half()
    common("destindex_copy_kv").destindex_copy_kv(k, PLACES, out)
    return out


def put(k):
    out = torch.zeros(200, 2, 64).half()
    out[PLACES.long()] = k
    return out


def half(*shape):
    return randn(*shape).half()


CASES = [
    Case("rms_norm", lambda x, w: llama("rmsnorm").rmsnorm_forward(x, w, 1e-5),
         lambda x, w: x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).half() * w,
         lambda: (half(7, 200), half(200))),
    Case("rotary", rotary, turned, lambda: (half(9, 4, 64), half(9, 2, 64), half(9, 32), half(9, 32))),
    Case("silu_and_mul", silu, lambda x: F.silu(x[:, :96].float()).half() * x[:, 96:], lambda: (half(9, 192),)),
    Case("prefill", prefill, prefilled(False), lambda: (half(108, 4, 64), half(108, 2, 64), half(108, 2, 64))),
    Case("prefill cached", prefill_cached, prefilled(True),
         lambda: (half(108, 4, 64), half(200, 2, 64), half(200, 2, 64))),
    Case("decode grouped", decode_gqa, decoded, lambda: (half(3, 4, 64), half(200, 2, 64), half(200, 2, 64))),
    Case("decode by tokens", decode_tokens, decoded, lambda: (half(3, 4, 64), half(200, 2, 64), half(200, 2, 64))),
    Case("decode in blocks", decode_flash, decoded, lambda: (half(3, 4, 64), half(200, 2, 64), half(200, 2, 64))),
    Case("copy", copied, put, lambda: (half(108, 2, 64),)),
]
