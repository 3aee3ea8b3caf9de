"""A Python for hone (HONE_PYTHON) whose zygotes are warm before they are asked for.

    build/venv/bin/python tests/warm_python.py [--timer] COMMAND...      runs the command with it

Whoever judges starts two zygotes (worker/zygote.py), three on a GPU; they import torch and warm up,
which takes five to six seconds of a processor each. A test that starts them twenty times, and asks
nothing of how they start, can have that once: a process of each kind does what a zygote does until
it would be ready, and forks for each that hone asks for one that goes on from there, over hone's
own control socket. What hone starts in place of Python (CLIENT) asks that process, and lives for as
long as the zygote that it stands for. Whatever else hone starts Python for runs as without it:
another kind, another zygote.py or library.

With start(has_vm=True) `hone vm` finds its Python with torch imported in the same way: a script's
process is forked from there, and gets its arguments, folder, environment and standard streams.

What the zygotes of a test share so is what Python draws when it starts: the seed of the hashes of
texts, and places in memory; and those of many jobs are as warm as others, so slower than a user's.
A test of that, or of a start, has real ones."""
import atexit
import ctypes
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

PR_SET_PDEATHSIG = 1
CONTROL_FD = 3
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",   # as src/verify/worker.c has it
               "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
CLIENT = """#!{python} -IS
import os, socket, sys
arguments = sys.argv[1:]
if (arguments[:2] == ["-I", {zygote!r}] and arguments[2] in {kinds!r} and
        arguments[4:] in ([], ["many"]) and os.path.realpath(arguments[3]) == {library!r}):
    warm = socket.socket(socket.AF_UNIX)
    try:
        warm.connect(os.path.join({folder!r}, arguments[2]))
        socket.send_fds(warm, [" ".join(arguments[4:]).encode() or b"few"], [3, 2])
        os.close(3)      # the zygote's alone: its end is the end of the stream
        warm.recv(1)     # until then
        sys.exit(0)
    except ConnectionError:
        pass             # nobody there: as without it
if arguments[:1] == [{vm!r}] and "vm" in {kinds!r}:
    import json
    warm = socket.socket(socket.AF_UNIX)
    try:
        warm.connect(os.path.join({folder!r}, "vm"))
        socket.send_fds(warm, [b"start"], [0, 1, 2])
        warm.sendall(json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode())
        warm.shutdown(socket.SHUT_WR)
        status = warm.recv(16)
        os._exit(int(status)) if status else os._exit(1)
    except ConnectionError:
        pass
os.execv({python!r}, [{python!r}, *arguments])
"""


def start(has_timer=False, has_vm=False):
    """The warm processes, until this one ends; HONE_PYTHON is set for what it starts."""
    folder = tempfile.mkdtemp(prefix="hone-warm-")
    library = os.path.realpath(os.path.join(os.environ.get("BUILD", "build/release"), "libhone_sandbox.so"))
    kinds = ["vm"] if has_vm else ["tracer", "oracle", "timer"][:2 + has_timer]
    # A process of each kind, which listens in the folder under the kind's name.
    processes = []
    for kind in kinds:
        with socket.socket(socket.AF_UNIX) as listener:   # who connects before anything is warm waits
            listener.bind(os.path.join(folder, kind))
            listener.listen(64)
            command = [sys.executable, "-I", os.path.abspath(__file__), "--serve", kind, library, listener.fileno()]
            processes.append(subprocess.Popen([str(c) for c in command], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()]))
    # What hone starts in place of Python.
    text = CLIENT.format(python=sys.executable, zygote=os.path.abspath("worker/zygote.py"),
                         vm=os.path.abspath("worker/vm_main.py"), kinds=kinds, library=library, folder=folder)
    os.environ["HONE_PYTHON"] = os.path.join(folder, "python")
    os.environ["WARM_WORKERS"] = "1"   # for programs that run themselves again with it
    with open(os.environ["HONE_PYTHON"], "w") as f:
        f.write(text)
    os.chmod(os.environ["HONE_PYTHON"], 0o755)

    def end():
        for p in processes:
            p.kill()
            p.wait()
        shutil.rmtree(folder, ignore_errors=True)
    atexit.register(end)
    return processes


def become(zygote, connection, listener, fds):
    """In the child: the zygote from where it would be ready; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        held = os.dup(connection.fileno())   # open for as long as this process lives
        connection.close()
        while held == CONTROL_FD or held in fds:
            held = os.dup(held)
        os.dup2(fds[1], 2)
        if fds[0] != CONTROL_FD:
            os.dup2(fds[0], CONTROL_FD)
            os.close(fds[0])
        if fds[1] != CONTROL_FD:
            os.close(fds[1])
        os.chdir("/")
        zygote.main()
    finally:
        os._exit(1)


def become_script(connection, listener, fds):
    """In the child: what `hone vm` started Python for; ends as that ends."""
    for theirs, ours in zip(fds, (0, 1, 2)):
        os.dup2(theirs, ours)
        os.close(theirs)
    listener.close()
    text = b""
    while more := connection.recv(1 << 16):
        text += more
    connection.close()
    sys.argv, folder, environment = json.loads(text)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit(0)


def zygote_warm(kind, library):
    """What the constructor of a zygote does, once for all."""
    sys.path.insert(0, os.path.join(ROOT, "worker"))
    sys.argv = [os.path.join(ROOT, "worker/zygote.py"), kind, library]
    import zygote
    sandbox = zygote.Sandbox(library, kind == "timer")
    module = __import__(kind)
    module.warm(1)
    zygote.Sandbox = lambda *arguments: sandbox
    module.warm = lambda times: None
    return zygote


def serve(kind, library, fd):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    listener, asked = socket.socket(fileno=int(fd)), {}
    if kind == "vm":
        import torch    # noqa: F401  what its scripts begin with
        import triton   # noqa: F401
    zygote = zygote_warm(kind, library) if kind != "vm" else None
    # Forks for whoever asks, and reaps; who waits for a script is told its status.
    while True:
        if select.select([listener], [], [], 0.05)[0]:
            connection, _ = listener.accept()
            told, fds, _, _ = socket.recv_fds(connection, 16, 3)
            pid = os.fork() if fds else None
            if pid == 0 and zygote:
                sys.argv += [told.decode()] if told == b"many" else []
                become(zygote, connection, listener, fds)
            if pid == 0:
                return become_script(connection, listener, fds)
            for fd in fds:
                os.close(fd)
            if kind == "vm" and fds:
                asked[pid] = connection   # who waits for its status
            else:
                connection.close()
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if waits := asked.pop(ended[0], None):
                    status = os.waitstatus_to_exitcode(ended[1])
                    waits.send(b"%d" % (status if status >= 0 else 128 - status))
                    waits.close()
        except (ChildProcessError, BrokenPipeError):
            pass


def main():
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    has_timer = sys.argv[1] == "--timer"
    start(has_timer)
    status = subprocess.run(sys.argv[1 + has_timer:]).returncode
    sys.exit(status if status >= 0 else 128 - status)   # a signal, as a shell tells it


if __name__ == "__main__":
    main()
