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
    import torch
    import triton
except ImportError as error:
    sys.exit(f"hone vm: {sys.executable} has no torch or triton: {error}; name another Python in HONE_PYTHON")

import vm_driver
import vm_blas
import vm_cost


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
        return print_error(error, argv[0])
    return 0


def print_error(error, script):
    """As Python does, from the script's frame on."""
    import traceback
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)
    return 1


def main():
    if not triton.__version__.startswith("3.6."):
        print(f"hone vm: note: this Python has Triton {triton.__version__}; the vm reads the IR of Triton 3.6",
              file=sys.stderr)
    device = "cuda:0" if settings["cuda_shim"] else "cpu"
    vm_driver.install(settings["library"], settings["threads"], settings["check"], settings["cost"], device,
                      settings["configs"], settings["fma_contract"])
    vm_blas.install()
    if settings["cuda_shim"]:
        import vm_shim
        vm_shim.install()
    status = run_script(sys.argv[2:])
    sys.stdout.flush()
    if settings["cost"]:
        print(vm_cost.as_json()) if settings["json"] else vm_cost.print_table(sys.stdout)
    if vm_driver.check_faults and not status:
        print(f"hone vm: {vm_driver.check_faults} launches did what they must not; the script went on", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.exit(status)


if __name__ == "__main__":
    main()
