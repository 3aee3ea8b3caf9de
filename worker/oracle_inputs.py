"""Hidden inputs: other distributions, other sizes and other parameter values than the task's own, each kept inside the domain that the stock values show.

A candidate that is right only where the task's own get_inputs() happens to look is caught by these (docs/verifier.md). Which domain an input has is read
off its stock values: integers, bools and 0/1 or -1/1 targets stay as they are, rows that sum to one stay probabilities, exact zeros and symmetry stay."""
import ast
import math

import torch
from torch.utils import _pytree as pytree

ZERO_FRACTION = 0.1      # this many exact zeros in a stock float tensor are structure (triangular, diagonal, masked), not chance
VARIANT_ATTEMPTS = 6
VARIANT_CONSTANT_MAX = 1 << 20


# ---- distributions ----

def _normal(x, generator):
    return torch.randn(x.shape, generator=generator, dtype=torch.float32)


def _heavy_tail(x, generator):
    """Student t with 3 degrees of freedom: mostly small, some values beyond 10, clipped at 50 so that fp16 squares stay finite."""
    chi = sum(torch.randn(x.shape, generator=generator) ** 2 for _ in range(3)) / 3
    return (_normal(x, generator) / chi.clamp_min(1e-3).sqrt()).clamp(-50, 50)


DISTRIBUTIONS = {
    "stock": None,
    "sign-mixed": lambda x, g: _normal(x, g),
    "scaled-up": lambda x, g: x.float() * 3,
    "scaled-down": lambda x, g: x.float() * 0.01,
    "shifted": lambda x, g: _normal(x, g) + 2.5,
    "heavy-tail": _heavy_tail,
}


def domain(x):
    """What the stock values of one tensor show: 'keep', 'probability', or flags for structure."""
    if not x.is_floating_point() or x.numel() == 0:
        return "keep"
    v = x.detach().float()
    if not torch.isfinite(v).all():
        return "keep"
    distinct = torch.unique(v.flatten()[:4096])
    if distinct.numel() <= 2 and v.numel() > 2 and set(distinct.tolist()) <= {-1.0, 0.0, 1.0}:
        return "keep"
    if x.dim() > 0 and x.shape[-1] > 1 and (v >= 0).all() and ((v.sum(-1) - 1).abs() < 1e-3).all():
        return "probability"
    if x.dim() > 0 and x.shape[-1] > 1 and (v <= 0).all() and ((v.exp().sum(-1) - 1).abs() < 1e-3).all():
        return "log-probability"
    return "free"


def transform(x, name, generator, positive):
    """One input under a distribution; positive: only magnitudes, for references that are undefined below zero."""
    kind = domain(x)
    if DISTRIBUTIONS[name] is None or kind == "keep":
        return x
    if kind == "probability":
        values = torch.softmax(3 * _normal(x, generator), -1)
    elif kind == "log-probability":
        values = torch.log_softmax(3 * _normal(x, generator), -1)
    else:
        values = DISTRIBUTIONS[name](x, generator)
        values = values.abs() if positive else values
        values = _keep_structure(x, values)
    return _like(x, values)


def _keep_structure(x, values):
    if (x == 0).float().mean() > ZERO_FRACTION:
        values = values * (x != 0)
    if x.dim() == 2 and x.shape[0] == x.shape[1] and x.shape[0] > 1 and torch.equal(x, x.T):
        values = torch.triu(values) + torch.triu(values, 1).T
    return values


def _like(x, values):
    """values in x's dtype and strides; a tensor that overlaps itself (expanded) keeps its own values."""
    if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(values)


# ---- parameters ----

def randomise_state(model, seed):
    """New values for every floating parameter and running statistic. Zero and one initialisations would hide a forgotten bias or affine. Other
    buffers are constants of the model (masks, tables) and keep their values."""
    generator = torch.Generator().manual_seed(seed)
    done = set()
    with torch.no_grad():
        for name, p in model.named_parameters(remove_duplicate=True):
            if p.is_floating_point() and p.numel():
                p.copy_(_parameter_values(p, generator))
                done.add(p.data_ptr())
        for name, b in model.named_buffers(remove_duplicate=True):
            if not b.is_floating_point() or b.data_ptr() in done:
                continue
            if name.endswith("running_var"):
                b.copy_(0.5 + torch.rand(b.shape, generator=generator))
            elif name.endswith("running_mean"):
                b.copy_(0.5 * torch.randn(b.shape, generator=generator))


def _parameter_values(p, generator):
    v = p.detach().float()
    spread = v.std().item() if v.numel() > 1 else 0.0
    if not math.isfinite(spread):
        return v
    if spread > 1e-12 * (1 + v.abs().max().item()):
        values = v.mean() + spread * torch.randn(v.shape, generator=generator)
        return values.abs() + 1e-3 if (v > 0).all() else values
    centre = v.flatten()[0].item()
    if centre == 0:
        return 0.5 * torch.randn(v.shape, generator=generator)
    return centre * (0.5 + torch.rand(v.shape, generator=generator))   # same sign and size


# ---- sizes ----

def _odd(value):
    """A smaller odd size that is no multiple of a block; very small ones grow instead."""
    return (value * 3 // 4) | 1 if value >= 5 else value + 1 if value == 1 else value - 1 if value == 4 else value + 2


def _names_in(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def size_variants(source):
    """Source texts with other sizes, best first, each with {name: (old, new)}. Sizes are module-level integer constants; literals inside get_inputs() are the
    task's statement that it has one size. What only get_inputs() uses changes first, all of it together and then each alone; then what the constructor's
    arguments share, on both sides: the module is executed anew, so everything that is computed from a size follows it."""
    tree = ast.parse(source)
    for group in _constant_groups(tree)[:VARIANT_ATTEMPTS]:
        changed = {name: (nodes[0].value, _odd(nodes[0].value)) for name, nodes in group.items()}
        for name, nodes in group.items():
            for node in nodes:
                node.value = changed[name][1]
        text = ast.unparse(tree)
        for name, nodes in group.items():
            for node in nodes:
                node.value = changed[name][0]
        yield text, changed


def _is_size(node):
    return isinstance(node, ast.Constant) and type(node.value) is int and 1 <= node.value <= VARIANT_CONSTANT_MAX


def _functions(tree):
    return {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def _largest_first(names, sites):
    return sorted(names, key=lambda n: (-sites[n][0].value, n))


def _ordered_groups(pure, shared, sites):
    pick = lambda names: {n: sites[n] for n in names}
    groups = ([pick(pure)] if pure else []) + ([pick([n]) for n in pure] if len(pure) > 1 else [])
    return groups + ([pick(pure + shared)] if shared else []) + [pick([n]) for n in shared]


def _constant_groups(tree):
    constants, derived, functions = {}, {}, _functions(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if _is_size(node.value):
                constants[node.targets[0].id] = [node.value]
            else:
                derived[node.targets[0].id] = _names_in(node.value)

    def used_by(function):
        names = _names_in(functions[function]) if function in functions else set()
        for _ in range(len(derived)):
            names |= {n for d in names & set(derived) for n in derived[d]}
        return {n for n in names if n in constants}

    in_inputs, elsewhere = used_by("get_inputs"), used_by("get_init_inputs") | used_by("Model")
    return _ordered_groups(_largest_first(in_inputs - elsewhere, constants), _largest_first(in_inputs & elsewhere, constants), constants)


def tensors_of(values):
    return [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
