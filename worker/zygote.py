"""zygote: a warm Python process that job processes are forked from (docs/worker-protocol.md).

    python -I zygote.py KIND [LIBRARY [many]]     KIND: tracer, oracle, compile or timer; LIBRARY:
                                                  libhone_sandbox.so; many: jobs are expected; the
                                                  control socket is descriptor 3

Importing torch takes seconds and happens once, here; a job costs one fork. The zygote runs no
stranger's code, holds no GPU (a timer's jobs do) and has one thread. It is also the keeper of its
jobs: it waits for their ends and reports them on their status sockets, which the jobs do not have.
Where many jobs come it lets a template fork in its place, whose memory nobody writes to.

A kind is a module with `warm(times)` and `run(job, sock)`, and optionally SANDBOX (fields of struct
sandbox_options), `read_paths()`, `start()` and `stop()` (the zygote's life), GPU (its jobs may use
one), `before_job()` and `after_job(token)` (in the zygote, around each job; the token is the text
that before_job returned), `begin(options, token)` (in whoever forks the job, before that).
"""
import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
    os.environ[_name] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TRITON_BACKENDS_IN_TREE"] = "1"
os.environ["HOME"] = "/root"   # torch and triton name cache folders after the user, as elsewhere; none is ever written
os.environ["USER"] = os.environ["LOGNAME"] = "hone"
os.environ.pop("GLIBC_TUNABLES", None)   # read by the C library when it started
sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "worker"))

import ctypes
import errno
import gc
import importlib
import json
import mmap
import select
import signal
import socket
import struct

import wire

CONTROL_FD = 3
KINDS = ("tracer", "oracle", "compile", "timer")
LEVELS = {"none": 0, "lsm": 1, "full": 2}


HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25
FOR_GPUS = "/nvidia/"      # in the paths of libraries that a job without a GPU does not run
LEAST_ASIDE = 1 << 17      # bytes of a table that are worth a mapping, and the share of it that is no library's file
SHARE_ASIDE = 0.2
TEXT_PAGES = 32            # of a piece of text that were run: it is worth a large page
# Who was not told that many will come waits for so many: a single verdict's zygotes have fewer,
# and the work would not come back.
JOBS_BEFORE_COLLAPSE = 4
# How often a zygote of many jobs runs what they will: CPython makes code faster that has run eight
# times, and writes to its pages then. What the zygote has not run so often each job would change
# for itself. Of a single verdict nothing of that comes back.
WARM_TIMES = 10


def large_pieces():
    """Addresses of this process's anonymous memory in pieces of a huge page. A fork copies an entry
    for each page that is in memory, and its end drops each again: torch has 90,000 small ones, most
    of which no job ever looks at (tables of libraries for GPUs)."""
    with open("/proc/self/maps") as f:
        regions = [line.split() for line in f]
    pieces = []
    for region in regions:
        if region[1].startswith("rw-p") and (len(region) < 6 or region[5] == "[heap]"):
            low, high = (int(n, 16) for n in region[0].split("-"))
            pieces += range(-(-low // HUGE_PAGE) * HUGE_PAGE, high - HUGE_PAGE + 1, HUGE_PAGE)
    return pieces


def own_regions():
    """[first address, the one behind the last, access, file, bytes that are this process's own] of
    all that is mapped."""
    found = []
    with open("/proc/self/smaps") as f:
        for line in f:
            words = line.split()
            if not words[0].endswith(":"):
                low, high = (int(n, 16) for n in words[0].split("-"))
                found.append([low, high, words[1], " ".join(words[5:]), 0])
            elif words[0] == "Anonymous:":
                found[-1][4] = int(words[1]) << 10
    return found


def put_aside(lib):
    """Puts tables of libraries into a file in memory: what the loader has written once and for all,
    and what libraries for GPUs keep for themselves. They stay where they are and what they are, and
    whoever writes there has a copy. But a fork copies entries for a process's own pages alone, and
    its end drops them: of a file it has those that it looks at."""
    aside = lib.memory_aside
    aside.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int64
    file, place, whose, end = os.memfd_create("tables", os.MFD_CLOEXEC), 0, "", 0
    for low, high, access, path, own in own_regions():
        # What is zeros at first lies behind its library's data, and has no name.
        whose, end = path or (whose if low == end else ""), high
        is_table = access == "r--p" or access == "rw-p" and FOR_GPUS in whose
        size = high - low
        if not whose.startswith("/") or not is_table or own < max(LEAST_ASIDE, size * SHARE_ASIDE):
            continue
        may = mmap.PROT_READ | (mmap.PROT_WRITE if access == "rw-p" else 0)
        if aside(low, size, may, file, place) < 0:
            break
        place += size
    os.close(file)


def forget_text():
    """From here on those pages of text alone are in memory that this process runs."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for low, high, access, path, _ in own_regions():
        if access == "r-xp" and path.startswith("/"):
            madvise(low, high - low, mmap.MADV_DONTNEED)


def text_pieces():
    """Addresses of pieces of a huge page of which this process has run much: text, and what nobody
    writes to before and behind it in its file."""
    spans = []      # [first address, the one behind the last, file, [first address of text, the one behind its last]]
    for low, high, access, path, _ in own_regions():
        if access not in ("r-xp", "r--p") or not path.startswith("/"):
            continue
        if not spans or spans[-1][1:3] != [low, path]:
            spans.append([low, high, path, []])
        spans[-1][1] = high
        if access == "r-xp":
            spans[-1][3] += low, high
    found = []
    with open("/proc/self/pagemap", "rb") as f:
        for low, high, _, text in spans:
            for piece in range(-(-low // HUGE_PAGE) * HUGE_PAGE, high - HUGE_PAGE + 1, HUGE_PAGE):
                f.seek(piece // mmap.PAGESIZE * 8)
                entries = f.read(HUGE_PAGE // mmap.PAGESIZE * 8)      # of each the last bit says: it is there
                is_text = text and text[0] < piece + HUGE_PAGE and piece < text[-1]
                if is_text and sum(byte >> 7 for byte in entries[7::8]) >= TEXT_PAGES:
                    found.append(piece)
    return found


def enlarge_text(lib):
    """Text that jobs will run lies in large pages of this process's own. Of a file a fork has none,
    and each job would find them again, 16 small ones a fault."""
    for piece in text_pieces():
        lib.memory_text(ctypes.c_void_p(piece))


class SandboxOptions(ctypes.Structure):
    _fields_ = [
        ("level", ctypes.c_int), ("read_paths", ctypes.POINTER(ctypes.c_char_p)),
        ("exec_paths", ctypes.POINTER(ctypes.c_char_p)), ("scratch", ctypes.c_char_p),
        ("memory_bytes", ctypes.c_int64), ("cpu_s", ctypes.c_int), ("allow_threads", ctypes.c_int),
        ("allow_fork", ctypes.c_int),
        ("allow_memfd", ctypes.c_int), ("device_paths", ctypes.POINTER(ctypes.c_char_p)),
    ]


def c_paths(paths):
    return (ctypes.c_char_p * (len(paths) + 1))(*[p.encode() for p in paths], None)


class Sandbox:
    """libhone_sandbox.so. Its functions run with the interpreter's lock held: a fork in between
    must not lose it."""

    def __init__(self, path, has_gpu=False):
        # Global and before torch, see worker/one_device.c; but not where torch shall find the real
        # devices.
        self.lib = ctypes.PyDLL(path, mode=ctypes.RTLD_LOCAL if has_gpu else ctypes.RTLD_GLOBAL)
        self.text = ctypes.create_string_buffer(512)
        # Before torch: nearly all that Python holds comes from there.
        self.lib.arenas_join(ctypes.c_uint64(int.from_bytes(os.urandom(8), "little")))

    def call(self, name, *args):
        rc = getattr(self.lib, name)(*args, self.text, ctypes.c_size_t(len(self.text)))
        if rc < 0:
            raise OSError(-rc, self.text.value.decode(errors="replace"))
        return rc

    def fork(self, options):
        """Like os.fork, in new namespaces where the level asks for them. Returns (pid, error text
        of the child)."""
        api = ctypes.pythonapi
        api.PyOS_BeforeFork()
        try:
            pid = self.call("sandbox_fork", ctypes.byref(options))
        except OSError:
            api.PyOS_AfterFork_Parent()
            raise
        if pid == 0:
            api.PyOS_AfterFork_Child()
            return 0, self.text.value.decode(errors="replace")
        api.PyOS_AfterFork_Parent()
        return pid, ""


class Template:
    """A fork of the zygote that does nothing but fork (src/sandbox/sandbox_fork.c): the zygote asks
    it for the processes of its jobs, which are the zygote's children."""

    def __init__(self, zygote):
        self.orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        api = ctypes.pythonapi
        api.PyOS_BeforeFork()
        self.pid = zygote.sandbox.call("sandbox_template_fork")
        if self.pid == 0:
            self.serve(zygote, theirs.fileno())
        api.PyOS_AfterFork_Parent()
        theirs.close()

    def start(self, data, token, level, data_fd, entered_w):
        """The pid of a job's process, which gets `data`, the request, behind its token."""
        memory = os.memfd_create("request", os.MFD_CLOEXEC)
        try:
            with open(memory, "wb", closefd=False) as f:
                f.write(json.dumps(token).encode() + b"\n" + data)
            wire.send_fds(self.orders, struct.pack("i", level), (data_fd, entered_w, memory))
        finally:
            os.close(memory)
        answer = self.orders.recv(4)
        pid = struct.unpack("i", answer)[0] if answer else -errno.ECHILD
        if pid < 0:
            raise OSError(-pid, "forking a job's process from the template")
        return pid

    def serve(self, zygote, orders):
        """In the template; never returns. To Python it is in the midst of a fork, whose other side
        each job's process is."""
        # With a token like a job's: a filter for system calls is kept by what options ask for.
        options, fds, text = zygote.options({"sandbox": "none"}, ""), (ctypes.c_int * 3)(), zygote.sandbox.text
        pieces = large_pieces()
        pieces = (ctypes.c_void_p * (len(pieces) + 1))(*pieces)
        try:
            signal.set_wakeup_fd(-1)
            lib = zygote.sandbox.lib
            lib.sandbox_template_serve(orders, ctypes.byref(options), fds, lib.arenas_fill, pieces, text,
                                       ctypes.c_size_t(len(text)))
            ctypes.pythonapi.PyOS_AfterFork_Child()
            data_fd, entered_w, memory = fds
            token, request = map(json.loads, os.pread(memory, os.fstat(memory).st_size, 0).split(b"\n", 1))
            zygote.child(request["job"], data_fd, entered_w, zygote.options(request, token),
                         text.value.decode(errors="replace"))
        finally:
            os._exit(1)


class Job:
    """A running job process as the zygote sees it."""

    def __init__(self, pid, status, entered, token):
        self.pid = pid
        self.token = token        # what the kind's before_job returned
        self.status = status      # socket to the supervisor
        self.entered = entered    # reading end of a pipe: the child's words about its sandbox, "ok" when it is inside


class Zygote:
    def __init__(self, control, kind, library, has_many):
        self.control = control
        self.sandbox = Sandbox(library, kind == "timer")
        self.module = importlib.import_module(kind)
        if has_many:
            forget_text()
        self.module.warm(WARM_TIMES if has_many else 1)
        read_paths = default_read_paths() + list(getattr(self.module, "read_paths", list)())
        if getattr(self.module, "GPU", False):
            read_paths += self.gpu_read_paths()
        self.read_paths = c_paths(read_paths)
        self.before_job = getattr(self.module, "before_job", lambda: "")
        self.begin = getattr(self.module, "begin", lambda options, token: None)
        self.after_job = getattr(self.module, "after_job", lambda token: None)
        self.has_template = not getattr(self.module, "GPU", False)      # jobs that hold one are forked here
        self.template = None
        self.jobs = {}            # pid -> Job
        self.started = 0          # jobs
        self.pieces = []          # of memory, still in small pages
        self.madvise = ctypes.CDLL(None).madvise
        self.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self.poll = select.poll()

    def gpu_read_paths(self):
        o, paths = SandboxOptions(), []
        self.sandbox.lib.sandbox_allow_gpu(ctypes.byref(o))
        while o.read_paths[len(paths)]:
            paths.append(o.read_paths[len(paths)].decode())
        return paths

    def options(self, request, token):
        o = SandboxOptions(level=LEVELS[request["sandbox"]])
        limits = request.get("limits", {})
        o.memory_bytes = int(limits.get("memory_bytes", 0))
        if getattr(self.module, "GPU", False):
            self.sandbox.lib.sandbox_allow_gpu(ctypes.byref(o))
        o.read_paths = self.read_paths
        o.cpu_s = int(limits.get("cpu_s", 0))
        for name, value in getattr(self.module, "SANDBOX", {}).items():
            setattr(o, name, c_paths(value) if name == "exec_paths" else value)
        self.begin(o, token)
        return o

    # ---- main loop ----

    def serve(self):
        """Until the supervisor closes the control socket; then every job dies."""
        # A child's end wakes poll through a pipe: a signal alone would be lost between two calls.
        wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        self.wake = (wake_r, wake_w)
        self.poll.register(self.control, select.POLLIN)
        self.poll.register(wake_r, select.POLLIN)
        wire.send(self.control, {"ready": True, "versions": versions()})
        # Requests, ends of jobs, and supervisors that let go of a job; memory is moved in between.
        by_fd = {}
        self.by_fd = by_fd
        while True:
            found = self.poll.poll(0 if self.pieces and self.started >= JOBS_BEFORE_COLLAPSE else None)
            if not found:
                self.collapse()      # while nobody asks for anything
            for fd, events in found:
                if fd == CONTROL_FD:
                    try:
                        data, fds = wire.recv_bytes(self.control)
                    except (EOFError, OSError):
                        return
                    self.start(data, fds)
                elif fd == wake_r:
                    os.read(wake_r, 4096)
                    self.reap()
                elif fd in by_fd:
                    self.supervisor_left(by_fd[fd])

    def collapse(self):
        """One more piece of memory into a huge page, where the kernel has one; behind the last, the
        template that keeps them."""
        self.madvise(self.pieces.pop(), HUGE_PAGE, MADV_COLLAPSE)
        if not self.pieces and self.has_template:
            self.template = Template(self)

    def fork(self, data, token, options, data_fd, entered_w):
        """As the sandbox's, from the template where there is one that can: it may have died, and a
        kernel may not let it make the zygote's children."""
        if self.template:
            try:
                return self.template.start(data, token, options.level, data_fd, entered_w), ""
            except OSError:
                self.template.orders.close()
                self.template = None
        return self.sandbox.fork(options)

    def start(self, data, fds):
        """Forks one job. Without both sockets there is nobody to tell: the request is dropped."""
        request = json.loads(data)
        if len(fds) != 2:
            for fd in fds:
                os.close(fd)
            return
        data_fd, status_fd = fds
        entered_r, entered_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        status = socket.socket(fileno=status_fd)
        token = ""
        try:
            token = self.before_job()
            options = self.options(request, token)
            pid, error = self.fork(data, token, options, data_fd, entered_w)
        except Exception as e:
            # no process, or a request that makes no sense: the supervisor learns it as a job that
            # never entered
            report(status, {"status": 1 << 8, "max_rss_bytes": 0, "cpu_ms": 0, "entered": False,
                            "text": f"{type(e).__name__}: {e}"})
            status.close()
            self.after_job(token)
            for fd in (data_fd, entered_r, entered_w):
                os.close(fd)
            return
        if pid == 0:
            self.child(request["job"], data_fd, entered_w, options, error)
        os.close(data_fd)
        os.close(entered_w)
        self.started += 1
        job = Job(pid, status, entered_r, token)
        self.jobs[pid] = job
        self.by_fd[status.fileno()] = job
        self.poll.register(status.fileno(), select.POLLIN)
        if not report(status, {"pid": pid}):
            kill(pid)

    def supervisor_left(self, job):
        """The supervisor never writes on a status socket, so anything there is its end."""
        self.poll.unregister(job.status.fileno())
        del self.by_fd[job.status.fileno()]
        kill(job.pid)

    def reap(self):
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            job = self.jobs.pop(pid, None)
            if job is None:
                continue
            self.after_job(job.token)
            entered = read_all(job.entered)
            report(job.status, {"status": status, "max_rss_bytes": usage.ru_maxrss * 1024,
                                "cpu_ms": int((usage.ru_utime + usage.ru_stime) * 1000), "entered": entered == "ok",
                                "text": "" if entered == "ok" else entered})
            if self.by_fd.pop(job.status.fileno(), None):
                self.poll.unregister(job.status.fileno())
            job.status.close()

    # ---- the job's process ----

    def child(self, job, data_fd, entered_w, options, error):
        """Never returns."""
        code = 1
        try:
            # Nothing of the zygote is left to it: signals, session, terminal, descriptors.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            keep = {data_fd, entered_w}
            close_others(keep)
            # The sandbox, then word of it to the zygote; without it nothing runs.
            if not error:
                try:
                    self.sandbox.call("sandbox_enter", ctypes.byref(options))
                except OSError as e:
                    error = e.strerror
            os.write(entered_w, (error or "ok").encode()[:400])
            os.close(entered_w)
            # The job itself, over its own socket.
            if not error:
                gc.disable()
                data = socket.socket(fileno=data_fd)
                self.module.run(job, data)
                code = 0
        except BrokenPipeError:
            code = 0
        except BaseException:
            code = 1
        finally:
            os._exit(code)


def close_others(keep):
    """Everything from 3 up but `keep`; detached from Python's objects, whose destructors never
    run."""
    low = 3
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 1024)


def kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def report(sock, message):
    try:
        wire.send(sock, message)
        return True
    except OSError:
        return False


def read_all(fd):
    try:
        data = os.read(fd, 512)
    except OSError:
        data = b""
    os.close(fd)
    return data.decode(errors="replace") or "the process ended before it was sandboxed"


def default_read_paths():
    """Python and its packages: for imports that happen late. Nothing of the user's, nothing of /etc
    or /proc."""
    import sysconfig
    paths = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return sorted(paths | {os.path.join(ROOT, "worker")})


def versions():
    from importlib.metadata import version
    return {"python": ".".join(map(str, sys.version_info[:3])), "torch": version("torch"), "triton": version("triton")}


def refuse(control, why):
    """In place of ready: the supervisor says it, once for all zygotes."""
    report(control, {"ready": False, "text": why})
    sys.exit(1)


def main():
    if len(sys.argv) not in (2, 3, 4) or sys.argv[1] not in KINDS or sys.argv[3:] not in ([], ["many"]):
        sys.exit(f"zygote: usage: zygote.py {'|'.join(KINDS)} [libhone_sandbox.so [many]]; started by hone with its "
                 f"control socket as descriptor 3")
    library = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "build", "release", "libhone_sandbox.so")
    control = socket.socket(fileno=CONTROL_FD)
    try:
        zygote = Zygote(control, sys.argv[1], library, bool(sys.argv[3:]))
    except ImportError as error:
        refuse(control, f"{sys.executable}: {error}; HONE_PYTHON names another Python")
    if sys.argv[3:] and zygote.has_template:
        enlarge_text(zygote.sandbox.lib)      # as root: a process that was root may not look at its own pages
    zygote.sandbox.call("sandbox_drop_root")
    for path in default_read_paths():
        if not os.access(path, os.R_OK | os.X_OK):
            refuse(control, f"uid {os.getuid()} cannot read {path}, and jobs never run as root: make the folders above "
                            f"it passable for others (chmod o+x), or run hone as an ordinary user")
    getattr(zygote.module, "start", lambda: None)()
    gc.collect()
    gc.freeze()
    if sys.argv[3:] and zygote.has_template:
        put_aside(zygote.sandbox.lib)
    zygote.pieces = large_pieces()
    # Before the first fork: a page that a job shares may stay where it is.
    while sys.argv[3:] and zygote.pieces:
        zygote.collapse()
    zygote.serve()
    for pid in list(zygote.jobs):
        kill(pid)
    getattr(zygote.module, "stop", lambda: None)()
    os._exit(0)


if __name__ == "__main__":
    main()
