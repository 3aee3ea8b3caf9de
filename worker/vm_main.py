"""vm_main: `hone vm` in the user's Python. Runs a script as `python script.py` would, with its
Triton kernels on the vm.

    python vm_main.py SETTINGS script.py [args...]

SETTINGS is a JSON object (src/cli/cmd_vm.c writes it).

Exit status: the script's; 1 when a kernel did what it must not, even where the script caught the
exception.
"""
import json
import os
import sys

settings = json.loads(sys.argv[1])
os.environ.pop("TRITON_INTERPRET", None)
if settings["cuda_shim"]:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""    # a real device would take the calls that the shim answers
    os.environ["PATH"] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim_bin") + os.pathsep
                          + os.environ.get("PATH", ""))
sys.path[0] = os.path.dirname(os.path.abspath(__file__))
try:
    import torch    # asked for here, so that a Python without it is told in one line
    import triton
except ImportError as error:
    sys.exit(f"hone vm: {sys.executable} has no torch or triton: {error}; name another Python in HONE_PYTHON")

import tracer_cuda
import vm_driver
import vm_blas
import vm_cost


def is_utf8(path):
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def run_script(argv):
    """The script's exit status."""
    import runpy
    sys.argv[:] = argv
    sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except vm_driver.VmFault:
        return 1                   # the message is out already
    except vm_driver.VmError as error:
        print(f"hone vm: {error}", file=sys.stderr)
        return 1
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except Exception as error:
        print_error(error, argv[0])
        return 1
    return 0


def print_error(error, script):
    """As Python does, from the script's frame on; a kernel that does not compile like a compiler's
    message, without the hundred frames of Triton's front end."""
    import traceback
    if hasattr(error, "vm_text"):
        print(error.vm_text, file=sys.stderr)
        return
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    if not settings["cuda_shim"] and ("Found no NVIDIA driver" in str(error) or "not compiled with CUDA" in str(error)):
        print("hone vm: the script asks for a CUDA device; --cuda-shim answers in its place", file=sys.stderr)


def finish_output():
    """What the script printed, then the costs. The exit status: 1 where nobody can read them."""
    try:
        sys.stdout.flush()
        if settings["cost"]:
            print(vm_cost.as_json()) if settings["json"] else vm_cost.print_table(sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        # What stays in the buffer would be tried once more, and fail once more, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"hone vm: cannot write to stdout: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def main():
    if not is_utf8(sys.argv[2]):
        sys.exit(f"hone vm: {ascii(sys.argv[2])}: the path is not UTF-8, and Triton cannot name such a file; rename it")
    if not triton.__version__.startswith("3.6."):
        print(f"hone vm: note: this Python has Triton {triton.__version__}; the vm reads the IR of Triton 3.6",
              file=sys.stderr)
    tracer_cuda.set_card(settings["gpu"])
    os.environ["HONE_VM_CARD"] = tracer_cuda.as_nvidia_smi_says()
    device = "cuda:0" if settings["cuda_shim"] else "cpu"
    vm_driver.install(settings["library"], settings["threads"], settings["check"], settings["cost"], device,
                      settings["configs"], settings["fma_contract"])
    vm_blas.install()
    if settings["cuda_shim"]:
        import vm_shim
        vm_shim.install()
    status = run_script(sys.argv[2:])
    status = finish_output() or status
    if vm_driver.check_faults and not status:
        print(f"hone vm: {vm_driver.check_faults} launches did what they must not; the script went on", file=sys.stderr)
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
