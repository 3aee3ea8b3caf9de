"""emit: the program on a tape as a Python module of its own (`hone verify --emit`).

What is delivered is what was judged: kernels from the candidate's text as syntax trees (rebuild.py
reads them the same way), the launches, fills, copies, streams and events of the tape, and nothing
else of the candidate's host code. The module works for exactly the shapes, strides, dtypes,
constructor arguments and mode that were traced, one entry of its table a tape, and raises for any
other. Its parameters are made by the task's own reference, so that they are the seed's.
"""
import ast
import copy
import json
import math
import re
import textwrap

import rebuild
from emit_reach import check_kernel, check_pure
from output_form import TEXT_MAX
from rebuild import COMPILER_OPTIONS, Unsupported
from tracer_ttir import written_arguments

DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8_e4m3fn",
          "fp8e5": "float8_e5m2", "i1": "bool", "u1": "bool", "int1": "bool"}
DTYPES.update({f"i{n}": f"int{n}" for n in (8, 16, 32, 64)})
DTYPES.update({f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)})
SIZES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2,
         "int16": 2, "uint16": 2}
DEFAULTS = {"num_warps": 4, "num_ctas": 1, "num_stages": 3, "warp_size": 32, "maxnreg": None, "enable_fp_fusion": True,
            "enable_reflect_ftz": True, "launch_cooperative_grid": False, "launch_pdl": False,
            "default_dot_input_precision": "tf32", "debug": False, "sanitize_overflow": True}

HEAD = '''"""TITLE

Written by hone from a tape that was judged genuine. It runs for exactly the shapes, strides, types,
constructor arguments and mode that were judged, and raises for any other."""
import base64 as _base64
import collections as _collections
import importlib as _importlib
import types as _types

import torch
import torch as _torch
import torch.nn as _nn
import triton as _triton
import triton.language as _tl
from triton.tools.tensor_descriptor import TensorDescriptor


def _module(name, /, **values):
    made = _types.ModuleType(name)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _own(kernel, /, **names):
    """Triton's interpreter finds the names of a kernel in its module alone: there it gets a function
    that has its own. The compiler finds them where the kernel stands."""
    if hasattr(kernel, "rewriter"):
        f = kernel.fn
        own = _types.FunctionType(f.__code__, {**f.__globals__, **names}, f.__name__, f.__defaults__, f.__closure__)
        own.__kwdefaults__, own.__module__ = f.__kwdefaults__, f.__module__
        kernel.fn = kernel.rewriter.fn = own
    return kernel


def _flat(t, size):
    """The memory of a tensor from its first element on, as one dimension: it may be a view into larger memory."""
    return t.as_strided((size // t.element_size(),), (1,))


def _view(flat, offset, dtype, shape, stride):
    """A view of a flat tensor: offset in bytes from its begin, strides in elements."""
    if flat.dtype != dtype:
        flat = flat.view(torch.uint8)
        flat = flat[:flat.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    return flat.as_strided(shape, stride, flat.storage_offset() + offset // dtype.itemsize)


def _fits(value, wanted, tensors):
    """Whether a value is of the form that was judged; its tensors, in the order that was judged."""
    kind, *of = wanted
    if kind == "tensor":
        tensors.append(value)
        return (isinstance(value, torch.Tensor) and value.is_cuda
                and [tuple(value.shape), tuple(value.stride()), str(value.dtype)] == of)
    if kind == "dict":
        return (isinstance(value, dict) and value.keys() == of[0].keys()
                and all([_fits(value[k], w, tensors) for k, w in of[0].items()]))
    if kind in ("list", "tuple"):
        return (isinstance(value, list if kind == "list" else tuple) and len(value) == len(of[0])
                and all([_fits(v, w, tensors) for v, w in zip(value, of[0])]))
    return (type(value).__name__, str(value)) == wanted


def _layout(t):
    return tuple(t.shape), tuple(t.stride()), t.dtype


def _put(root, name, value):
    """A parameter or buffer under its dotted name; what two entries of the table share is made once."""
    module, (*path, last) = root, name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, _nn.Module())
        module = module._modules[part]
    if last in module._parameters or last in module._buffers:
        return
    root._layouts[name] = _layout(value)
    if value.is_floating_point():
        module.register_parameter(last, _nn.Parameter(value, requires_grad=False))
    else:
        module.register_buffer(last, value)


def _get(root, name):
    """Values may be others by now; where they lie in memory is what was judged."""
    found = root
    for part in name.split("."):
        found = getattr(found, part)
    if _layout(found) != root._layouts[name]:
        raise ValueError(f"made for {name} of shape, strides and type {root._layouts[name]}, found {_layout(found)}")
    return found

'''
# The modules that HEAD imports, by the names it gives them.
MODULES = frozenset(a.asname or a.name for n in ast.parse(HEAD).body if isinstance(n, ast.Import)
                    for a in n.names)
# The module's class, behind its table of entries: its constructor, parameters as the reference
# makes them where there are any, and forward, which finds the entry that fits.
CLASS = '''class ModelNew(_nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        found, self._layouts = str((list(args), kwargs)), {}
        self._entries = [i for i, what in enumerate(_TABLE) if what['arguments'] == found]
        if not self._entries:
            known = [what['arguments'] for what in _TABLE]
            raise ValueError(f"made for the constructor arguments {known}, found {found}")'''
PARAMETERS = '''        space = {'__name__': 'task'}
        exec(_TASK, space)
        reference = space['Model'](*args, **kwargs)
        given = dict(reference.named_parameters(remove_duplicate=False))
        given.update(reference.named_buffers(remove_duplicate=False))
        given = {name: t.detach().clone() for name, t in given.items()}'''
FORWARD = '''        self.train(_TABLE[self._entries[0]]['training'])

    def forward(self, *args, **kwargs):
        for i in self._entries:
            what, tensors = _TABLE[i], []
            is_same = _fits(args, what['inputs'], tensors) and _fits(kwargs, what['names'], tensors)
            if is_same and self.training == what['training']:
                return getattr(self, f'_forward_{i}')(tensors)
        known = [_TABLE[i] for i in self._entries]
        raise ValueError(f'made for the inputs and modes {known} on CUDA alone')
'''


ALLOCATOR = """
# Scratch memory of kernels that make descriptors.
_triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
"""


def literal(v):
    if isinstance(v, float) and not math.isfinite(v):
        return f"float({str(v)!r})"
    return repr(v)


def is_plain(v):
    """A recipe's value that is written as itself."""
    return v[0] in ("scalar", "float")


class Unannotated(ast.NodeTransformer):
    """A function without the annotations that name what its recipe has no value for (torch.Tensor),
    or that call something: the compiler takes nothing from these, and the module could not be
    imported, or would run host code when it is."""

    def __init__(self, names):
        self.names = names        # the function's, as the recipe has them

    def is_strange(self, node):
        if node is None:
            return False
        if not rebuild.is_name(node):      # Python would compute it where the module is imported
            return any(isinstance(n, ast.Call) for n in ast.walk(node))
        chain = ast.unparse(node).split(".")
        kind, *rest = self.names.get(chain[0], ["builtin"])
        if kind == "names":      # a module, of which the recipe has what the function asks
            kind = rest[1].get(chain[-1], ["unknown"])[0] if len(chain) == 2 else "unknown"
        return kind == "unknown"

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node):
        return ast.arg(node.arg) if self.is_strange(node.annotation) else node

    def visit_AnnAssign(self, node):
        if self.is_strange(node.annotation) and node.value:
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return node


class Emitter:
    def __init__(self, job):
        self.job = job
        self.definitions = rebuild.prepare(job["source"]).functions
        self.functions = {}       # text of a function's factory -> its name in the module
        self.out = [HEAD.replace("TITLE", f"{job['name']}: verified kernels", 1)]
        self.tape = None          # the entry's in hand

    # ---- functions ----

    def value(self, v, names):
        """A recipe's value as an expression; `names`: the recipe's functions, emitted."""
        kind, rest = v[0], v[1:]
        # Constants of Python and of the compiler, and types.
        if kind == "scalar":
            return literal(rest[0])
        if kind == "float":
            return literal(float.fromhex(rest[0]))
        if kind == "constexpr":
            return f"_tl.constexpr({self.value(rest[0], names)})"
        if kind == "dtype":
            return f"_tl.dtype({rest[0]!r})"
        if kind == "pointer":
            return f"_tl.pointer_type({self.value(rest[0], names)}, {rest[1]!r}, {rest[2]!r})"
        if kind == "torch":
            return f"_torch.{rest[0]}"
        # What holds further values.
        if kind in ("tuple", "list"):
            items = "".join(self.value(x, names) + ", " for x in rest[0])
            return f"({items})" if kind == "tuple" else f"[{items}]"
        if kind == "namedtuple_class":
            return f"_collections.namedtuple({rest[0]!r}, {rest[1]!r})"
        if kind == "namedtuple":
            return (f"_collections.namedtuple({rest[0]!r}, "
                    f"{rest[1]!r})({', '.join(self.value(x, names) for x in rest[2])})")
        # What is found by name in an installed library.
        if kind == "module":
            return f"_importlib.import_module({rest[0]!r})"
        if kind == "library":
            return f"getattr(_importlib.import_module({rest[0]!r}), {rest[1]!r})"
        # The candidate's own: a namespace of helpers, a function of the recipe.
        if kind == "names":
            known = sorted((n, x) for n, x in rest[1].items() if x[0] != "unknown")
            return f"_module({rest[0]!r}, **{{{', '.join(f'{n!r}: {self.value(x, names)}' for n, x in known)}}})"
        if kind == "function":
            return names(rest[0])
        raise Unsupported("a kernel uses a value that is no constant")

    def function(self, recipe, index):
        """The name under which a function stands in the module; its factory is written at the first
        use."""
        entry = recipe["functions"][index]
        names = lambda i: self.function(recipe, i)
        node = copy.deepcopy(self.definitions.get((entry["line"], entry["name"])))
        if node is None or entry["kind"] in ("builtin", "aggregate"):
            raise Unsupported(f"function {entry['name']} cannot be emitted")
        node = Unannotated(entry["names"]).visit(node)
        body = copy.deepcopy(node)
        body.decorator_list, body.args.defaults = [], []      # the recipe has values for these
        body.args.kw_defaults = [None] * len(body.args.kwonlyargs)
        missing = []
        if entry["kind"] == "constexpr":
            check_pure(body, entry["names"])
        else:
            missing = check_kernel(body, entry["names"], MODULES)
        own = {a.arg for a in node.args.args}
        needed = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - own
        own_names = [name for name, v in sorted(entry["names"].items()) if name in needed and v[0] != "unknown"]
        lines = [f"{name} = {self.value(entry['names'][name], names)}" for name in own_names]
        # A name that was not judged is not looked up in the module, where something may have it.
        lines += [f"{name} = None" for name in missing]
        positions = len(node.args.args) - len(node.args.defaults)
        # Triton evaluates a default where the kernel stands: a number is one there too, another
        # value has a name.
        lines += [f"_default_{i} = {self.value(v, names)}" for i, v in enumerate(entry["defaults"]) if not is_plain(v)]
        plain = lambda i, v: ast.parse(self.value(v, names),
                                       mode="eval").body if is_plain(v) else ast.Name(f"_default_{i}")
        node.args.defaults = [plain(i, v) for i, v in enumerate(entry["defaults"])] if positions >= 0 else []
        node.args.kw_defaults = [ast.Name(f"_default_{a.arg}") if a.arg in entry["kwdefaults"] else None
                                 for a in node.args.kwonlyargs]
        lines += [f"_default_{a.arg} = {self.value(entry['kwdefaults'][a.arg], names)}"
                  for a in node.args.kwonlyargs if a.arg in entry["kwdefaults"]]
        node.decorator_list = [self.decorator(node, entry)]
        lines.append(ast.unparse(ast.fix_missing_locations(node)))
        found = "".join(f", {name}={name}" for name in own_names)
        made = f"_own({entry['name']}{found})" if found and entry["kind"] != "constexpr" else entry["name"]
        text = "\n".join(lines) + f"\nreturn {made}\n"
        if text not in self.functions:
            # Two underscores in front would be another name inside of the class.
            name = f"_{entry['name'].lstrip('_') or 'kernel'}_{len(self.functions)}"
            self.functions[text] = name
            self.out.append(f"\ndef _make{name}():\n{textwrap.indent(text, '    ')}\n\n{name} = _make{name}()\n")
        return self.functions[text]

    def decorator(self, node, entry):
        """triton.jit with what the text's own decorator says about specialisation."""
        if entry["kind"] == "constexpr":
            return ast.parse("_triton.constexpr_function", mode="eval").body
        keywords = [k for d in node.decorator_list if isinstance(d, ast.Call)
                    for k in d.keywords if k.arg in ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")
                    and is_literal(k.value)]
        call = ast.parse("_triton.jit", mode="eval").body
        return ast.Call(call, [], keywords) if keywords else call

    # ---- rows ----

    def launch(self, row):
        kernel = self.tape["kernels"][row["kernel"]]
        recipe = json.loads(kernel["source"])
        name = self.function(recipe, recipe["entry"])
        constants = {tuple(path): v for path, v in recipe["constants"]}
        given = iter(row["args"])
        names = lambda i: self.function(recipe, i)
        if not all(parameter.isidentifier() for parameter, _ in recipe["signature"]):
            raise Unsupported("a kernel's parameter has no name")

        def argument(kind, path):
            if not isinstance(kind, str):
                items = [argument(k, (*path, i)) for i, k in enumerate(kind[-1])]
                made = f"({''.join(f'{i}, ' for i in items)})"
                return made if kind[0] == "tuple" else f"_collections.namedtuple({kind[1]!r}, {kind[2]!r})(*{made})"
            if kind == "constexpr":
                return self.value(constants[path], names)
            return self.runtime(kind, next(given))

        # Everything by its name, and of the options those that are not Triton's own values.
        args = [f"{parameter}={argument(kind, (i,))}" for i, (parameter, kind) in enumerate(recipe["signature"])]
        options = [f"{k}={literal(v)}" for k, v in sorted(recipe["options"].items())
                   if k in COMPILER_OPTIONS and k in DEFAULTS and v != DEFAULTS[k]]
        if "ptx_options" in kernel:
            options.append(f"ptx_options={kernel['ptx_options']!r}")
        return f"{name}[{tuple(row['grid'])!r}]({', '.join(args + options)})"

    def runtime(self, kind, arg):
        if "descriptor" in arg:
            d = arg["descriptor"]
            v = d["view"]
            return (f"TensorDescriptor({self.view(v)}, {v['shape']!r}, {v['stride']!r}, {d['block']!r}, "
                    f"padding={d['padding']!r})")
        if "buffer" in arg:
            dtype = DTYPES[kind.lstrip("*").removeprefix("k")]
            return f"_view(b{arg['buffer']}, {arg['offset']}, torch.{dtype}, (1,), (1,))"
        if "value" in arg:
            return value_name(arg["value"])
        if "float" in arg:
            return literal(float(arg["float"]))
        if kind == "u64":
            return repr(arg["int"] % (1 << 64))
        return repr(bool(arg["int"])) if kind in ("i1", "u1") else repr(arg["int"])

    def view(self, v):
        return (f"_view(b{v['buffer']}, {v['offset']}, torch.{v['dtype']}, {tuple(v['shape'])!r}, "
                f"{tuple(v['stride'])!r})")

    def row(self, row):
        stream = row.get("stream", 0)
        if row["op"] == "record":
            return f"e{row['event']} = s{stream}.record_event()"
        if row["op"] == "wait":
            return f"s{stream}.wait_event(e{row['event']})"
        if row["op"] == "library":
            raise Unsupported(f"torch's {row['name']} is no movement: there is nothing to emit it as")
        if row["op"] == "fill":
            value = row["value"]
            text = f"{self.view(row['dst'])}.fill_({literal(float(value) if isinstance(value, str) else value)})"
        elif row["op"] == "copy":
            text = f"{self.view(row['dst'])}.copy_({self.view(row['src'])})"
        else:
            text = self.launch(row)
        return f"with torch.cuda.stream(s{stream}): {text}" if stream else text

    def written(self, row):
        """The buffers that a row may write to."""
        if row["op"] != "launch":
            return [row["dst"]["buffer"]] if "dst" in row else []
        indices = written_arguments(self.tape["kernels"][row["kernel"]]["ttir"])
        if indices is None or any("descriptor" in arg for arg in row["args"]):
            return buffers_of(row)
        return [arg["buffer"] for i, arg in enumerate(row["args"]) if i in indices and "buffer" in arg]

    def values(self):
        """The lines that read parameters for launches, each element once, and the rows that stand
        for these reads at the tape's end."""
        found = {value_name(arg["value"]): arg["value"] for row in self.tape["rows"] for arg in row.get("args", ())
                 if row["op"] == "launch" and "value" in arg}
        lines = [f"{name} = _view(b{v['buffer']}, {v['offset']}, torch.{v['dtype']}, (1,), (1,)).item()"
                 for name, v in found.items()]
        return lines, self.tape["rows"][len(self.tape["rows"]) - len(lines):]

    def streams(self):
        """The tape's streams, and the temporaries of this call that more than the current one uses:
        their memory may not go to others too early."""
        rows = self.tape["rows"]
        used = sorted({row.get("stream", 0) for row in rows})
        if used == [0] or not used:
            return [], []
        made = [f"s{n} = torch.cuda.current_stream()" if n == 0 else f"s{n} = torch.cuda.Stream()"
                for n in sorted({0, *used})]
        kept = sorted({(b, row["stream"]) for row in rows if row.get("stream")
                       for b in buffers_of(row) if self.tape["buffers"][b]["kind"] == "temp"})
        return made, [f"b{b}.record_stream(s{n})" for b, n in kept]

    # ---- the module ----

    def buffers(self, number):
        """(lines of the constructor, lines at the start of forward) of entry `number`."""
        made, used = [], []
        written = {b for row in self.tape["rows"] for b in self.written(row)}
        for i, b in enumerate(self.tape["buffers"]):
            size = b["bytes"]
            # What forward is called with, and the parameters, are there already; a parameter is
            # found again in each call, as training may have replaced it.
            if b["kind"] == "input":
                used.append(f"b{i} = _flat(tensors[{b['input']}], {size})")
            elif b["kind"] == "param":
                made.append(f"_put(self, {b['name']!r}, given[{b['name']!r}])")
                used.append(f"b{i} = _flat(_get(self, {b['name']!r}), {size})")
            # A constant that nobody writes to is made once.
            elif b["kind"] == "const":
                data = f"torch.frombuffer(bytearray(_base64.b64decode({b['data']!r})), dtype=torch.uint8)"
                if "name" in b:
                    made.append(f"_put(self, {b['name']!r}, {data})")
                    used.append(f"b{i} = _flat(_get(self, {b['name']!r}), {size})")
                elif i in written:      # made in each call, as the next one is to find it as it was
                    used.append(f"b{i} = {data}.to('cuda')")
                else:
                    made.append(f"self._const_{number}_{i} = {data}.to('cuda')")
                    used.append(f"b{i} = self._const_{number}_{i}")
            else:
                # All else is memory that the kernels write before they read it.
                dtype = self.dtype_of(i, size)
                used.append(f"b{i} = torch.empty({size // SIZES.get(dtype, 1)}, dtype=torch.{dtype}, device='cuda')")
        return made, used

    def dtype_of(self, buffer, size):
        fits = lambda dtype: size % SIZES.get(dtype, 1) == 0
        for row in self.tape["rows"]:
            for v in (row.get("dst"), row.get("src")):
                if v and v["buffer"] == buffer and fits(v["dtype"]):
                    return v["dtype"]
            if row["op"] != "launch":
                continue
            kinds = [k for k in flat_kinds(json.loads(self.tape["kernels"][row["kernel"]]["source"])["signature"])
                     if k != "constexpr"]
            for kind, arg in zip(kinds, row["args"]):
                view = arg.get("descriptor", {}).get("view")
                if view and view["buffer"] == buffer and fits(view["dtype"]):
                    return view["dtype"]
                if arg.get("buffer") == buffer and fits(DTYPES[kind.lstrip("*").removeprefix("k")]):
                    return DTYPES[kind.lstrip("*").removeprefix("k")]
        return "uint8"

    def draws(self, job):
        """By row: a copy out of what the reference draws is the candidate's own draw, the n-th of
        both."""
        made, tensors = {}, leaves([job["inputs"], list(job.get("input_kwargs", {}).values())], [])
        for row in self.tape["rows"]:
            source = self.tape["buffers"][row["src"]["buffer"]] if row["op"] == "copy" else {}
            number = source.get("input", -1) - len(tensors) if source.get("kind") == "input" else -1
            if number >= 0:
                made[id(row)] = (
                    f"b{row['dst']['buffer']} = _flat({draw(job['draws'][number])}, "
                    f"{self.tape['buffers'][row['dst']['buffer']]['bytes']})")
        return made

    def entry(self, number, job):
        """(what the table says of one tape, lines of the constructor, the method that is its
        forward)."""
        drawn = self.draws(job)
        # What stands for reads of parameters happens again where these are read.
        values, reads = self.values()
        rows = [drawn[id(row)] if id(row) in drawn else self.row(row) for row in self.tape["rows"]
                if not any(row is r for r in reads)]
        made, used = self.buffers(number)
        nobodys = {f"b{b}" for row in reads for b in buffers_of(row)}
        used = [line for line in used if line.split(" = ")[0] not in nobodys] + values
        streams, kept = self.streams()
        tensors = leaves([job["inputs"], list(job.get("input_kwargs", {}).values())], [])
        forms = {k: form_of(v) for k, v in job.get("input_kwargs", {}).items()}
        about = {"arguments": str((arguments_of(job["init_args"]),
                                   {k: arguments_of(v) for k, v in job.get("init_kwargs", {}).items()})),
                 "inputs": ("tuple", [form_of(v) for v in job["inputs"]]), "names": ("dict", forms),
                 "training": bool(job["training"])}
        made_by_draws = {text.split(" = ")[0] for text in drawn.values()}
        used = [line for line in used if line.split(" = ")[0] not in made_by_draws and not is_draw(line, len(tensors))]
        outputs = [self.view(v) for v in self.tape["outputs"]]
        result = outputs[0] if not self.tape["tuple"] else "(" + "".join(o + ", " for o in outputs) + ")"
        if "form" in self.tape:
            if len(self.tape["form"]) > TEXT_MAX:
                raise Unsupported("what forward returns beside its tensors is too long")
            result = formed(ast.parse(self.tape["form"], mode="eval").body, iter(outputs))
        method = ([f"    def _forward_{number}(self, tensors):"]
                  + [f"        {line}" for line in used + streams + rows + kept])
        return about, made, method + [f"        return {result}", ""]

    def module(self):
        about, made, methods = [], [], []
        for number, one in enumerate(self.job["tapes"]):
            self.tape = json.loads(one["tape"])
            what, lines, method = self.entry(number, one["job"])
            about.append(what)
            made.append(lines)
            methods += method
            if any(row.get("allocator") for row in self.tape["rows"]) and ALLOCATOR not in self.out:
                self.out.append(ALLOCATOR)
        has_params = [any(line.startswith("_put") and "given[" in line for line in lines) for lines in made]
        task = self.job["task"] if any(has_params) else ""
        body = ["\n# What each entry was judged for.", "_TABLE = [", *(f"    {what!r}," for what in about), "]",
                f"_TASK = {task!r}\n\n", CLASS]
        if any(has_params):
            body.append(PARAMETERS)
        for number, lines in enumerate(made):
            body += [f"        if {number} in self._entries:"] * bool(lines) + [f"            {line}" for line in lines]
        body.append(FORWARD)
        return "\n".join(self.out + body + methods).rstrip("\n") + "\n"


def is_draw(line, tensors):
    """Whether a line of `buffers` takes an input that no caller gives."""
    found = re.search(r"= _flat\(tensors\[(\d+)\]", line)
    return found is not None and int(found.group(1)) >= tensors


def draw(t):
    """The reference's random draw, as it makes it: the n-th that a candidate makes is the n-th of
    the reference."""
    if t.get("drawn") not in ("randn", "rand"):
        raise Unsupported("the task's forward draws random numbers of another distribution than randn and rand")
    return f"torch.{t['drawn']}({tuple(t['shape'])!r}, dtype=torch.{t['dtype']}, device='cuda')"


def value_name(v):
    return f"v{v['buffer']}_{v['offset']}"


def buffers_of(row):
    """The buffers that a row touches."""
    if row["op"] == "launch":
        return [arg["descriptor"]["view"]["buffer"] if "descriptor" in arg else arg["buffer"]
                for arg in row["args"] if "descriptor" in arg or "buffer" in arg]
    return [row[side]["buffer"] for side in ("dst", "src") if side in row]


def is_literal(node):
    try:
        ast.literal_eval(node)
        return True
    except ValueError:
        return False


def flat_kinds(signature):
    def flat(kind):
        return [kind] if isinstance(kind, str) else [x for k in kind[-1] for x in flat(k)]
    return [x for _, kind in signature for x in flat(kind)]


def formed(node, outputs):
    """A form (output_form.py) with forward's outputs in place of its tensors. Its text is a
    candidate's: collections and constants, and nothing else of it gets into the module."""
    if isinstance(node, ast.Tuple):
        return "(" + "".join(formed(n, outputs) + ", " for n in node.elts) + ")"
    if isinstance(node, ast.Dict):
        pairs = [f"{formed(k, outputs)}: {formed(v, outputs)}" for k, v in zip(node.keys, node.values)]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(node, ast.Name) and node.id == "t":
        return next(outputs)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return repr(-node.operand.value)
    if not isinstance(node, ast.Constant):
        raise ValueError("forward's outputs are put together in a way that has no text")
    return repr(node.value)


def leaves(value, tensors):
    """The tensors of the job's inputs, in the order in which forward flattens them."""
    if isinstance(value, list):
        for v in value:
            leaves(v, tensors)
    elif isinstance(value, dict) and "tensor" in value:
        tensors.append(value["tensor"])
    elif isinstance(value, dict) and "tuple" in value:
        leaves(value["tuple"], tensors)
    elif isinstance(value, dict) and "dict" in value:
        leaves(list(value["dict"].values()), tensors)
    return tensors


def form_of(value):
    """The job's description of an input as _fits of HEAD compares it."""
    if isinstance(value, list):
        return "list", [form_of(v) for v in value]
    if not isinstance(value, dict):
        return type(value).__name__, str(value)
    if "tensor" in value:
        t = value["tensor"]
        return "tensor", tuple(t["shape"]), tuple(t["stride"]), f"torch.{t['dtype']}"
    if "tuple" in value:
        return "tuple", [form_of(v) for v in value["tuple"]]
    if "dict" in value:
        return "dict", {k: form_of(v) for k, v in value["dict"].items()}
    if "float" in value:
        return "float", str(float(value["float"]))
    return "dtype", f"torch.{value['dtype']}"


class Name:
    def __init__(self, text): self.text = text
    def __repr__(self): return self.text


def arguments_of(value):
    """Constructor arguments as Python prints them."""
    if isinstance(value, list):
        return [arguments_of(v) for v in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(arguments_of(v) for v in value["tuple"])
        if "dict" in value:
            return {k: arguments_of(v) for k, v in value["dict"].items()}
        if "float" in value:
            return float(value["float"])
        return Name(f"torch.{value['dtype']}")
    return value


def emit(job):
    """{"module": text} or {"fault": why}."""
    try:
        return {"module": Emitter(job).module()}
    except Exception as error:
        return {"fault": f"{'' if isinstance(error, Unsupported) else type(error).__name__ + ': '}{error}"[:600]}
