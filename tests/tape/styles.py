"""Honest ways to write host code, beyond those of tests/known_good: (name, top, init, body of
forward(self, x)). x is (8, 16) float32. Each must give a tape without library rows."""

from faults import HEAD

CASES = [
    ("future annotations", "!from __future__ import annotations", "", "return launch(x)"),
    ("inference mode", "", "", "with torch.inference_mode():\n    return launch(x)"),
    ("decorated with no_grad", "", "", "@torch.no_grad()\ndef f(t):\n    return launch(t)\nreturn f(x)"),
    ("enable_grad", "", "", "with torch.enable_grad():\n    return launch(x.detach())"),
    ("autocast", "", "", "with torch.autocast('cuda', dtype=torch.float16):\n    return launch(x)"),
    ("amp custom_fwd",
     "class G(torch.autograd.Function):\n    @staticmethod\n    @torch.amp.custom_fwd(device_type='cuda')\n    def "
     "forward(ctx, x):\n"
     "        return launch(x)\n    @staticmethod\n    def backward(ctx, g):\n        return g", "",
     "return G.apply(x)"),
    ("device context", "", "", "with torch.cuda.device(x.device):\n    return launch(x)"),
    ("device_of", "", "", "with torch.cuda.device_of(x):\n    return launch(x)"),
    ("stream", "", "",
     "s = torch.cuda.Stream()\ns.wait_stream(torch.cuda.current_stream())\n"
     "with torch.cuda.stream(s):\n    y = launch(x)\n"
     "torch.cuda.current_stream().wait_stream(s)\n"
     "torch.cuda.synchronize()\nreturn y"),
    ("events", "", "",
     "a = torch.cuda.Event(enable_timing=True)\na.record()\ny = launch(x)\na.synchronize()\nreturn y"),
    ("set_device", "", "",
     "torch.cuda.set_device(0)\nassert torch.cuda.current_device() == x.get_device() == x.device.index == 0\nreturn "
     "launch(x)"),
    ("asks for the device", "D = torch.device('cuda' if torch.cuda.is_available() else 'cpu')", "",
     "assert D.type == 'cuda' and x.device.type == 'cuda' and x.is_cuda\nreturn launch(x.to(D))"),
    ("capability", "", "",
     "major, minor = torch.cuda.get_device_capability()\nassert major >= 8 and torch.version.cuda and "
     "torch.cuda.is_bf16_supported()\n"
     "return launch(x)"),
    ("properties", "", "", "p = torch.cuda.get_device_properties(x.device)\n"
     "assert p.multi_processor_count > 100 and p.total_memory > 1 << 36 and 'H200' in p.name and "
     "torch.cuda.get_device_name()\n"
     "return launch(x)"),
    ("Triton's driver", "", "", "d = triton.runtime.driver.active\n"
     "assert d.utils.get_device_properties(d.get_current_device())['multiprocessor_count'] == 132\n"
     "assert d.get_current_target().backend == 'cuda'\nreturn launch(x)"),
    ("default device", "torch.set_default_device('cuda')", "self.t = torch.zeros(4)",
     "assert self.t.is_cuda\ny = torch.empty(x.shape)\ncopy_kernel[(2,)](x, y, 128, BLOCK=64)\nreturn y"),
    ("device as context", "", "",
     "with torch.device('cuda'):\n    y = torch.empty(x.shape)\ncopy_kernel[(2,)](x, y, 128, BLOCK=64)\nreturn y"),
    ("default dtype", "torch.set_default_dtype(torch.float32)", "", "return launch(x)"),
    ("backend flags",
     "torch.backends.cuda.matmul.allow_tf32 = False\ntorch.backends.cudnn.allow_tf32 = False\n"
     "torch.set_float32_matmul_precision('highest')",
     "", "return launch(x)"),
    ("module moved to the device in its constructor", "", "self.fc = nn.Linear(16, 16)\nself.cuda()",
     "return launch(x), launch(self.fc.weight)"),
    ("module built on the device", "", "self.fc = nn.Linear(16, 16, device='cuda', dtype=torch.float32)",
     "return launch(self.fc.weight)"),
    ("parameter built on the device", "",
     "self.w = nn.Parameter(torch.empty(16, 16, device='cuda'))\nnn.init.kaiming_uniform_(self.w, a=5 ** 0.5)\n"
     "self.register_buffer('b', torch.arange(4, device='cuda'), persistent=False)",
     "return launch(self.w), launch(self.b)"),
    ("parameters in half precision", "", "self.fc = nn.Linear(16, 16).half()", "return launch(self.fc.weight)"),
    ("parameter list and dict", "",
     "self.l = nn.ParameterList([torch.ones(3), torch.ones(4)])\nself.d = nn.ParameterDict({'a': "
     "nn.Parameter(torch.ones(5))})",
     "return [launch(p) for p in self.l] + [launch(self.d['a'])]"),
    ("frozen parameters", "", "self.fc = nn.Linear(4, 4)\nfor p in self.parameters():\n    p.requires_grad_(False)",
     "return launch(self.fc.weight)"),
    ("state_dict round trip", "", "self.fc = nn.Linear(4, 4)\nself.load_state_dict(self.state_dict())",
     "return launch(self.fc.weight)"),
    ("deep copy of a module", "", "import copy\nself.a = nn.Linear(4, 4)\nself.b = copy.deepcopy(self.a)",
     "return launch(self.b.weight)"),
    ("weights transposed in forward", "", "self.fc = nn.Linear(4, 6)",
     "return launch(self.fc.weight.t().contiguous())"),
    ("weight norm by hand at construction", "", "w = torch.randn(4, 4)\nself.w = nn.Parameter(w / w.norm())",
     "return launch(self.w)"),
    ("constants computed at construction", "", "self.table = (torch.arange(64) * 0.5).sin().cuda()",
     "return launch(self.table)"),
    ("constant computed in forward", "", "",
     "mask = torch.arange(16, device=x.device)[None, :] > torch.arange(8, device=x.device)[:, None]\nreturn "
     "launch(mask.float())"),
    ("constant read back", "", "self.scale = torch.tensor(2.0, device='cuda')",
     "assert self.scale.item() == 2.0\nn = int(torch.tensor([3, 4], device='cuda').sum())\nreturn launch(x[:n])"),
    ("shape arithmetic", "", "", "n = torch.tensor(x.shape).prod().item()\ny = torch.empty(n, device=x.device)\n"
     "copy_kernel[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)\nreturn y.view(*x.shape)"),
    ("lru_cache over shapes",
     "import functools\n\n@functools.lru_cache(None)\ndef plan(n):\n    return triton.next_power_of_2(n), "
     "triton.cdiv(n, 64)",
     "", "plan(x.numel())\nreturn launch(x)"),
    ("dataclass and typing",
     "from dataclasses import dataclass\nfrom typing import Optional, Tuple\n\n@dataclass\nclass Config:\n    block: "
     "int = 64",
     "self.config = Config()", "assert self.config.block == 64\nreturn launch(x)"),
    ("main guard", "if __name__ == '__main__':\n    raise SystemExit(1)", "", "return launch(x)"),
    ("logging and warnings", "import logging, warnings\nlog = logging.getLogger(__name__)", "",
     "log.warning('shape %s', x.shape)\nwarnings.warn('slow')\nprint(x, f'{x}', repr(x.shape))\nreturn launch(x)"),
    ("environment", "import os\nos.environ['TRITON_PRINT_AUTOTUNING'] = '1'", "", "return launch(x)"),
    ("alignment check", "", "",
     "assert x.data_ptr() % 16 == 0 and x.is_contiguous() and x.stride(-1) == 1 and x.element_size() == 4 and "
     "x.nbytes == 512\n"
     "return launch(x)"),
    ("strides of a view", "", "",
     "v = x[:, 4:12]\nassert v.data_ptr() - x.data_ptr() == 16 and v.storage_offset() == 4 and not v.is_contiguous()\n"
     "return launch(v.contiguous())"),
    ("compiling questions", "", "",
     "assert not torch.compiler.is_compiling() and not torch.jit.is_scripting() and not torch.is_grad_enabled()\n"
     "return launch(x)"),
    ("memory questions", "", "",
     "torch.cuda.empty_cache()\nassert torch.cuda.memory_allocated() >= 0 and torch.cuda.mem_get_info()[0] > 0\n"
     "return launch(x)"),
    ("numpy on the side", "import numpy as np", "self.scale = np.float32(2.0)",
     "n = int(np.prod(x.shape))\ny = torch.empty_like(x)\ncopy_kernel[(np.int64(2),)](x, y, n, BLOCK=64)\nreturn y"),
    ("math on the side", "import math", "",
     "y = torch.empty_like(x)\ncopy_kernel[(math.ceil(x.numel() / 64),)](x, y, x.numel(), BLOCK=64)\nreturn y"),
    ("benchmark that finds nothing", "from triton.testing import do_bench", "",
     "assert min(do_bench(lambda: launch(x), quantiles=[0.5]) if False else [1.0]) > 0\nreturn launch(x)"),
    ("do_not_specialize",
     "@triton.jit(do_not_specialize=['n'])\ndef k(x, y, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
     "    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)", "",
     "y = torch.empty_like(x)\nk[(1,)](x, y, 1, B=64)\nk[(1,)](x, y, 128, B=128)\nreturn y"),
    ("annotations and defaults",
     "@triton.jit\ndef k(x, y, n: tl.int32, B: tl.constexpr = 64, OFF: tl.constexpr = 0):\n    i = tl.arange(0, B) + "
     "OFF\n"
     "    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)", "",
     "y = torch.empty_like(x)\nk[(1,)](x, y, 128)\nk[(1,)](x, y, 128, OFF=64)\nreturn y"),
    ("device prints",
     "@triton.jit\ndef k(x, y, B: tl.constexpr):\n    i = tl.arange(0, B)\n    v = tl.load(x + i)\n    "
     "tl.static_print('B is', B)\n"
     "    tl.device_print('v', v)\n    tl.static_assert(B == 128)\n    tl.debug_barrier()\n    tl.store(y + i, v)", "",
     "y = torch.empty_like(x)\nk[(1,)](x, y, B=128)\nreturn y"),
    ("inline assembly", "@triton.jit\ndef k(x, y, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
     "    v = tl.inline_asm_elementwise('add.f32 $0, $1, 0f3F800000;', '=f,f', [tl.load(x + i)], dtype=tl.float32, "
     "is_pure=True, pack=1)\n"
     "    tl.store(y + i, v)", "", "y = torch.empty_like(x)\nk[(1,)](x, y, B=128)\nreturn y"),
    ("Config with a hook", "def hook(args):\n    args['y'].zero_()\n\n"
     "@triton.autotune(configs=[triton.Config({'B': 128}, pre_hook=hook), triton.Config({'B': 64}, pre_hook=hook)], "
     "key=['n'])\n"
     "@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
     "    tl.atomic_add(y + i, tl.load(x + i, mask=i < n), mask=i < n)", "",
     "y = torch.empty_like(x)\nk[lambda m: (triton.cdiv(128, m['B']),)](x, y, 128)\nreturn y"),
    ("autotune that resets and restores",
     "@triton.autotune(configs=[triton.Config({'B': 128}), triton.Config({'B': 64})], key=['n'], reset_to_zero=['y'], "
     "restore_value=['x'])\n@triton.jit\n"
     "def k(x, y, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n    tl.atomic_add(y + i, "
     "tl.load(x + i, mask=i < n), mask=i < n)",
     "", "y = torch.zeros_like(x)\nk[lambda m: (triton.cdiv(128, m['B']),)](x, y, 128)\nreturn y"),
    ("autotune over heuristics",
     "@triton.autotune(configs=[triton.Config({'B': 64}), triton.Config({'B': 32})], key=[])\n"
     "@triton.heuristics({'FULL': lambda a: a['n'] % a['B'] == 0})\n@triton.jit\n"
     "def k(x, y, n, B: tl.constexpr, FULL: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
     "    m = (i < n) | FULL\n    tl.store(y + i, tl.load(x + i, mask=m), mask=m)", "",
     "y = torch.empty_like(x)\nk[lambda m: (triton.cdiv(128, m['B']),)](x, y, 128)\nreturn y"),
    ("first configuration does not compile",
     "@triton.autotune(configs=[triton.Config({'B': 48}), triton.Config({'B': 64})], key=[])\n@triton.jit\ndef k(x, y,"
     " n, B: tl.constexpr):\n"
     "    i = tl.program_id(0) * B + tl.arange(0, B)\n    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)", "",
     "y = torch.empty_like(x)\nk[lambda m: (triton.cdiv(128, m['B']),)](x, y, 128)\nreturn y"),
    ("compiled kernel launched again", "", "",
     "y = torch.empty_like(x)\nc = copy_kernel.warmup(x, y, 128, BLOCK=64, grid=(1,))\nassert c.n_spills == 0 and "
     "'ttir' in c.asm and c.metadata.shared >= 0\n"
     "c[(2, 1, 1)](x, y, 128, 64)\nreturn y"),
    ("run method", "", "",
     "y = torch.empty_like(x)\ncopy_kernel.run(x, y, 128, BLOCK=64, grid=(2,), warmup=False)\nreturn y"),
    ("reinterpreted tensor", "", "", "y = torch.empty(8, 16, device=x.device, dtype=torch.int32)\n"
     "copy_kernel[(2,)](triton.reinterpret(x, tl.int32), y, 128, BLOCK=64)\nreturn y"),
    ("local kernel of a function",
     "def make():\n    @triton.jit\n    def inner(x, y, B: tl.constexpr):\n        i = tl.arange(0, B)\n"
     "        tl.store(y + i, tl.load(x + i))\n    return inner\n\nINNER = make()", "",
     "y = torch.empty_like(x)\nINNER[(1,)](x, y, B=128)\nreturn y"),
    ("kernel as a class attribute", "", "self.kernel = copy_kernel",
     "y = torch.empty_like(x)\nself.kernel[(2,)](x, y, 128, BLOCK=64)\nreturn y"),
    ("empty grid", "", "", "y = launch(x)\ncopy_kernel[(0,)](x, y, 0, BLOCK=64)\nreturn y"),
    ("empty tensor", "", "",
     "launch(x[:0].contiguous()) if False else None\nz = torch.empty(0, 4, device=x.device)\nreturn launch(x), z"),
    ("triton.set_allocator",
     "triton.set_allocator(lambda size, align, stream: torch.empty(size, device='cuda', dtype=torch.int8))", "",
     "return launch(x)"),
    ("workspace of zeros made in each call", "", "",
     "acc = torch.zeros(128, device='cuda')\ncopy_kernel[(2,)](x, acc, 128, BLOCK=64)\nreturn acc.clone()"),
    ("border of zeros made in each call", "", "",
     "p = torch.zeros(8, 18, device='cuda')\np[:, 1:17] = x\nreturn launch(p)"),
    ("zeros made at construction and only read", "", "self.z = torch.zeros(128, device='cuda')",
     "y = torch.empty_like(x)\ncopy_kernel[(2,)](self.z, y, 128, BLOCK=64)\nreturn y"),
    ("zeros kept from the first call and only read", "", "self.z = None",
     "if self.z is None:\n    self.z = torch.zeros(128, device=x.device)\ny = torch.empty_like(x)\ncopy_kernel[(2,"
     ")](self.z, y, 128, BLOCK=64)\nreturn y"),
    ("data assigned", "",
     "self.fc = nn.Linear(4, 4)\nself.fc.weight.data = self.fc.weight.data.cuda()\nself.fc.bias.data.fill_(2)",
     "return launch(self.fc.weight), launch(self.fc.bias)"),
    ("forward with a keyword default", "", "",
     "return self.helper(x, flag=None)\n\ndef helper(self, x, flag=True):\n    return launch(x)"),
    ("hooks that only watch", "", "self.register_forward_hook(lambda m, i, o: None)", "return launch(x)"),
    ("autograd forward with ctx",
     "class G(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, n):\n        ctx.n = n\n"
     "        y = launch(x)\n        ctx.save_for_backward(x, y)\n        ctx.mark_non_differentiable(y)\n        "
     "return y\n"
     "    @staticmethod\n    def backward(ctx, g):\n        return g, None", "", "return G.apply(x, 3)"),
    ("no class of nn.Module", "", "", "return launch(x)"),
]


def source(name, top, init, body):
    first = top[1:] + "\n" if top.startswith("!") else ""
    head = HEAD + ("" if first else top + "\n\n\n")
    base = "" if name == "no class of nn.Module" else "(nn.Module)"
    start = "" if not base else "        super().__init__()\n"
    lines = "".join(f"        {line}\n" for line in (init or "pass").split("\n"))
    method = body.split("\n\ndef ")
    text = "".join(f"        {line}\n" for line in method[0].split("\n"))
    more = "".join("\n    def " + m.replace("\n    ", "\n        ") + "\n" for m in method[1:])
    call = "" if base else "\n    __call__ = forward\n"
    return (f"{first}{head}class ModelNew{base}:\n    def __init__(self):\n{start}{lines}\n    def forward(self, x):\n"
            f"{text}{more}{call}")
