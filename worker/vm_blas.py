"""vm_blas: Triton's binding to cuBLAS, by PyTorch. Scripts compare with it (tutorial 09), and the
library itself would read CPU tensors as if they lay on a GPU."""
import torch


class CublasLt:
    """triton._C.libtriton.nvidia.cublas.CublasLt: products of A (M, K) and B (N, K), both with
    rising k, into C (M, N)."""

    def __init__(self, workspace):
        self.workspace = workspace

    def matmul(self, a, b, c):
        c.copy_(product(a, b))

    def gemm(self, a, b, c, d, alpha, beta):
        d.copy_(alpha * product(a, b) + (beta * c.float() if beta else 0))


def product(a, b):
    """In fp32 whatever the operands are, as cuBLAS accumulates."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise RuntimeError(f"cuBLAS: expected A (M, K) and B (N, K), found {list(a.shape)} and {list(b.shape)}")
    return torch.mm(a.float(), b.float().t())


def install():
    from triton._C.libtriton import nvidia
    nvidia.cublas.CublasLt = CublasLt
