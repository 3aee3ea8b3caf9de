"""FlagGems: operators of PyTorch written in Triton. Each registered operator is called with
arguments made from its schema and compared with PyTorch's own."""
# packages: flag_gems sqlalchemy
import torch
from corpus import Case
import flag_gems

randn = torch.randn


def positive(*shape):
    return torch.rand(*shape) * 0.8 + 0.1


def permutation(n):
    return torch.randperm(n)


def weight_norm_backward():
    v = randn(6, 40)
    return randn(6, 40), v, randn(6, 1), v.norm(dim=1, keepdim=True), 0


def first(function):
    return lambda *args: function(*args)[0]


# Arguments where the schema does not say enough. Everything else is made by `argument` below.
INPUTS = {
    "mm": lambda: (randn(33, 44), randn(44, 57)), "bmm": lambda: (randn(3, 17, 20), randn(3, 20, 33)),
    "addmm": lambda: (randn(57), randn(33, 44), randn(44, 57)),
    "baddbmm": lambda: (randn(3, 17, 33), randn(3, 17, 20), randn(3, 20, 33)), "mv": lambda: (randn(33, 44), randn(44)),
    "dot": lambda: (randn(400), randn(400)), "vdot": lambda: (randn(400), randn(400)),
    "addmv": lambda: (randn(33), randn(33, 44), randn(44)), "addr": lambda: (randn(33, 44), randn(33), randn(44)),
    "acos": lambda: (positive(6, 40),),
    "atanh_": lambda: (positive(6, 40),),
    "log": lambda: (positive(6, 40),), "log10": lambda: (positive(6, 40),), "log1p_": lambda: (positive(6, 40),),
    "sqrt": lambda: (positive(6, 40),),
    "rsqrt": lambda: (positive(6, 40),), "logit": lambda: (positive(6, 40),), "logit_": lambda: (positive(6, 40),),
    "digamma_": lambda: (positive(6, 40) + 1,), "arctanh_": lambda: (positive(6, 40),),
    "pow.Tensor_Tensor": lambda: (positive(6, 40), randn(6, 40)),
    "pow.Tensor_Scalar": lambda: (positive(6, 40), 1.5), "pow_.Scalar": lambda: (positive(6, 40), 1.5),
    "pow_.Tensor": lambda: (positive(6, 40), randn(6, 40)), "sqrt_": lambda: (positive(6, 40),),
    "rsqrt_": lambda: (positive(6, 40),),
    "log_": lambda: (positive(6, 40),),
    "index_select": lambda: (randn(9, 40), 0, torch.tensor([3, 3, 8, 0])),
    "gather": lambda: (randn(9, 40), 1, torch.randint(0, 40, (9, 12))),
    "scatter.src": lambda: (randn(9, 40), 1, torch.stack([permutation(40)[:12] for _ in range(9)]), randn(9, 12)),
    "embedding": lambda: (randn(50, 24), torch.randint(0, 50, (4, 7))),
    "scatter_add_": lambda: (randn(9, 40), 1, torch.randint(0, 40, (9, 12)), randn(9, 12)),
    "index_add": lambda: (randn(9, 40), 0, torch.tensor([3, 1, 8, 0]), randn(4, 40)),
    "index_add_": lambda: (randn(9, 40), 0, torch.tensor([3, 1, 8, 0]), randn(4, 40)),
    "index.Tensor": lambda: (randn(9, 40), [torch.tensor([3, 3, 8, 0])]),
    "index_put": lambda: (randn(9, 40), [torch.tensor([3, 1, 8, 0])], randn(4, 40)),
    "index_put_": lambda: (randn(9, 40), [torch.tensor([3, 1, 8, 0])], randn(4, 40)),
    "masked_fill.Scalar": lambda: (randn(6, 40), randn(6, 40) > 0, 2.5),
    "masked_fill_.Scalar": lambda: (randn(6, 40), randn(6, 40) > 0, 2.5),
    "masked_select": lambda: (randn(6, 40), randn(6, 40) > 0),
    "masked_fill.Tensor": lambda: (randn(6, 40), randn(6, 40) > 0, torch.tensor(2.5)),
    "masked_scatter": lambda: (randn(6, 40), randn(6, 40) > 0, randn(240)),
    "where.self": lambda: (randn(6, 40) > 0, randn(6, 40), randn(6, 40)),
    "native_layer_norm": lambda: (randn(6, 40), [40], randn(40), randn(40), 1e-5),
    "native_group_norm": lambda: (randn(2, 12, 20), randn(12), randn(12), 2, 12, 20, 3, 1e-5),
    "cat": lambda: ([randn(6, 40), randn(3, 40)], 0),
    "stack": lambda: ([randn(6, 40), randn(6, 40)], 1),
    "hstack": lambda: ([randn(6, 40), randn(6, 3)],), "vstack": lambda: ([randn(6, 40), randn(2, 40)],),
    "sort": lambda: (randn(6, 40), 1, False),
    "sort.stable": lambda: (randn(6, 40), True, 1, False), "topk": lambda: (randn(6, 40), 5),
    "repeat": lambda: (randn(6, 40), [2, 3]), "tile": lambda: (randn(6, 40), [2, 3]),
    "flip": lambda: (randn(6, 40), [1]),
    "roll": lambda: (randn(6, 40), [3], [1]), "constant_pad_nd": lambda: (randn(6, 40), [1, 2, 3, 0], 1.5),
    "bitwise_and.Tensor": lambda: (torch.randint(0, 99, (6, 40)), torch.randint(0, 99, (6, 40))),
    "bitwise_or.Tensor": lambda: (torch.randint(0, 99, (6, 40)), torch.randint(0, 99, (6, 40))),
    "bitwise_not": lambda: (torch.randint(0, 99, (6, 40)),),
    "bitwise_left_shift.Tensor": lambda: (torch.randint(0, 99, (6, 40)), torch.randint(0, 9, (6, 40))),
    "bitwise_right_shift.Tensor": lambda: (torch.randint(0, 99, (6, 40)), torch.randint(0, 9, (6, 40))),
    "floor_divide": lambda: (randn(6, 40), randn(6, 40)),
    "remainder.Tensor": lambda: (torch.randint(-99, 99, (6, 40)), torch.randint(1, 9, (6, 40))),
    "isin.Tensor_Tensor": lambda: (torch.randint(0, 9, (6, 40)), torch.tensor([2, 3])),
    "linspace": lambda: (0.0, 3.0, 40), "logspace": lambda: (0.0, 3.0, 40), "arange": lambda: (40,),
    "arange.start": lambda: (3, 40),
    "arange.start_step": lambda: (3, 40, 2), "eye": lambda: (9,), "eye.m": lambda: (9, 5),
    "full": lambda: ([6, 40], 1.5), "ones": lambda: ([6, 40],), "zeros": lambda: ([6, 40],),
    "nll_loss_forward": lambda: (randn(6, 40).log_softmax(1), torch.randint(0, 40, (6,)), None, 1, -100),
    "_unique2": lambda: (torch.randint(0, 20, (100,)), True, True, True), "kron": lambda: (randn(3, 4), randn(5, 2)),
    "diag": lambda: (randn(9),),
    "trace": lambda: (randn(9, 9),), "diag_embed": lambda: (randn(3, 9),),
    "max_pool2d_with_indices": lambda: (randn(2, 3, 12, 12), [3, 3], [2, 2], [1, 1]),
    "avg_pool2d": lambda: (randn(2, 3, 12, 12), [3, 3], [2, 2], [1, 1]),
    "upsample_nearest2d": lambda: (randn(2, 3, 6, 6), [12, 12]),
    "upsample_nearest1d": lambda: (randn(2, 3, 6), [12]), "upsample_linear1d": lambda: (randn(2, 3, 6), [12], False),
    "_upsample_bicubic2d_aa": lambda: (randn(1, 2, 6, 6), [9, 9], False),
    "upsample_bicubic2d": lambda: (randn(1, 2, 6, 6), [9, 9], False),
    "reflection_pad1d": lambda: (randn(3, 20), [2, 3]), "reflection_pad2d": lambda: (randn(3, 20, 20), [2, 3, 1, 4]),
    "replication_pad1d": lambda: (randn(3, 20), [2, 3]),
    "replication_pad3d": lambda: (randn(2, 5, 5, 5), [1, 1, 2, 0, 1, 1]),
    "conv2d": lambda: (randn(2, 4, 10, 10), randn(6, 4, 3, 3), randn(6)),
    "conv1d": lambda: (randn(2, 4, 20), randn(6, 4, 3), randn(6)),
    "_weight_norm_interface": lambda: (randn(6, 40), randn(6, 1), 0),
    "slice_scatter": lambda: (randn(6, 40), randn(6, 10), 1, 4, 24, 2),
    "select_scatter": lambda: (randn(6, 40), randn(40), 0, 2),
    "repeat_interleave.self_int": lambda: (randn(6, 40), 3, 1),
    "native_batch_norm": lambda: (randn(4, 6, 10), randn(6), randn(6), torch.zeros(6), torch.ones(6), True, 0.1, 1e-5),
    "native_dropout": lambda: (randn(6, 40), 0.0, True),
    "quantile": lambda: (randn(6, 40), torch.tensor([0.25, 0.5]), 1),
    "embedding_dense_backward": lambda: (randn(4, 7, 24), torch.randint(0, 50, (4, 7)), 50, -1, False),
    "polar": lambda: (positive(6, 40), randn(6, 40)), "prelu": lambda: (randn(3, 4, 9), randn(4)),
    "glu": lambda: (randn(6, 40), 1),
    "count_nonzero": lambda: (torch.randint(0, 3, (6, 40)),), "nonzero": lambda: (torch.randint(0, 3, (6, 40)),),
    "unfold_backward": lambda: (randn(9, 4, 3), [9, 9], 1, 3, 2), "pixel_unshuffle": lambda: (randn(2, 3, 8, 8), 2),
    "copy_": lambda: (randn(6, 40), randn(6, 40)),
    "_softmax": lambda: (randn(6, 40), 1, False), "_log_softmax": lambda: (randn(6, 40), 1, False),
    "_softmax_backward_data": lambda: (randn(6, 40), randn(6, 40).softmax(1), 1, torch.float32),
    "_log_softmax_backward_data": lambda: (randn(6, 40), randn(6, 40).log_softmax(1), 1, torch.float32),
    "clamp": lambda: (randn(6, 40), -0.5, 0.5), "clamp_": lambda: (randn(6, 40), -0.5, 0.5),
    "clamp.Tensor": lambda: (randn(6, 40), randn(6, 40) - 1, randn(6, 40) + 1),
    "lerp.Scalar": lambda: (randn(6, 40), randn(6, 40), 0.3),
    "bincount": lambda: (torch.randint(0, 9, (50,)),), "one_hot": lambda: (torch.randint(0, 9, (50,)), 9),
    "margin_ranking_loss": lambda: (randn(40), randn(40), randn(40).sign()),
    "new_full": lambda: (randn(6, 40), [3, 5], 1.5),
    "_safe_softmax": lambda: (randn(6, 40), 1), "true_divide.Tensor": lambda: (randn(6, 40), randn(6, 40)),
    "i0": lambda: (randn(6, 40),),
    "unique_consecutive": lambda: (torch.tensor([1, 1, 2, 2, 2, 3, 1]), True, True),
    "diagonal_backward": lambda: (randn(5), [5, 5], 0, 0, 1),
    "_weight_norm_interface_backward": weight_norm_backward, "std.correction": lambda: (randn(6, 40), [1]),
    "var_mean.correction": lambda: (randn(6, 40), [1]), "var.correction": lambda: (randn(6, 40), [1]),
    "var.dim": lambda: (randn(6, 40), [1]),
    "linalg_vector_norm": lambda: (randn(6, 40), 2, [1]), "amax": lambda: (randn(6, 40), [1]),
    "amin": lambda: (randn(6, 40), [1]),
    "any.dims": lambda: (randn(6, 40) > 0, [1]), "all.dims": lambda: (randn(6, 40) > 0, [1]),
    "sum.dim_IntList": lambda: (randn(6, 40), [1]),
    "mean.dim": lambda: (randn(6, 40), [1]), "prod.dim_int": lambda: (randn(6, 12), 1), "prod": lambda: (randn(9),),
    "atan2": lambda: (randn(6, 40), randn(6, 40)), "logaddexp": lambda: (randn(6, 40), randn(6, 40)),
    "slice_backward": lambda: (randn(6, 10), [6, 40], 1, 4, 24, 2),
    "select_backward": lambda: (randn(40), [6, 40], 0, 2),
    "elu_backward": lambda: (randn(6, 40), 1.0, 1.0, 1.0, False, randn(6, 40)),
}
# Draw random numbers, or return what is not defined: nothing to compare with.
RANDOM = {"rand", "randn", "rand_like", "randn_like", "randperm", "normal", "normal_", "uniform_", "exponential_",
          "bernoulli_", "multinomial", "dropout", "native_dropout_backward", "rrelu_with_noise_backward", "randint",
          "empty_like"}
NOT_COMPARED = ("scaled_dot_product", "flash", "_assert", "assert_async", "sym_constrain", "scheduler", "paged")


def argument(arg, first):
    kind, name = str(arg.type), arg.name
    if arg.has_default_value() and not kind.startswith("Tensor"):
        return arg.default_value
    if kind == "Tensor":
        return randn(6, 40)
    if kind in ("number", "Scalar", "float"):
        return 1.5
    if kind == "int":
        return 1 if name in ("dim", "axis") else 2
    if kind == "List[int]":
        return [1] if name.startswith("dim") else [6, 40]
    if kind == "bool":
        return False
    if kind.startswith("Optional"):
        return None
    raise TypeError(kind)


def inputs_of(op, name):
    if name in INPUTS:
        return INPUTS[name]
    return lambda: tuple(argument(a, i == 0) for i, a in enumerate(op._schema.arguments) if not a.kwarg_only)


def cases():
    for name, function, *_ in flag_gems._FULL_CONFIG:
        base, _, overload = name.partition(".")
        if (base in RANDOM or "random" in base or overload.startswith(("out", "generator", "p")) or "out" in overload
                or any(n in base for n in NOT_COMPARED)):
            continue
        packet = getattr(torch.ops.aten, base, None)
        if packet is None or (overload or "default") not in packet.overloads():
            continue
        op = getattr(packet, overload or "default")
        if base == "native_layer_norm":      # its statistics have a shape of their own
            function, op_called = first(function), first(op)
        else:
            op_called = op
        yield Case(name, function, op_called, inputs_of(op, name), tolerance=2e-4)


def attention(q, k, v, **options):
    return torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), **options).half()


def qkv(queries=70, keys=90):
    return lambda: tuple(randn(2, 3, n, 64).half() for n in (queries, keys, keys))


def halves(act):
    return lambda x: act(x[..., : x.shape[-1] // 2]) * x[..., x.shape[-1] // 2:]


def rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w


F = torch.nn.functional
FUSED = [
    Case("fused silu_and_mul", flag_gems.silu_and_mul, lambda x, y: F.silu(x) * y, lambda: (randn(6, 40), randn(6, 40)),
         grad=True),
    Case("fused gelu_and_mul", lambda x, y: flag_gems.gelu_and_mul(x, y, "tanh"),
         lambda x, y: F.gelu(x, approximate="tanh") * y, lambda: (randn(6, 40), randn(6, 40)), grad=True),
    Case("fused skip_layer_norm", lambda x, r, w, b: flag_gems.skip_layer_norm(x, r, [96], w, b),
         lambda x, r, w, b: F.layer_norm(x + r, (96,), w, b),
         lambda: (randn(6, 96), randn(6, 96), randn(96), randn(96))),
    Case("fused add_rms_norm", lambda x, r, w: flag_gems.fused_add_rms_norm(x, r, [96], w),
         lambda x, r, w: (rms(x + r, w), x + r), lambda: (randn(6, 96), randn(6, 96), randn(96))),
    Case("fused cross_entropy", lambda x, t: flag_gems.cross_entropy_loss(x, t), lambda x, t: F.cross_entropy(x, t),
         lambda: (randn(9, 57), torch.randint(0, 57, (9,))), grad=True),
    Case("fused instance_norm", lambda x, w, b: flag_gems.instance_norm(x, w, b),
         lambda x, w, b: F.instance_norm(x, None, None, w, b), lambda: (randn(2, 5, 40), randn(5), randn(5))),
    Case("fused outer", flag_gems.outer, torch.outer, lambda: (randn(33), randn(44)), grad=True),
    Case("fused weight_norm", lambda v, g: flag_gems.weight_norm(v, g, 0),
         lambda v, g: v * g / v.norm(dim=1, keepdim=True), lambda: (randn(6, 40), randn(6, 1))),
    Case("attention", lambda q, k, v: flag_gems.scaled_dot_product_attention(q, k, v), attention, qkv()),
    Case("attention causal", lambda q, k, v: flag_gems.scaled_dot_product_attention(q, k, v, is_causal=True),
         lambda q, k,
         # whole blocks: its backward kernel asserts them
         v: attention(q, k, v, is_causal=True), qkv(128, 128), grad=True),
    Case("fused geglu", flag_gems.fused.geglu, halves(lambda x: F.gelu(x, approximate="tanh")),
         lambda: (randn(6, 80),)),
    Case("fused swiglu", flag_gems.fused.swiglu, halves(F.silu), lambda: (randn(6, 80),)),
    Case("fused reglu", flag_gems.fused.reglu, halves(F.relu), lambda: (randn(6, 80),)),
]
CASES = list(cases()) + FUSED
