"""autoawq: weights of four bits, dequantised and multiplied; the packages around the kernels are
not imported."""
# packages: autoawq
import importlib
import torch
from corpus import Case, bare_package, folder_of

bare_package("awq", folder_of("autoawq", "awq"))
gemm = importlib.import_module("awq.modules.triton.gemm")
GROUP = 64


def pack(q):
    """Eight numbers of four bits to a word, in AWQ's order."""
    q = q.long().view(q.shape[0], -1, 8)
    words = sum(q[:, :, number] << (4 * place) for place, number in enumerate((0, 2, 4, 6, 1, 3, 5, 7)))
    return torch.where(words < 2**31, words, words - 2**32).int()


def dequantised(q, zero, scale):
    return ((q - zero.repeat_interleave(GROUP, 0)) * scale.float().repeat_interleave(GROUP, 0)).half()


def inputs():
    return (torch.randint(0, 16, (128, 64)), torch.randint(0, 16, (2, 64)), torch.rand(2, 64).half() * 0.1,
            torch.randn(9, 128).half())


CASES = [
    Case("dequantise", lambda q, zero, scale, x: gemm.awq_dequantize_triton(pack(q), scale, pack(zero)),
         lambda q, zero, scale, x: dequantised(q, zero, scale), inputs),
    Case("gemm", lambda q, zero, scale, x: gemm.awq_gemm_triton(x, pack(q), scale, pack(zero), 8),
         lambda q, zero, scale, x: (x.float() @ dequantised(q, zero, scale).float()).half(), inputs),
]
