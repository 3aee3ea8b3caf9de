"""Scratch folders of a zygote's jobs, under one that is named by the zygote's pid, so that the next
zygote clears what a killed one left."""
import os
import shutil
import tempfile


class Scratch:
    """Of the kind of zygote whose folders begin with `prefix`; `root` is there from make() on,
    `folder` is the running job's."""

    def __init__(self, prefix):
        self.prefix, self.root, self.folder = prefix, None, None

    def clear_stale(self):
        base = tempfile.gettempdir()
        for name in os.listdir(base):
            pid = name[len(self.prefix):] if name.startswith(self.prefix) else ""
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                shutil.rmtree(os.path.join(base, name), ignore_errors=True)

    def make(self, may_exist=True):
        """may_exist: False while this process is root, who must not write into a folder that
        somebody else made."""
        self.clear_stale()
        self.root = os.path.join(tempfile.gettempdir(), f"{self.prefix}{os.getpid()}")
        os.makedirs(self.root, mode=0o700, exist_ok=may_exist)

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- around each job, in the zygote (zygote.py) ----

    def before_job(self):
        """A folder for the next job."""
        return tempfile.mkdtemp(dir=self.root)

    def begin(self, options, folder):
        """Wherever the job's process is forked, which inherits the name."""
        self.folder = folder
        options.scratch = folder.encode()

    def after_job(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
