"""Unsloth's kernels: the modules are imported without the package around them, which wants
bitsandbytes and models."""
# packages: unsloth unsloth-zoo einops
import importlib
import sys
import types
import torch
import torch.nn.functional as F
from corpus import Case, bare_package, folder_of

bare_package("unsloth", folder_of("unsloth", "unsloth"))
bare_package("unsloth.kernels", folder_of("unsloth", "unsloth", "kernels"))
# In place of utils.py, which imports models: the names that the kernels' modules take from it.
utils = types.ModuleType("unsloth.kernels.utils")


def calculate_settings(n):
    block = 1 << (n - 1).bit_length()
    return block, 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


import triton.language as tl
from triton.language.extra import libdevice

utils.calculate_settings, utils.MAX_FUSED_SIZE, utils.triton_tanh, utils.triton_cast, utils.torch_gpu_device = (
    calculate_settings, 65536, libdevice.tanh, tl.cast, torch.cuda.device)
utils.is_cdna, utils.norm_num_warps = (lambda: False), (lambda *args, **kwargs: 4)
sys.modules["unsloth.kernels.utils"] = utils
utils.long_indexing = importlib.import_module("unsloth.kernels.indexing").long_indexing


def load(name):
    return importlib.import_module(f"unsloth.kernels.{name}")


randn = torch.randn


def module(weight, bias=None, eps=1e-6):
    return types.SimpleNamespace(weight=weight, bias=bias, variance_epsilon=eps, eps=eps)


def norm(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


CASES = []
rms, swi, ge = load("rms_layernorm"), load("swiglu"), load("geglu")
CASES += [
    Case("rms_layernorm", lambda x, w: rms.fast_rms_layernorm(module(w.detach()), x), lambda x, w: norm(x, w.detach()),
         lambda: (randn(2, 5, 96), randn(96)), grad=True),
    Case("rms_layernorm gemma", lambda x, w: rms.fast_rms_layernorm(module(w), x, gemma=True),
         lambda x, w: norm(x, w + 1), lambda: (randn(2, 5, 96), randn(96))),
    Case("swiglu", swi.swiglu_fg_kernel, lambda e, g: F.silu(e) * g, lambda: (randn(2, 5, 200), randn(2, 5, 200))),
    Case("geglu exact", ge.geglu_exact_forward_kernel, lambda e, g: F.gelu(e) * g,
         lambda: (randn(2, 5, 200), randn(2, 5, 200))),
    Case("geglu approx", ge.geglu_approx_forward_kernel, lambda e, g: F.gelu(e, approximate="tanh") * g,
         lambda: (randn(2, 5, 200), randn(2, 5, 200))),
]
