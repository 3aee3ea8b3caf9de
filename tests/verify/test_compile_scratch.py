"""What a compile worker leaves in the folder for temporary files when it is killed, its first
compilation included: nothing that the next one does not clear."""
import os, signal, sys, tempfile
sys.path.insert(0, "tests")
sys.path.insert(0, "worker")
from command import check, done, work_folder

dir = work_folder("compile scratch")
tempfile.tempdir = dir
import compile as worker

inside = []
worker.compile_ttir = lambda job, folder: inside.append((folder, sorted(os.listdir(dir))))
worker.warm()
check("the first compilation has a folder",
      inside and os.path.dirname(inside[0][0]) == dir and inside[0][1] == [os.path.basename(inside[0][0])])
check("and takes it away", os.listdir(dir) == [])

pid = os.fork()
if pid == 0:
    worker.compile_ttir = lambda job, folder: (open(f"{folder}/kernel.ttir", "w").close(),
                                               os.kill(os.getpid(), signal.SIGKILL))
    worker.warm()
os.waitpid(pid, 0)
left = os.listdir(dir)
check("a kill leaves it", len(left) == 1)
alive = f"{dir}/{worker.scratch.prefix}{os.getppid()}"   # of a worker that lives: no business of this one
os.mkdir(alive)
worker.compile_ttir = lambda job, folder: None
worker.warm()
check("the next worker clears it, and no other's", os.listdir(dir) == [os.path.basename(alive)], os.listdir(dir))
done()
