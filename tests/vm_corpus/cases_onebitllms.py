"""onebitllms: ternary weights and 8-bit activations, dequantised."""
# packages: onebitllms
import importlib
import torch
from corpus import Case, bare_package, folder_of

bare_package("onebitllms", folder_of("onebitllms", "onebitllms"))
K = importlib.import_module("onebitllms.kernels")


def activations(x):
    scale = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    return (x * scale + 0.5).floor().clamp(-128, 127) / scale


def weights(w):
    scale = 1 / w.abs().mean()
    return (w * scale + 0.5).floor().clamp(-1, 1) / scale


CASES = [
    Case("activations", K.activation_quant_triton, activations, lambda: (torch.randn(2, 5, 700),)),
    Case("weights", K.weight_quant_triton, weights, lambda: (torch.randn(33, 70),)),
]
