"""Kernels that no one here wrote, on the vm: the public operators of a library of Triton kernels
beside PyTorch.

    hone vm --cuda-shim tests/vm_corpus/corpus.py LIBRARY [NAME...]

make test-vm-corpus runs all.

A case file (cases_LIBRARY.py) has a list CASES of Case. A case's tolerance is relative to the
largest magnitude of the expected tensor: 1e-4 for f32 (sums of up to a few thousand terms in
another order), 2e-2 for f16 and bf16 results, and for products in tf32 (10 bits of mantissa,
truncated).

Counted are kernels, by name: compiled (Triton's front end made TTIR for sm_90), run, right (in
every case that used it), wrong, refused (by the vm, with the reason). A case whose kernels Triton
itself refuses is reported and not counted.
"""
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
import traceback
import types
import warnings

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}


class Case:
    """ours(*inputs) beside reference(*inputs); inputs are made once and cloned. grad: gradients of
    the floating-point inputs are compared as well."""

    def __init__(self, name, ours, reference, inputs, grad=False, tolerance=None):
        self.name, self.ours, self.reference, self.inputs, self.grad, self.tolerance = (name, ours, reference, inputs,
            grad, tolerance)


class Absent(types.ModuleType):
    """A module that is not installed, or that would have to be compiled: any name is a class that
    nothing should need."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {"__init_subclass__": lambda **kwargs: None})
        setattr(self, name, value)
        return value


class AbsentFinder:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        return (importlib.machinery.ModuleSpec(name, self, is_package=True)
                if any(name == n or name.startswith(n + ".") for n in self.names) else None)

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


def absent(*names):
    """Modules of these names, and below, can be imported from now on and have nothing in them."""
    sys.meta_path.append(AbsentFinder(names))


def bare_package(name, folder):
    """The package without what its __init__ does: its modules can be imported one by one."""
    package = types.ModuleType(name)
    package.__path__, package.__file__ = [folder], os.path.join(folder, "__init__.py")
    sys.modules[name] = package
    return package


def folder_of(package, *below):
    """Where all.py installed a package."""
    return os.path.join(ROOT, "build", "corpus", package, *below)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return [torch.tensor(float(value))] if isinstance(value, (int, float)) else []


def evaluate(function, inputs, grad):
    def copy(x):
        if isinstance(x, (list, tuple)):
            return type(x)(map(copy, x))
        return x.detach().clone().requires_grad_(grad and x.is_floating_point()) if isinstance(x, torch.Tensor) else x
    args = [copy(x) for x in inputs]
    outputs = flat(function(*args))
    if not grad:
        return [o.detach() for o in outputs]
    torch.manual_seed(1)
    results = [o.detach().clone() for o in outputs]
    differentiable = [o for o in outputs if o.requires_grad]
    torch.autograd.backward(differentiable, [torch.randn(o.shape).to(o.dtype) for o in differentiable])
    return results + [a.grad for a in args if isinstance(a, torch.Tensor) and a.requires_grad and a.grad is not None]


def difference(got, want, tolerance):
    """None when equal within the tolerance, else what differs."""
    if len(got) != len(want):
        return f"{len(got)} tensors, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        if g.shape != w.shape:
            return f"tensor {i}: shape {tuple(g.shape)}, expected {tuple(w.shape)}"
        allowed = tolerance or max(TOLERANCE.get(g.dtype, 0), TOLERANCE.get(w.dtype, 0))
        g, w = g.double(), w.double()
        if (not torch.equal(g.isfinite(), w.isfinite())
                or not torch.equal(g[~g.isfinite()].nan_to_num(7e77), w[~w.isfinite()].nan_to_num(7e77))):
            return f"tensor {i}: not finite where it should be, or the other way round"
        g, w = g[g.isfinite()], w[w.isfinite()]
        worst = (g - w).abs().max().item() if g.numel() else 0
        if worst > allowed * max(w.abs().max().item() if w.numel() else 0, 1e-3):
            return f"tensor {i}: off by {worst:.3g} of {w.abs().max().item():.3g}"
    return None


class Watch:
    """Which kernels a case compiled, ran, and had refused: looks over vm_driver's shoulder."""

    def __init__(self):
        import vm_driver
        self.compiled, self.run, self.refused = set(), set(), {}
        make, launch = vm_driver.make_handle, vm_driver.Kernel.launch

        def make_handle(src, ttir):
            self.compiled.add(src.fn.__name__)
            try:
                return make(src, ttir)
            except vm_driver.VmError as error:
                self.refused[src.fn.__name__] = str(error)
                raise

        def watched(kernel, *args):
            self.compiled.add(kernel.name)
            self.run.add(kernel.name)
            try:
                launch(kernel, *args)
            except vm_driver.VmError as error:
                self.refused[kernel.name] = str(error)
                raise

        vm_driver.make_handle, vm_driver.Kernel.launch = make_handle, watched


def run_case(case, watch, verbose):
    """'right', 'wrong', 'refused' or 'failed' (before any kernel ran), and why."""
    torch.manual_seed(0)
    watch.compiled.clear(), watch.run.clear(), watch.refused.clear()
    try:
        inputs = case.inputs() if callable(case.inputs) else case.inputs
        want = evaluate(case.reference, inputs, case.grad)
        got = evaluate(case.ours, inputs, case.grad)
        why = difference(got, want, case.tolerance)
        return ("wrong" if why else "right"), why or ""
    except Exception as error:
        if verbose:
            traceback.print_exc()
        why = f"{type(error).__name__}: {str(error).strip()}"
        if watch.refused:
            return "refused", next(iter(watch.refused.values()))
        import vm_driver
        return ("wrong" if isinstance(error, vm_driver.VmFault) else "failed"), why


def load(library):
    spec = importlib.util.spec_from_file_location(
        f"corpus_{library}", os.path.join(os.path.dirname(os.path.abspath(__file__)), f"cases_{library}.py"))
    module = importlib.util.module_from_spec(spec)
    for folder in module_paths(library):
        sys.path.append(folder)
    spec.loader.exec_module(module)
    return module.CASES


def module_paths(library):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"cases_{library}.py")) as f:
        packages = next(line for line in f if line.startswith("# packages:")).split(":", 1)[1].split()
    return [folder_of(p.partition("==")[0]) for p in packages]


def main():
    warnings.simplefilter("ignore")
    library, names = sys.argv[1], sys.argv[2:]
    watch, kernels, counts = Watch(), {}, {}
    for case in load(library):
        if names and not any(n in case.name for n in names):
            continue
        start = time.time()
        status, why = run_case(case, watch, bool(names))
        counts[status] = counts.get(status, 0) + 1
        for name in watch.compiled:
            kernels.setdefault(name, set()).add("refused" if name in watch.refused else "wrong"
                                                if status == "wrong" and name in watch.run else "right"
                                                if name in watch.run and status == "right" else "not run")
        if status != "right" or names:
            print(f"{library} {case.name}: {status} {why[:1500] if names else why[:300]} ({time.time() - start:.1f} s)",
                  flush=True)
    total = {"compiled": len(kernels), "right": 0, "wrong": 0, "refused": 0, "not run": 0}
    for states in kernels.values():
        total[next(s for s in ("refused", "wrong", "right", "not run") if s in states)] += 1
    print(json.dumps({"library": library, "cases": counts, **total,
                      "wrong_kernels": sorted(k for k, s in kernels.items() if "wrong" in s),
                      "refused_kernels": sorted(k for k, s in kernels.items() if "refused" in s)}))


if __name__ == "__main__":
    main()
