"""spconv-triton: sparse convolutions and pools beside dense ones. Its average pool's gradient
multiplies by the count, as spconv's does: not compared."""
# packages: spconv-triton
import torch
import torch.nn.functional as F
from corpus import Case, flat
import spconv_triton.pytorch as sp

randn = torch.randn
SHAPE = [6, 6, 6]


def scene():
    """Features of the occupied voxels, and where they are."""
    at = (torch.rand(2, *SHAPE) < 0.15).nonzero().int()
    return randn(at.shape[0], 16), at


def positive_scene():
    features, at = scene()
    return features.abs() + 0.1, at


def dense(features, at):
    d = torch.zeros(2, features.shape[1], *SHAPE)
    i = at.long()
    d[i[:, 0], :, i[:, 1], i[:, 2], i[:, 3]] = features
    return d


def ours(make):
    def call(features, at, weight=None):
        layer = make()
        if weight is not None:
            layer.weight = torch.nn.Parameter(weight)
        out = layer(sp.SparseConvTensor(features, at, SHAPE, 2)).dense()
        return (out if weight is None
                else [out.detach(), *torch.autograd.grad(out.square().sum(), [features, layer.weight])])
    return call


def convolution(is_submanifold, stride):
    """Where a window is empty there is no output; a submanifold one has outputs where inputs
    are."""
    def call(features, at, weight):
        weight = weight.requires_grad_()
        out = F.conv3d(dense(features, at), weight.permute(0, 4, 1, 2, 3), padding=1, stride=stride)
        filled = dense(torch.ones_like(features[:, :1]).detach(), at)
        out = out * (filled if is_submanifold
                     else F.conv3d(filled, torch.ones(1, 1, 3, 3, 3), padding=1, stride=stride) != 0)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), [features, weight])]
    return call


def with_gradients(function):
    return lambda features, at, weight: [t.detach() for t in flat(function(features.requires_grad_(), at, weight))]


def average(features, at):
    return F.avg_pool3d(dense(features, at), 2) / F.avg_pool3d(dense(torch.ones_like(features[:, :1]), at),
                                                               2).clamp(min=1 / 8)


def case(name, layer, is_submanifold=False, stride=1, **options):
    return Case(name, with_gradients(ours(lambda: layer(16, 24, 3, stride, bias=False, **options))),
                with_gradients(convolution(is_submanifold, stride)), lambda: (*scene(), randn(24, 3, 3, 3, 16) * 0.2),
                tolerance=2e-2)


CASES = [
    case("submanifold", sp.SubMConv3d, True),
    case("strided", sp.SparseConv3d, stride=2, padding=1),
    Case("max pool", ours(lambda: sp.SparseMaxPool3d(2, 2)), lambda x, at: F.max_pool3d(dense(x, at), 2),
         positive_scene, grad=True),
    Case("average pool", ours(lambda: sp.SparseAvgPool3d(2, 2)), average, scene, tolerance=1e-3),
]
