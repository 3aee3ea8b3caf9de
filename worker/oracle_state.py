"""Hidden parameters: other values for the weights, statistics and counts of a reference's model
than its constructor leaves there, as training may leave them."""
import math

import torch

WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def randomise_state(model, seed, wide=0):
    """New values for every floating parameter and running statistic. Zero and one initialisations
    would hide a forgotten bias or affine. Other buffers are constants of the model (masks, tables)
    and keep their values. wide: training may take a weight anywhere, also through zero, so a
    quarter change their sign, and some are far larger; some variances are next to nothing. 2: the
    most that a reference may take, some exactly zero."""
    generator = torch.Generator().manual_seed(seed)
    done = set()
    with torch.no_grad():
        for name, p in model.named_parameters(remove_duplicate=True):
            if p.is_floating_point() and p.numel():
                values = parameter_values(p, generator)
                p.copy_(widened(values, generator, wide == 2) if wide else values)
                done.add(p.data_ptr())
        for name, b in model.named_buffers(remove_duplicate=True):
            if not b.is_floating_point() or b.data_ptr() in done:
                continue
            if name.endswith("running_var"):
                values = 0.5 + torch.rand(b.shape, generator=generator)
                b.copy_(values * (1e-4 if wide else 1) ** (torch.rand(b.shape, generator=generator) < 1 / 8))
            elif name.endswith("running_mean"):
                b.copy_(0.5 * torch.randn(b.shape, generator=generator))
        # A count of batches is wherever training has come to.
        generator.manual_seed(seed + 1)
        for name, b in model.named_buffers(remove_duplicate=True):
            if name.endswith("num_batches_tracked") and b.numel() == 1 and not b.is_floating_point():
                b.fill_(int(2 ** (24 * torch.rand((), generator=generator).item())) - 1)


def place_state(model, placed):
    """Elements of parameters that have to be certain bits: (name, place, bytes, bits). Training
    takes a weight anywhere, a variance nowhere below zero; other buffers are constants."""
    named = dict(model.named_parameters(remove_duplicate=True))
    named.update((n, b) for n, b in model.named_buffers() if n.endswith(("running_var", "running_mean")))
    counts = {n: b for n, b in model.named_buffers() if n.endswith("num_batches_tracked") and b.dtype == torch.int64}
    with torch.no_grad():
        for name, at, size, bits in placed:
            if name in counts and size == 8 and at == 0 and counts[name].numel() == 1 and 0 <= bits < 1 << 40:
                counts[name].fill_(bits)
            p = named.get(name)
            if p is None or not p.is_floating_point() or not p.is_contiguous() or p.element_size() != size:
                continue
            value = torch.tensor([bits], dtype=torch.int64).to(WHOLE[size]).view(p.dtype)
            if at < p.numel() and torch.isfinite(value) and (value > 0 or not name.endswith("running_var")):
                p.view(-1)[at] = value[0]


def dominate_state(model, dominant):
    """Elements of parameters that are as many times as large as the largest of all, or as far below
    zero: (name, place, times). A variance stays above zero."""
    named = dict(model.named_parameters(remove_duplicate=True))
    named.update((n, b) for n, b in model.named_buffers() if n.endswith(("running_var", "running_mean")))
    with torch.no_grad():
        for name, at, times in dominant:
            p = named.get(name)
            if p is None or not p.is_floating_point() or not p.is_contiguous() or at >= p.numel():
                continue
            value = times * parameter_values(p, torch.Generator().manual_seed(at)).abs().max()
            p.view(-1)[at] = value.abs() if name.endswith("running_var") else value


def widened(values, generator, far):
    """A quarter with the other sign and a quarter larger; far: some of those by more, and some
    nothing at all."""
    draw = torch.rand(values.shape, generator=generator)
    values = values * torch.where(draw < 0.25, -1.0, 1.0) * torch.where((draw * 16).int() % 4 == 3, 8.0, 1.0)
    for number, factor in ((7, 8.0), (2, 0.0)) if far else ():
        values = torch.where((draw * 16).int() == number, values * factor, values)
    return values


def parameter_values(p, generator):
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
