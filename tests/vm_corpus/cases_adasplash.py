"""adasplash: entmax and sparse attention, three generations of it; the second walks the blocks of a
bit mask with PTX's fns."""
# packages: adasplash
import torch
from corpus import Case
import adasplash

randn = torch.randn


def entmax(alpha=1.5):
    """By bisection, in float64."""
    def call(x):
        s = x.double() * (alpha - 1)
        high = s.amax(-1, keepdim=True)
        low = high - 1
        for _ in range(60):
            middle = (low + high) / 2
            is_low = (s - middle).clamp(min=0).pow(1 / (alpha - 1)).sum(-1, keepdim=True) >= 1
            low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
        p = (s - low).clamp(min=0).pow(1 / (alpha - 1))
        return (p / p.sum(-1, keepdim=True)).to(x.dtype)
    return call


def attend(is_causal):
    def call(q, k, v):
        k, v = (t.double().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        s = q.double() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        s = s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -1e9) if is_causal else s
        return (entmax()(s) @ v).to(q.dtype)
    return call


def gradients(function):
    def call(q, k, v, do):
        inputs = [t.detach().requires_grad_() for t in (q, k, v)]
        return torch.autograd.grad(function(*inputs), inputs, do)
    return call


def qkv(length=128, kv_heads=2):
    return lambda: (randn(1, 2, length, 32) * 1.5, randn(1, kv_heads, length, 32), randn(1, kv_heads, length, 32))


def qkvo():
    return (*qkv()(), randn(1, 2, 128, 32))


def without_masks(q, k, v):
    return adasplash.adasplash_no_block_mask(q, k, v, is_causal=True)


rows = (lambda: (randn(5, 100) * 2,))
CASES = [
    Case("entmax 1", adasplash.triton_entmax_v1, entmax(), rows, tolerance=1e-3),
    Case("entmax 2", adasplash.triton_entmax_v2, entmax(), rows, tolerance=1e-3),
    Case("entmax 2, no histogram", lambda x: adasplash.triton_entmax_v2(x, use_histogram=False, n_iter=10), entmax(),
         rows, tolerance=1e-3),
    Case("sparsemax", adasplash.triton_sparsemax, entmax(2), rows, tolerance=1e-3),
    Case("attention 1", adasplash.adasplash_v1, attend(False), qkv(), tolerance=1e-2),
    Case("attention 1 causal", lambda *a: adasplash.adasplash_v1(*a, is_causal=True), attend(True), qkv(),
         tolerance=1e-2),
    Case("attention without masks", adasplash.adasplash_no_block_mask, attend(False), qkv(), tolerance=1e-2),
    Case("attention 2", lambda *a: adasplash.adasplash_v2(*a, niter=4), attend(True), qkv(), tolerance=1e-2),
    Case("attention 2, shared keys", lambda *a: adasplash.adasplash_v2(*a, niter=4), attend(True), qkv(256, 1),
         tolerance=1e-2),
    Case("gradients 1", gradients(lambda *a: adasplash.adasplash_v1(*a, is_causal=True)), gradients(without_masks),
         qkvo, tolerance=2e-2),
    Case("gradients 2", gradients(lambda *a: adasplash.adasplash_v2(*a, niter=4)), gradients(without_masks), qkvo,
         tolerance=2e-2),
]
