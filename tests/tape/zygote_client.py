"""A supervisor in a few lines, for tests: starts a zygote, hands it jobs, and describes a
KernelBench task as the tracer's job."""
import ctypes
import glob
import importlib.util
import os
import socket
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
LIBRARY = os.path.join(BUILD, "libhone_sandbox.so")
sys.path.insert(0, os.path.join(ROOT, "worker"))
sys.dont_write_bytecode = True
import wire

def best_level():
    """The strongest sandbox level of this machine."""
    text = ctypes.create_string_buffer(512)
    return ["none", "lsm", "full"][ctypes.CDLL(LIBRARY).sandbox_level_probe(text, ctypes.c_size_t(512))]


LEVEL = best_level()
KNOWN_GOOD = sorted(os.path.join(os.path.dirname(p), "")
                    for p in glob.glob(os.path.join(ROOT, "tests/known_good/*/candidate.py")))


class Zygote:
    def __init__(self, kind, *more):
        self.control, theirs = socket.socketpair()
        # The child gets its end as descriptor 3, whatever number it has here.
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec 3<&{theirs.fileno()} {theirs.fileno()}<&-; exec \"$@\""
             if theirs.fileno() != 3 else "exec \"$@\"", "zygote", os.path.join(ROOT, "build/venv/bin/python"),
             "-I", os.path.join(ROOT, "worker/zygote.py"), kind, LIBRARY, *more],
            pass_fds=(theirs.fileno(),), cwd="/", env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.DEVNULL)
        theirs.close()
        self.control.settimeout(120)
        self.hello = wire.recv(self.control)[0]
        self.process_fds = (len(os.listdir(f"/proc/{self.process.pid}/fd"))
                            if os.access(f"/proc/{self.process.pid}/fd", os.R_OK) else None)

    def start(self, job, level=LEVEL, memory_bytes=4 << 30, cpu_s=60):
        """(data socket, status socket) of a job."""
        data, data_theirs = socket.socketpair()
        status, status_theirs = socket.socketpair()
        request = {"id": 1, "sandbox": level, "limits": {"memory_bytes": memory_bytes, "cpu_s": cpu_s}, "job": job}
        wire.send(self.control, request, [data_theirs.fileno(), status_theirs.fileno()])
        data_theirs.close()
        status_theirs.close()
        data.settimeout(120)
        status.settimeout(120)
        return data, status

    def run(self, job, **options):
        """(messages of the job, messages of the keeper)."""
        data, status = self.start(job, **options)
        data.shutdown(socket.SHUT_WR)   # nothing more is asked of the job
        with data, status:
            return drain(data), drain(status)

    def result(self, job, **options):
        """The job's last message, with "status" beside it."""
        messages, status = self.run(job, **options)
        out = dict(messages[-1]) if messages else {}
        out["status"] = status[-1]
        return out

    def close(self):
        self.control.close()
        return self.process.wait(timeout=60)


def drain(sock):
    out = []
    while True:
        try:
            out.append(wire.recv(sock)[0])
        except (EOFError, ConnectionResetError):
            return out


def describe(value):
    """A forward argument as the tracer's job has it."""
    import torch
    if isinstance(value, torch.Tensor):
        return {"tensor": {"dtype": str(value.dtype).split(".")[1], "shape": list(value.shape),
                           "stride": list(value.stride()), "requires_grad": False}}
    if isinstance(value, tuple):
        return {"tuple": [describe(v) for v in value]}
    if isinstance(value, list):
        return [describe(v) for v in value]
    if isinstance(value, dict):
        return {"dict": {k: describe(v) for k, v in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).split(".")[1]}
    return value


def task_job(task_path, source):
    """The job that traces `source` as an answer to a task."""
    spec = importlib.util.spec_from_file_location("task_under_test", task_path)
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    init_args = task.get_init_inputs()
    model = task.Model(*init_args)
    state = {name: {"dtype": str(t.dtype).split(".")[1], "shape": list(t.shape)}
             for name, t in [*model.named_parameters(), *model.named_buffers()]}
    return {"source": source, "class": "ModelNew", "init_args": [describe(a) for a in init_args], "init_seed": 7,
            "state": state, "inputs": [describe(a) for a in task.get_inputs()], "training": False}


class Tap:
    """TAP on stdout. Each check is one line; done() prints the plan and returns the exit status."""

    def __init__(self):
        self.count = self.failed = 0

    def check(self, ok, name, detail=""):
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}", flush=True)
        if not ok and detail:
            print("\n".join("# " + line for line in str(detail)[:1500].splitlines()), flush=True)

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def done(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0
