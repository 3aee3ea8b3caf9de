"""rows: other people's task files as hone's rows, one JSON object a line on stdout (docs/tasks.md,
"Other people's tasks").

    python -I rows.py parquet|tritonbench FILE LIBRARY     LIBRARY: libhone_sandbox.so

Everything is read into memory first; then the process is sandboxed; then the bytes, which are a
stranger's, are parsed. No source is executed. What is left out is said on stderr.
"""
import ast
import io
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "worker"))

import zygote

MEMORY_BYTES = 4 << 30
CPU_S = 120
SOURCE_BYTES_MAX = 1 << 20
RULE = "#" * 146        # between the operator and its test in TritonBench-T's files
COLUMNS = ("code", "level", "name", "problem_id")


class Refusal(Exception):
    """What a person is told instead of rows."""


def sandbox(library):
    """The level that needs no namespaces; where the kernel has no Landlock, resource limits
    alone."""
    guard = zygote.Sandbox(library)
    for level in (zygote.LEVELS["lsm"], zygote.LEVELS["none"]):
        options = zygote.SandboxOptions(level=level, read_paths=zygote.c_paths(zygote.default_read_paths()),
                                        memory_bytes=MEMORY_BYTES, cpu_s=CPU_S)
        try:
            return guard.call("sandbox_enter", zygote.ctypes.byref(options))
        except OSError as e:
            error = e
    raise Refusal(f"the reader cannot be sandboxed: {error}")


def put(row):
    sys.stdout.write(json.dumps(row) + "\n")


# ---- Parquet with the columns of KernelBench's dataset ----

def parquet_prepare(path):
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise Refusal(f"Parquet is read with pyarrow, which this Python does not have; run: {sys.executable} -m pip "
                      f"install --no-deps pyarrow")
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    with open(path, "rb") as f:
        return parquet, f.read()


def parquet_rows(parquet, data):
    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        missing = [c for c in COLUMNS[:3] if c not in file.schema_arrow.names]
        if missing:
            raise Refusal(f"no column {', '.join(missing)}; expected code, level, name and problem_id, found "
                          f"{', '.join(file.schema_arrow.names[:20])}")
        table = file.read(columns=[c for c in COLUMNS if c in file.schema_arrow.names], use_threads=False)
        for row in table.to_pylist():
            put(row)
    except Refusal:
        raise
    except Exception as e:
        raise Refusal(f"not a Parquet file that can be read: {type(e).__name__}: {str(e)[:300]}")


# ---- TritonBench-T ----
# A JSON array of rows, and beside it a folder of files with an operator and its test.

def tritonbench_prepare(path):
    with open(path, "rb") as f:
        data = f.read()
    folder, files = os.path.splitext(path)[0], {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        full = os.path.join(folder, name)
        if name.endswith(".py") and os.path.isfile(full) and os.path.getsize(full) <= SOURCE_BYTES_MAX:
            with open(full, "rb") as f:
                files[name] = f.read()
    if not files:
        raise Refusal(f"its operators are not there: expected a folder {folder} of .py files beside it")
    return files, data


class OnCpu(ast.NodeTransformer):
    """device="cuda" goes, other names of the device become "cpu", .cuda() becomes .cpu()."""

    def visit_Call(self, node):
        node.keywords = [k for k in node.keywords if k.arg != "device"]
        return self.generic_visit(node)

    def visit_Constant(self, node):
        return ast.Constant("cpu") if isinstance(node.value, str) and node.value.split(":")[0] == "cuda" else node

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        if node.attr == "cuda" and not (isinstance(node.value, ast.Name) and node.value.id == "torch"):
            node.attr = "cpu"
        return node


def called(statement, name):
    """The call of the operator whose value a statement of the test keeps, or None."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return value if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == name else None


def is_written_out(node):
    """A value that the call can name itself: a literal, torch.float32 and the like."""
    return not any(isinstance(n, (ast.Call, ast.Lambda)) or (isinstance(n, ast.Name) and n.id != "torch")
                   for n in ast.walk(node))


def parameter_names(function, call):
    """A forward argument's name for each argument of the call."""
    declared = [a.arg for a in function.args.posonlyargs + function.args.args]
    return ([declared[i] if i < len(declared) else f"argument_{i}" for i in range(len(call.args))]
            + [k.arg for k in call.keywords])


DEFINITIONS = (ast.ClassDef, ast.FunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)


def names_in(node, context):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def names_made(s):
    if isinstance(s, DEFINITIONS):
        return {s.name}
    if isinstance(s, IMPORTS):
        return {(a.asname or a.name).split(".")[0] for a in s.names}
    return names_in(s, ast.Store)


def makes_names(s):
    """A statement that later ones may need: not a result that is stored, nor what only checks or
    prints."""
    return (isinstance(s, DEFINITIONS + IMPORTS)
            or (isinstance(s, ast.Assign) and all(isinstance(t, (ast.Name, ast.Tuple)) for t in s.targets)))


def needed(statements, values):
    """Of a test's statements those that the values are made from."""
    wanted, kept = set().union(*(names_in(v, ast.Load) for v in values)), []
    for s in reversed(statements):
        if names_made(s) & wanted:
            wanted |= names_in(s, ast.Load)
            kept.insert(0, s)
    return kept


def task_source(operator, function, before, call):
    """One test case as a task: its call becomes Model.forward, the statements that make its tensors
    become get_inputs."""
    names, values = parameter_names(function, call), call.args + [k.value for k in call.keywords]
    passed = [(n, v) for n, v in zip(names, values) if not is_written_out(v)]
    if not passed:
        return None
    shown = [n if not is_written_out(v) else ast.unparse(v) for n, v in zip(names, values)]
    shown = shown[:len(call.args)] + [f"{k.arg}={s}" for k, s in zip(call.keywords, shown[len(call.args):])]
    statements = needed(before, [v for _, v in passed])
    body = "".join(f"    {line}\n" for s in statements for line in ast.unparse(s).split("\n"))
    arguments, returned = ", ".join(n for n, _ in passed), ", ".join(ast.unparse(v) for _, v in passed)
    return (f"{operator.strip()}\n\n\nclass Model(torch.nn.Module):\n    def forward(self, {arguments}):\n        "
            f"return {call.func.id}({', '.join(shown)})\n\n"
            f"def get_inputs():\n{body}    return [{returned}]\n\ndef get_init_inputs():\n    return []\n")


def cases(name, text):
    """(number, source) of each test case of a file that can be a task."""
    # A file is an operator, a rule, and one test function.
    parts = text.split(RULE)
    if len(parts) != 2:
        raise Refusal("no rule of 146 # between operator and test")
    operator, test = ast.parse(parts[0]), OnCpu().visit(ast.parse(parts[1]))
    functions = {n.name: n for n in operator.body if isinstance(n, ast.FunctionDef)}
    is_test = lambda n: isinstance(n, ast.FunctionDef) and n.name.startswith("test_")
    bodies = [n.body for n in test.body if is_test(n)]
    function = functions.get(name) or (list(functions.values()) or [None])[-1]
    if not function or len(bodies) != 1:
        raise Refusal("expected one operator and one test function")
    # What a task's source needs in front of the call: imports, and what the test makes.
    has_torch = any(a.name == "torch" and not a.asname for n in operator.body if isinstance(n, ast.Import)
                    for a in n.names)
    head, number, found = "" if has_torch else "import torch\n", 0, []
    known = {"torch"}.union(*(names_made(n) for n in operator.body if isinstance(n, IMPORTS)))
    before = [n for n in test.body if isinstance(n, DEFINITIONS + IMPORTS) and not is_test(n) and names_made(n) - known]
    # Statements in order: each plain call of the operator is a task, which all before it belongs
    # to.
    for statement in bodies[0]:
        call = called(statement, function.name)
        if call:
            number += 1
            plain = not any(isinstance(a, ast.Starred) for a in call.args) and all(k.arg for k in call.keywords)
            source = task_source(head + parts[0], function, before, call) if plain else None
            if source:
                found.append((number, source))
        elif makes_names(statement):
            before.append(statement)
    if not found:
        raise Refusal("no test case calls the operator plainly")
    return found


def tritonbench_rows(files, data):
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise Refusal(f"not JSON that can be read: {e}")
    if not isinstance(rows, list) or not all(isinstance(r, dict) and isinstance(r.get("file"), str) for r in rows):
        raise Refusal('expected an array of TritonBench-T rows, each with a "file"')
    left_out = 0
    for row in rows:
        stem = row["file"].removesuffix(".py")
        try:
            if row["file"] not in files:
                raise Refusal("its file is not in the folder")
            for number, source in cases(stem, files[row["file"]].decode()):
                put({"name": f"tritonbench_t/{stem}_case{number}", "source": source})
        except (Refusal, SyntaxError, ValueError, RecursionError) as e:
            left_out += 1
            print(f"left out: {row['file'][:100]!r}: {str(e)[:200]}", file=sys.stderr)
    print(f"{len(rows) - left_out} of {len(rows)} operators became tasks", file=sys.stderr)


KINDS = {"parquet": (parquet_prepare, parquet_rows), "tritonbench": (tritonbench_prepare, tritonbench_rows)}


def main():
    kind, path, library = sys.argv[1:]
    prepare, rows = KINDS[kind]
    try:
        prepared = prepare(path)
        sandbox(library)
        rows(*prepared)
        sys.stdout.flush()
    except Refusal as e:
        print(f"refused: {e}", file=sys.stderr)
        return 3
    except MemoryError:
        print(f"refused: it needs more than {MEMORY_BYTES >> 30} GiB of memory", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)    # pyarrow's end would start threads, which the sandbox forbids
