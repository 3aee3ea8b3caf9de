"""sageattention 1: attention with quantised queries and keys. Its kernels count padded keys in, so
lengths are multiples of their blocks; causal with 192 keys reads a scale that is not there."""
# packages: sageattention==1.0.6
import torch
from corpus import Case
from sageattention import sageattn, sageattn_varlen

randn = torch.randn


def attend(causal=False):
    def call(q, k, v):
        q, k, v = q.float(), *(t.float().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        s = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        s = s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf) if causal else s
        return torch.einsum("bhqk,bhkd->bhqd", s.softmax(-1), v).half()
    return call


def qkv(size, length=256):
    return lambda: (randn(2, 4, length, size).half(), randn(2, 2, length, size).half(),
                    randn(2, 2, length, size).half())


def varlen(causal):
    ends = torch.tensor([0, 128, 384]).int()

    def ours(q, k, v):
        return sageattn_varlen(q, k, v, ends, ends, 256, 256, is_causal=causal)

    def reference(q, k, v):
        return torch.cat([attend(causal)(*(t[a:b].transpose(0, 1)[None] for t in (q, k, v)))[0].transpose(0, 1)
                          for a, b in ((0, 128), (128, 384))])
    return Case(f"varlen causal {causal}", ours, reference, lambda: tuple(randn(384, 2, 64).half() for _ in range(3)),
                tolerance=5e-2)


CASES = [Case(f"{size} causal {causal}", lambda q, k, v, causal=causal: sageattn(q, k, v, is_causal=causal),
              attend(causal), qkv(size), tolerance=5e-2) for size in (64, 96, 128) for causal in (False, True)]
CASES += [varlen(False), varlen(True)]
CASES.append(Case("64 causal, beyond the scales", lambda q, k, v: sageattn(q, k, v, is_causal=True), attend(True),
                  qkv(64, 192), tolerance=5e-2))
