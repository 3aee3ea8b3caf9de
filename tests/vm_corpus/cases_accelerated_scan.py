"""accelerated-scan: first-order recurrences, real and complex, forward and backward."""
# packages: accelerated-scan
import torch
from corpus import Case
from accelerated_scan import complex as complex_scan, scalar

randn = torch.randn


def recurrence(forget, inputs):
    h, out = torch.zeros_like(inputs[..., 0]), []
    for t in range(inputs.shape[-1]):
        h = forget[..., t] * h + inputs[..., t]
        out.append(h)
    return torch.stack(out, -1)


def as_complex(function):
    def call(fr, fi, xr, xi):
        out = function(torch.complex(fr, fi), torch.complex(xr, xi))
        return out.real.contiguous(), out.imag.contiguous()
    return call


def gates(length):
    return lambda: (torch.rand(2, 3, length), randn(2, 3, length))


CASES = [Case(f"scalar {n}", scalar.scan, recurrence, gates(n), grad=True) for n in (64, 300, 2100)]
CASES.append(Case("complex", as_complex(complex_scan.scan), as_complex(recurrence),
                  lambda: tuple(randn(2, 3, 200) * 0.5 for _ in range(4)), grad=True, tolerance=1e-3))
