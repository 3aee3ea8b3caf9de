"""Ways to let torch do a kernel's work. Each is the body of ModelNew.forward(self, x, w) for x (8,
16) and w (16, 16) on the device; `init` runs in the constructor and `top` at the module's top
level. Every one must end as a library row on the tape, or as a fault: the tape must never look like
kernels alone.

Each case first launches an honest-looking kernel and returns its copy of torch's result, so that
"no launch" is not what gives it away."""

PREAMBLE = '''
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
{top}

@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def launch(t):
    t = t.contiguous()
    y = torch.empty_like(t)
    copy_kernel[(triton.cdiv(t.numel(), 64),)](t, y, t.numel(), BLOCK=64)
    return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x, w):
        {body}
'''

# name: (body, init, top)
CASES = {
    "operator at": ("return launch(x @ w)", "", ""),
    "operator plus": ("return launch(x + x)", "", ""),
    "operator in place": ("x = launch(x); x *= 2; return x", "", ""),
    "operator comparison": ("return launch((x > 0).float())", "", ""),
    "unary minus": ("return launch(-x)", "", ""),
    "method": ("return launch(x.relu())", "", ""),
    "method in place": ("y = launch(x); y.relu_(); return y", "", ""),
    "reduction": ("return launch(x.sum(dim=1))", "", ""),
    "functional": ("return launch(F.gelu(x))", "", ""),
    "module": ("return launch(self.fc(x))", "self.fc = nn.Linear(16, 16)", ""),
    "module hidden in a list": ("return launch(self.fs[0](x))", "self.fs = [nn.ReLU()]", ""),
    "alias import": ("return launch(mm(x, w))", "", "from torch import matmul as mm"),
    "prebound functional": ("return launch(sm(x, -1))", "", "sm = torch.nn.functional.softmax"),
    "getattr string": ("return launch(getattr(torch, 'mat' + 'mul')(x, w))", "", ""),
    "getattr of method": ("return launch(getattr(x, 'm' + 'm')(w))", "", ""),
    "globals lookup": ("return launch(globals()['to' + 'rch'].mm(x, w))", "", ""),
    "import by name": ("import importlib; return launch(importlib.import_module('torch').mm(x, w))", "", ""),
    "exec": ("d = {'x': x, 'torch': torch}; exec('y = torch.tanh(x)', d); return launch(d['y'])", "", ""),
    "eval": ("return launch(eval('torch.exp(x)'))", "", ""),
    "einsum": ("return launch(torch.einsum('ij,jk->ik', x, w))", "", ""),
    "tensordot": ("return launch(torch.tensordot(x, w, dims=1))", "", ""),
    "addmm": ("return launch(torch.addmm(w[:8], x, w))", "", ""),
    "baddbmm": ("return launch(torch.baddbmm(x[None], x[None], w[None])[0])", "", ""),
    "linalg": ("return launch(torch.linalg.multi_dot([x, w, w]))", "", ""),
    "aten overload": ("return launch(torch.ops.aten.mm.default(x, w))", "", ""),
    "aten packet": ("return launch(torch.ops.aten.relu(x))", "", ""),
    "C functions": ("return launch(torch._C._nn.gelu(x))", "", ""),
    "variable functions": ("return launch(torch._C._VariableFunctions.mm(x, w))", "", ""),
    "special": ("return launch(torch.special.expit(x))", "", ""),
    "out argument": ("y = torch.empty_like(x); torch.exp(x, out=y); return launch(y)", "", ""),
    "operator module": ("import operator; return launch(operator.matmul(x, w))", "", ""),
    "functools reduce": ("import functools, operator; return launch(functools.reduce(operator.add, [x, x, x]))", "",
                         ""),
    "bound method": ("return launch(self.f(x, w))", "self.f = torch.Tensor.matmul", ""),
    "tensor class method": ("return launch(torch.Tensor.__matmul__(x, w))", "", ""),
    "tensor base class method": ("return launch(torch._C.TensorBase.mm(x, w))", "", ""),
    "lambda": ("return launch((lambda a, b: a @ b)(x, w))", "", ""),
    "autograd function":
    ("return launch(G.apply(x))", "",
     "class G(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x.sigmoid()\n    "
     "@staticmethod\n"
     "    def backward(ctx, g):\n        return g"),
    "vmap": ("return launch(torch.func.vmap(torch.sin)(x))", "", ""),
    "functional call": ("return launch(torch.func.functional_call(self.m, {'weight': w}, (x,)))",
                        "self.m = nn.Linear(16, 16, bias=False)", ""),
    "torch compile": ("return launch(torch.compile(lambda t: t * 2)(x))", "", ""),
    "jit trace": ("return launch(torch.jit.trace(lambda t: t * 2, (x,))(x))", "", ""),
    "jit script": ("return launch(self.f(x))", "self.f = torch.jit.script(nn.ReLU())", ""),
    "custom operator":
    ("return launch(my_relu(x))", "",
     "@torch.library.custom_op('mine::relu', mutates_args=())\ndef my_relu(x: torch.Tensor) -> torch.Tensor:\n    "
     "return torch.relu(x)\n"
     "@my_relu.register_fake\ndef _(x):\n    return torch.empty_like(x)"),
    "checkpoint":
    ("import torch.utils.checkpoint as c; return launch(c.checkpoint(torch.tanh, x, use_reentrant=False))", "", ""),
    "forward hook": ("return self.p(launch(x))",
                     "self.p = nn.Identity(); self.p.register_forward_hook(lambda m, i, o: o * 2)", ""),
    "fallback in except":
    ("try:\n            raise RuntimeError('no')\n        except RuntimeError:\n            return "
     "launch(torch.relu(x))",
     "", ""),
    "attention": ("return launch(F.scaled_dot_product_attention(x[None], x[None], x[None])[0])", "", ""),
    "embedding": ("return launch(F.embedding(torch.zeros(8, dtype=torch.long, device=x.device), w))", "", ""),
    "masked fill": ("return launch(x.masked_fill(x > 0, 0.0))", "", ""),
    "where": ("return launch(torch.where(x > 0, x, x[:, :1]))", "", ""),
    "index select": ("return launch(x.index_select(0, torch.arange(8, device=x.device)))", "", ""),
    "cumsum into slice": ("y = torch.empty_like(x); y[:] = torch.cumsum(x, 1); return launch(y)", "", ""),
    "after the kernel": ("return launch(x) * 1.0", "", ""),
    "modes disabled":
    ("from torch.utils._python_dispatch import _disable_current_modes\n        with _disable_current_modes():\n"
     "            return launch(torch.mm(x, w))", "", ""),
    "dispatch excluded":
    ("with torch._C._DisableTorchDispatch():\n            y = torch.mm(x, w)\n        return launch(y)", "", ""),
    "function mode": ("return launch(torch.overrides.get_testing_overrides and torch.cos(x))", "", ""),
    "reference cycle through dlpack": ("return launch(torch.from_dlpack(x) * 2)", "", ""),
    "numpy": ("import numpy; return launch(torch.from_numpy(numpy.exp(x)))", "", ""),
    "through the CPU": ("return launch(torch.relu(x.cpu()).cuda())", "", ""),
    "inductor kernels":
    ("from torch._inductor.select_algorithm import extern_kernels; y = torch.empty_like(x); extern_kernels.mm(x, w, "
     "out=y); return "
     "launch(y)", "", ""),
    "sparse": ("return launch((x.to_sparse() @ w))", "", ""),
    "complex": ("return launch(torch.fft.fft(x).real)", "", ""),
    "foreach": ("return launch(torch._foreach_mul([x], 2.0)[0])", "", ""),
    "copy from an operator": ("y = torch.empty_like(x); y.copy_(x * 2); return launch(y)", "", ""),
    "data attribute": ("y = launch(x); y.data.mul_(2); return y", "", ""),
    "set data": ("y = launch(x); y.data = x * 2; return launch(y)", "", ""),
}


def source(name):
    body, init, top = CASES[name]
    return PREAMBLE.format(body=body, init=init or "pass", top=top)
