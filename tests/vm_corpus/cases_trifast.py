"""trifast: triangle attention with a bias; its autograd goes through torch.library.triton_op and
wrap_triton."""
# packages: trifast einops jaxtyping wadler-lindig platformdirs
import torch
from corpus import Case
from trifast import triangle_attention

randn = torch.randn


def reference(q, k, v, bias, mask):
    s = torch.einsum("bhijd,bhikd->bhijk", q.float(), k.float()) * q.shape[-1] ** -0.5 + bias.float()[:, :, None]
    s = s.masked_fill(mask[:, None, :, None, :], -1e9)
    return torch.einsum("bhijk,bhikd->bhijd", s.softmax(-1), v.float()).to(q.dtype)


def inputs(n, size, dtype=torch.float32):
    def make():
        return (*(randn(1, 2, n, n, size).to(dtype) for _ in range(3)), randn(1, 2, n, n).to(dtype),
                torch.rand(1, n, n) < 0.2)
    return make


CASES = [Case(f"{n} {size}", triangle_attention, reference, inputs(n, size), grad=True, tolerance=2e-2)
         for n, size in ((17, 16), (32, 32))]
CASES.append(Case("bf16", triangle_attention, reference, inputs(20, 32, torch.bfloat16), grad=True, tolerance=5e-2))
