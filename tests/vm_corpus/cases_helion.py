"""helion: a language whose compiler, on top of PyTorch's inductor, writes Triton kernels; later
versions need a later PyTorch."""
# packages: helion==1.0.0 filecheck
import torch
from corpus import Case
import helion
import helion.language as hl

randn = torch.randn


@helion.kernel(config=helion.Config(block_sizes=[32, 32]), static_shapes=False)
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = torch.broadcast_tensors(x, y)
    out = torch.empty(x.shape, dtype=torch.promote_types(x.dtype, y.dtype), device=x.device)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + y[tile]
    return out


@helion.kernel(config=helion.Config(block_sizes=[32, 32, 32]))
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@helion.kernel(config=helion.Config(block_sizes=[1]))
def softmax(x: torch.Tensor) -> torch.Tensor:
    n, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(n):
        out[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return out


CASES = [
    Case("add", add, lambda x, y: x + y, lambda: (randn(50, 70), randn(1, 70))),
    Case("matmul", matmul, lambda x, y: x @ y, lambda: (randn(50, 70), randn(70, 40)), tolerance=2e-2),
    Case("softmax", softmax, lambda x: x.softmax(1), lambda: (randn(9, 100),)),
]
