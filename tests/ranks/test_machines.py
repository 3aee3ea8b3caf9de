"""hone sft over two machines with networks, names and folders of their own.  timeout: 300

Machines are namespaces of this one (root may make them): gpu07 and gpu08 know each other by
/etc/hosts alone and share no run folder. Two tasks a machine give the bytes of four ranks of
torchrun on one machine; a machine whose cable is pulled ends the job on both sides, by name, with a
whole checkpoint; MASTER_ADDR goes before Slurm's list of nodes. HONE_GPU_DEVICE=cuda: one task a
machine, each with one of two GPUs, between which NCCL goes over the cable too."""
import json, os, shutil, subprocess, sys, time

sys.path.append("tests")
from command import check, done, hone, run, work_folder

work = os.path.abspath(work_folder("ranks_machines"))
children = []
device = os.environ.get("HONE_GPU_DEVICE", "cpu")
TASKS = 2 if device == "cpu" else 1   # of a machine
WORLD = 2 * TASKS
LONG = ("--max_steps", 600, "--save_steps", 50)


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def inside(machine, *command):
    """The command's words, so that they run on that machine."""
    return ["nsenter", f"--target={machine.pid}", "--net", "--uts", "--mount", *[str(c) for c in command]]


def machine(name, hosts):
    """A process that keeps the namespaces: a host name, a private /etc/hosts, and /tmp/run of its
    own."""
    script = (f"hostname {name} && mount --bind {hosts} /etc/hosts && mount -t tmpfs none {work}/run && "
              "ip link set lo up && echo up && exec sleep 600")
    p = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "--propagation", "private", "bash", "-c", script],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children.append(p)
    return p if p.stdout.readline().strip() == "up" else None


def cable(a, b):
    """Joins the machines: 10.77.0.7 and 10.77.0.8."""
    run("ip", "link", "add", "hone7", "netns", a.pid, "type", "veth", "peer", "name", "hone8", "netns", b.pid,
        expect=0)
    for m, n in ((a, 7), (b, 8)):
        run(*inside(m, "ip", "addr", "add", f"10.77.0.{n}/24", "dev", f"hone{n}"), expect=0)
        run(*inside(m, "ip", "link", "set", f"hone{n}", "up"), expect=0)


def command(folder, *more):
    return [os.path.abspath(hone), "sft", "--model", f"{work}/model", "--data", f"{work}/pairs.jsonl", "--max_tokens",
            "200", "--learning_rate", "1e-3", "--max_steps", "8", "--save_steps", "2", "--threads", "1",
            "--device", device, "--lora_r", "4", "--gradient_accumulation_steps", "4", "--num_train_epochs", "0",
            "--output_dir", f"{work}/{folder}", *[str(m) for m in more]]


def srun(k, **more):
    """What srun sets for task k of a step of as many tasks on gpu07 as on gpu08."""
    return dict(SLURM_JOB_ID=4711, SLURM_STEP_ID=0, SLURM_PROCID=k, SLURM_LOCALID=k % TASKS, SLURM_NTASKS=WORLD,
                SLURM_STEP_NUM_TASKS=WORLD, SLURM_NODEID=k // TASKS, **gpu(k),
                **{"SLURM_STEP_NODELIST": "gpu[07-08]"} | more)


def gpu(k):
    """A machine's own GPU is the only one that its task sees."""
    return {} if device == "cpu" else dict(CUDA_VISIBLE_DEVICES=k)


def torchrun(k):
    return dict(RANK=k, LOCAL_RANK=k, WORLD_SIZE=WORLD, **gpu(k), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=os.getpid() % 20000 + 20000)


def start(k, words, variables):
    env = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "TORCHELASTIC_", "MASTER_"))}
    p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env=dict(env, **{n: str(v) for n, v in variables.items()}))
    children.append(p)
    return p


def finish(processes):
    """(exit status, stderr) of each."""
    return [(p.returncode, err) for p, (_, err) in [(p, p.communicate(timeout=200)) for p in processes]]


def files(machine, folder):
    """Every file of a run as that machine sees it, by its sum; not the record of times nor
    databases."""
    script = f"cd {work}/{folder} && find . -type f ! -name '*.db*' ! -name metrics.jsonl | sort | xargs sha256sum"
    words = ["bash", "-c", script]
    return run(*(inside(machine, *words) if machine else words)).stdout


has_tools = all(shutil.which(p) for p in ("ip", "unshare", "nsenter"))
if os.geteuid() or not has_tools or run("unshare", "--net", "--uts", "--mount", "ip", "link").returncode:
    skip("needs root and namespaces, to make machines of")
os.makedirs(f"{work}/run")
with open(f"{work}/pairs.jsonl", "w") as f:
    for i in range(60):
        f.write(json.dumps(dict(prompt=f"add {i} {i * 7 % 50}\n", completion=f"load {i} store {i * 8} mask")) + "\n")
with open(f"{work}/hosts", "w") as f:
    f.write("127.0.0.1 localhost\n10.77.0.7 gpu07\n10.77.0.8 gpu08\n")
run(hone, "init", "--out", f"{work}/model", "--text", f"{work}/pairs.jsonl", "--vocab_size", 300, "--hidden_size", 32,
    "--num_hidden_layers", 2, "--head_dim", 8, "--intermediate_size", 64, "--max_position_embeddings", 256, expect=0)
gpu07, gpu08 = machine("gpu07", f"{work}/hosts"), machine("gpu08", f"{work}/hosts")
if not (gpu07 and gpu08):
    skip("this machine does not let root name and mount within a namespace")
cable(gpu07, gpu08)
at = lambda k: (gpu07, gpu08)[k // TASKS]
try:
    one = finish([start(k, command("one"), torchrun(k)) for k in range(WORLD)])
    check(f"{WORLD} ranks of torchrun on one machine", [p[0] for p in one] == [0] * WORLD, one)
    two = finish([start(k, inside(at(k), *command("run/two")), srun(k)) for k in range(WORLD)])
    check(f"{TASKS} tasks on each of two machines find rank 0 by Slurm's list of nodes", [p[0] for p in two]
          == [0] * WORLD, two)
    want = files(None, "one")
    check("and give the bytes of those on one machine", want and files(gpu07, "run/two") == want,
          (want, files(gpu07, "run/two")))
    check("the other machine has no run folder, nor needs one", not os.listdir(f"{work}/run")
          and files(gpu08, "run/two").count("\n") == 0, files(gpu08, "run/two"))
    # As scripts for torch set it for all tasks alike: no RANK, which srun's tasks have by another
    # name.
    other = dict(MASTER_ADDR="10.77.0.7", MASTER_PORT=29500, WORLD_SIZE=WORLD, SLURM_STEP_NODELIST="nobody[1-2]")
    named = finish([start(k, inside(at(k), *command("run/named")), srun(k, **other)) for k in range(WORLD)])
    check("MASTER_ADDR goes before the list of nodes; WORLD_SIZE without RANK is no torchrun",
          [p[0] for p in named] == [0] * WORLD and files(gpu07, "run/named") == want, named)
    whole = finish([start(k, command("whole", *LONG), torchrun(k)) for k in range(WORLD)])
    lost = [start(k, inside(at(k), *command("run/lost", *LONG, "--ranks_timeout", 5)), srun(k)) for k in range(WORLD)]
    seen, end = "", time.monotonic() + 60
    while "checkpoint-100" not in seen and time.monotonic() < end and lost[0].poll() is None:
        time.sleep(0.02)
        seen = run(*inside(gpu07, "ls", f"{work}/run/lost")).stdout
    run(*inside(gpu08, "ip", "link", "set", "hone8", "down"), expect=0)
    gone = finish(lost)
    check("a machine whose cable is pulled ends the job: all ranks say so", [p[0] for p in gone] == [1] * WORLD
          and all("rank " in p[1] for p in gone), gone)
    check("rank 0 names who is gone, and its machine", "(gpu08, process " in gone[0][1]
          and "start all ranks again" in gone[0][1], gone[0][1])
    run(*inside(gpu08, "ip", "link", "set", "hone8", "up"), expect=0)
    again = finish([start(k, inside(at(k), *command("run/lost", *LONG)), srun(k)) for k in range(WORLD)])
    check("started again it goes on from a whole checkpoint, to the bytes of a run that was not stopped",
          [p[0] for p in whole + again] == [0] * 2 * WORLD and "sft 0/" not in again[0][1]
          and files(gpu07, "run/lost") == files(None, "whole"), again)
finally:
    for p in reversed(children):
        if p.poll() is None:
            p.kill()
            p.wait()
done()
