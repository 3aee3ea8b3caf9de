"""mlstm_kernels: matrix LSTMs beside the PyTorch versions that it ships, whose gradients (custbw)
take the normaliser as given, as the kernels do."""
# packages: mlstm_kernels einops
import torch
from corpus import Case
from mlstm_kernels.torch import get_mlstm_kernel, get_mlstm_step_kernel, get_mlstm_sequence_kernel

randn = torch.randn


def qkv(length=128, size=32, value=64):
    return lambda: (randn(1, 2, length, size), randn(1, 2, length, size), randn(1, 2, length, value),
                    randn(1, 2, length), randn(1, 2, length) + 3)


def case(ours, reference, inputs, tolerance=3e-2, **kwargs):
    return Case(ours, lambda *a: get_mlstm_kernel(ours)(*a, **kwargs), lambda *a: get_mlstm_kernel(reference)(*a),
                inputs, grad=True, tolerance=tolerance)


def step(name):
    def call(*a):
        return get_mlstm_step_kernel(name)(*a)
    return call


CASES = [
    case("chunkwise--triton_limit_chunk", "parallel--native_custbw", qkv(), chunk_size=64),
    case("chunkwise--triton_xl_chunk", "parallel--native_custbw", qkv(), chunk_size=64),
    case("chunkwise--triton_xl_chunk_siging", "parallel--native_siging_custbw", qkv(), chunk_size=64),
    case("parallel--triton_limit_headdim", "parallel--native_custbw", qkv(128, 64, 64)),
    Case("step", step("triton"), step("native"),
         lambda: (randn(2, 2, 32), randn(2, 2, 32), randn(2, 2, 64), randn(2, 2, 1), randn(2, 2, 1),
                  randn(2, 2, 32, 64), randn(2, 2, 32), randn(2, 2, 1)), tolerance=1e-3),
    Case("sequence", lambda *a: get_mlstm_sequence_kernel("native_sequence__triton")(*a),
         lambda *a: get_mlstm_sequence_kernel("native_sequence__native")(*a), qkv(8), tolerance=1e-3),
]
