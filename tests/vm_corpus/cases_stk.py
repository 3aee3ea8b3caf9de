"""stanford-stk: products of dense and block-sparse matrices."""
# packages: stanford-stk
import torch
from corpus import Case
import stk

randn = torch.randn
BLOCK = 128


def sparse(mask):
    """A block-sparse matrix that holds randn where mask (blocks) is true, and the same dense."""
    dense = randn(mask.shape[0] * BLOCK, mask.shape[1] * BLOCK).half() * mask.repeat_interleave(BLOCK,
        0).repeat_interleave(BLOCK, 1)
    return stk.ops.to_sparse(dense, BLOCK), dense


MASK = torch.tensor([[1, 0, 1], [0, 1, 1]]).bool()
torch.manual_seed(3)
S, D = sparse(MASK)


def kept(a, b):
    return (a.float() @ b.float()).half() * MASK.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)


CASES = [
    Case("to_dense", lambda: stk.ops.to_dense(S), lambda: D, ()),
    Case("dsd", lambda b: stk.ops.dsd(S, b), lambda b: (D.float() @ b.float()).half(),
         lambda: (randn(3 * BLOCK, 256).half(),)),
    Case("dds", lambda a: stk.ops.dds(a, S), lambda a: (a.float() @ D.float()).half(),
         lambda: (randn(256, 2 * BLOCK).half(),)),
    Case("dsd transposed", lambda b: stk.ops.dsd(S.t(), b), lambda b: (D.T.float() @ b.float()).half(),
         lambda: (randn(2 * BLOCK, 128).half(),)),
    Case("sdd", lambda a, b: stk.ops.to_dense(stk.ops.sdd(a, b, S)), kept,
         lambda: (randn(2 * BLOCK, 64).half(), randn(64, 3 * BLOCK).half())),
]
