"""compile: Triton IR to machine code for the card of the job, without a GPU
(docs/worker-protocol.md, "compile").

The job's process runs Triton's own stages (TTGIR, LLVM IR, PTX) and then ptxas: the only program
that any worker may start. The IR is the candidate's, so the process is sandboxed like a tracer's;
beyond that it has one scratch folder, made for it and removed with it.
"""
import os
import re
import signal

from triton import knobs
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend
from triton._C.libtriton import ir

import emit
import rebuild
import wire
from scratch import Scratch
from ttir_compile import context_of

PTXAS = knobs.nvidia.ptxas.path
TEXT_MAX = 4096
NAME_MAX = 256                 # of a kernel, in the answer
STAGE_TEXT_MAX = 4 << 20       # of one stage: longer ones are left out
INT_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
BOOL_OPTIONS = ("enable_fp_fusion", "enable_reflect_ftz", "launch_cooperative_grid", "launch_pdl")
# What a candidate may tell ptxas (the option "ptx_options"): words that choose among correct codes.
# None names a file or another card.
PTX_WORDS = re.compile(
    r"-O[0-3]|--opt-level=[0-3]|-w|--disable-warnings|--warn-on-spills|--fmad=(true|false)|--maxrregcount=\d{1,3}"
    r"|(-dlcm|--def-load-cache)=(ca|cg|cs|lu|cv)|(-dscm|--def-store-cache)=(wb|cg|cs|wt)"
    r"|--allow-expensive-optimizations=(true|false)|--disable-optimizer-constants|--uumn|--preserve-relocs")
SANDBOX = {
    "allow_fork": 1, "allow_memfd": 1,
    "exec_paths": [PTXAS, os.path.realpath("/lib64/ld-linux-x86-64.so.2")],
}


class CompileFault(Exception):
    def __init__(self, code, text, required=0):
        super().__init__(text)
        self.code, self.required = code, required


def read_paths():
    """Shared libraries, for ptxas; it reads its own program file too."""
    return ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib",
            os.path.dirname(PTXAS)]


# ---- a folder for each job, whose end removes it ----

scratch = Scratch("hone-compile-")
start, stop = scratch.make, scratch.remove       # start: in the zygote, after it dropped root
before_job, begin, after_job = scratch.before_job, scratch.begin, scratch.after_job


# ---- the job ----

def run(job, sock):
    log = os.path.join(scratch.folder, "log")
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 2)                      # MLIR's diagnostics go to stderr
    fds = ()
    if job.get("emit"):
        wire.send(sock, emit.emit(job))
        return
    if "recipes" in job:
        serve_recipes(job, sock)
        return
    try:
        result, cubin = compile_ttir(job, scratch.folder)
        if job.get("want_cubin"):
            fds = (memory_file(cubin),)
    except CompileFault as fault:
        result = {"fault": {"code": fault.code, "text": wire.words(str(fault)[:TEXT_MAX])}}
    except Exception as error:
        text = f"{type(error).__name__}: {error}\n{tail(log)}".replace(scratch.folder + os.sep, "")
        result = {"fault": {"code": "compile-error", "text": wire.words(text[:TEXT_MAX])}}
    wire.send(sock, result, fds)


def serve_recipes(job, sock):
    """One candidate's kernels: those that its tracer asks for, and those of its tapes."""
    source, ask = rebuild.prepare(job["source"]), job
    while True:
        wire.send(sock, {"kernels": rebuild.rebuild_all(source, ask["recipes"], job["arch"], ask.get("want_ttir"))})
        try:
            ask, _ = wire.recv(sock)
        except EOFError:
            return


def options_of(job):
    out = {name: int(job[name]) for name in INT_OPTIONS if name in job}
    out.update({name: bool(job[name]) for name in BOOL_OPTIONS if name in job})
    return out


def ptx_words(job):
    words = job.get("ptx_options", "").split()
    for word in words:
        if not PTX_WORDS.fullmatch(word):
            raise CompileFault(
                "compile-error",
                f"ptx_options: {word!r} is not among the words that ptxas may be given here (docs/worker-protocol.md)")
    return words


def argument_types(module):
    """Types of the IR function's arguments, as the IR writes them: the launcher packs parameters by
    them."""
    return [str(t) for t in module.get_function_signature(module.get_function(module.get_entry_func_name()))]


def tensor_maps(metadata):
    """How the driver has to encode each host descriptor; empty where the kernel takes base, sizes
    and strides."""
    return [{"swizzle": int(m["swizzle"]), "elem_size": int(m["elem_size"]), "elem_type": int(m["elem_type"]),
             "block_size": [int(n) for n in m["block_size"]], "fp4_padded": bool(m["fp4_padded"])}
            for m in metadata.get("tensordesc_meta") or []]


def compile_ttir(job, folder):
    """(result without cubin, cubin)."""
    target = GPUTarget("cuda", int(job["arch"]), 32)
    backend = make_backend(target)
    options = backend.parse_options(options_of(job))
    words = ptx_words(job)
    context = context_of(target)
    # The text is hostile: only MLIR's own parser reads it.
    path = os.path.join(folder, "kernel.ttir")
    with open(path, "w") as f:
        f.write(job["ttir"])
    module = ir.parse_mlir_module(path, context)
    module.context = context
    types = argument_types(module)
    # Triton's stages after the front end, one by one, as far as PTX. Their texts are kept for who
    # asked for them.
    stages, metadata, texts = {}, {}, {}
    backend.add_stages(stages, options, Language.TRITON)
    for name in ("ttgir", "llir", "ptx"):
        module = stages[name](module, metadata)
        if job.get(f"want_{name}") and len(text := str(module)) <= STAGE_TEXT_MAX:
            texts[name] = text
    # Triton refuses this at the launch; here it is the answer, with what the kernel wants.
    shared, most = metadata.get("shared") or 0, int(job["shared_bytes"])
    if shared > most:
        raise CompileFault("out-of-resources",
                           f"out of resource: shared memory, required {shared}, hardware limit {most}. "
                           "Reducing block sizes or num_stages may help.", shared)
    # The assembler says what the kernel takes of an SM, in its log.
    more = ([] if options.enable_fp_fusion else ["--fmad=false"]) + words
    cubin, log = assemble(module, target.arch, folder, more)
    if "run_arch" in job:   # figures are the card's, the binary is for the device that stands for it
        cubin, _ = assemble(module, int(job["run_arch"]), folder, more)
    # What the verifier is told; machine code travels beside it.
    result = {
        "name": metadata["name"][:NAME_MAX], "cubin_bytes": len(cubin),
        "registers": found(log, r"Used (\d+) registers"),
        "spills": found(log, r"(\d+) bytes spill stores") + found(log, r"(\d+) bytes spill loads"),
        "stack_bytes": found(log, r"(\d+) bytes stack frame"), "shared_bytes": shared,
        "num_warps": metadata.get("num_warps", options.num_warps),
        "global_scratch_bytes": metadata.get("global_scratch_size") or 0,
        "global_scratch_align": metadata.get("global_scratch_align") or 1,
        "profile_scratch_bytes": metadata.get("profile_scratch_size") or 0,
        "args": types, "tensor_maps": tensor_maps(metadata),
    }
    result.update(texts)
    result["joined"] = joined(module)
    return result, cubin


def joined(ptx):
    """[[line, column, bytes]]: the most that one access to global memory reads or writes at once at
    each place of the candidate."""
    files = {m[1] for m in re.finditer(r'^\s*\.file\s+(\d+)\s+.*"(?:[^"]*/)?candidate\.py"', ptx, re.M)}
    at, most = None, {}
    for line in ptx.splitlines():
        if m := LOC.match(line):
            at = (int(m[2]), int(m[3])) if m[1] in files else None
        elif at and (m := ACCESS.search(line)):
            count = int(m[5], 0) if m[5] else int(m[1] or 1) * int(m[2]) // 8
            most[at] = max(most.get(at, 0), count)
        elif at and (m := ATOMIC.search(line)):
            most[at] = max(most.get(at, 0), int(m[1] or 1) * int(m[2]) * int(m[3] or 1) // 8)
    return [[*place, count] for place, count in sorted(most.items())][:JOINED_MAX]


LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
ACCESS = re.compile(
    r"\b(?:ld|st)\.global(?:\.[a-zA-Z]\w*(?:::\w+)*)*?(?:\.v(\d))?\.[busf](\d+)\b|\b(cp\.async\.(ca|"
    r"cg)\.shared\.global).*?, (0x[0-9a-f]+|\d+)")
ATOMIC = re.compile(r"\b(?:atom|red)\.global(?:\.[a-zA-Z]\w*)*?(?:\.v(\d))?\.(?:[busf]|bf)(\d+)(?:x(2))?\b")
JOINED_MAX = 4096


def assemble(ptx, arch, folder, more):
    """ptxas with Triton's own flags, and the kernel's. (cubin, its log)."""
    source, binary, log = (os.path.join(folder, name) for name in ("kernel.ptx", "kernel.cubin", "ptxas.log"))
    with open(source, "w") as f:
        f.write(ptx)
    argv = [PTXAS, "-lineinfo", "-v", *more, f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}", source, "-o", binary]
    actions = [(os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawn(PTXAS, argv, {"TMPDIR": folder}, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    text = tail(log, 1 << 16)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        raise CompileFault("timeout-compile", "ptxas used up the candidate's time")
    if status != 0:
        raise CompileFault("ptxas-error",
                           f"ptxas ended with {status_text(status)}: {text.replace(folder + os.sep, '')}")
    with open(binary, "rb") as f:
        return f.read(), text


def status_text(status):
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def found(log, pattern):
    return sum(int(n) for n in re.findall(pattern, log))


def tail(path, count=TEXT_MAX):
    try:
        with open(path, "rb") as f:
            return f.read()[-count:].decode(errors="replace")
    except OSError:
        return ""


def memory_file(data):
    fd = os.memfd_create("cubin", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


WARM_TTIR = """module {
  tt.func public @warm(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %q = tt.addptr %p, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %q : tensor<128x!tt.ptr<f32>>
    %e = math.exp %v : tensor<128xf32>
    tt.store %q, %e : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""


def warm(times=1):
    """One small compilation, and one small kernel made from its text: what forks need later is
    imported here."""
    rebuild.install()
    rebuild.warm(times)
    scratch.make(may_exist=False)   # before root is dropped: what a killed start left may be root's
    try:
        compile_ttir({"ttir": WARM_TTIR, "num_warps": 4, "arch": 90, "shared_bytes": 49152}, scratch.root)
    finally:
        scratch.remove()
