"""gemlite: products with weights of 1 to 8 bits, by each of its kernels."""
# packages: gemlite
import torch
from corpus import Case
from gemlite.core import GemLiteLinear, DType, set_autotune
from gemlite.helper import A16W8_INT8, A8W8_INT8_dynamic, A8W8_FP8_dynamic, A16W8_FP8

randn = torch.randn
set_autotune("fast")
K, N, GROUP = 256, 128, 64


def layer(bits):
    """A layer with random codes, scales and zeros of groups, and its weight."""
    torch.manual_seed(bits)
    codes = torch.randint(0, 2 ** bits, (N, K)).to(torch.uint8)
    scales, zeros = (torch.rand(N * K // GROUP, 1) * 0.02 + 0.001,
                     torch.randint(0, 2 ** bits, (N * K // GROUP, 1)).float())
    weight = ((codes.float().view(-1, GROUP) - zeros) * scales).view(N, K)
    linear = GemLiteLinear(bits, group_size=GROUP, in_features=K, out_features=N, input_dtype=DType.FP16,
                           output_dtype=DType.FP16)
    linear.pack(codes, scales.half(), zeros.half(), None)
    return linear, weight


def case(bits, kernel, rows):
    linear, weight = layer(bits)
    return Case(f"{bits} bits {kernel} {rows}", lambda x: linear.forward_manual(x, kernel),
                lambda x: (x.float() @ weight.T).half(), lambda: (randn(rows, K).half(),))


def helper(name, make, tolerance, rows=9):
    torch.manual_seed(5)
    linear = torch.nn.Linear(K, N, bias=False).half()
    weight = linear.weight.detach().float()
    ours = make(linear)
    return Case(name, lambda x: ours(x), lambda x: (x.float() @ weight.T).half(), lambda: (randn(rows, K).half(),),
                tolerance=tolerance)


CASES = [case(b, k, rows) for b in (8, 4, 2, 1)
         for k, rows in (("GEMM", 33), ("GEMM_SPLITK", 9), ("GEMV", 1), ("GEMV_SPLITK", 1),
                         ("GEMV_REVSPLITK", 1)) if not (k == "GEMV_REVSPLITK" and b == 8)]
CASES += [helper("A16W8_INT8", lambda l: A16W8_INT8().from_linear(l, del_orig=False), 2e-2),
          helper("A8W8_INT8 dynamic", lambda l: A8W8_INT8_dynamic().from_linear(l, del_orig=False), 3e-2),
          helper("A8W8_FP8 dynamic", lambda l: A8W8_FP8_dynamic().from_linear(l, del_orig=False), 5e-2),
          helper("A16W8_FP8", lambda l: A16W8_FP8().from_linear(l, del_orig=False), 5e-2)]
