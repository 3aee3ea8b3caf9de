"""hone rl as two processes with half of each step: the answers of one process, its figures, and the
bytes of a run that is never stopped.  timeout: 600

A rank that is killed ends the job by name and leaves a whole checkpoint; other numbers of ranks and
other settings are refused."""
import json, os, signal, socket, sqlite3, subprocess, sys, time

sys.path.append("tests")
from command import check, done, hone, tiny_policy, warm_workers, work_folder

work = work_folder("rl_ranks")
policy = tiny_policy()


def command(out, *more):
    return [str(x) for x in (hone, "rl", "--model", f"{policy}/sft/final", "--tasks", f"{policy}/tasks.jsonl",
                             "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain",
                             "--num_generations", 4, "--generation_batch_size", 12, "--max_completion_length", 170,
                             "--max_tokens", 600, "--num_correct_trials", 1, "--learning_rate", 1e-4, "--lora_r", 4,
                             "--lora_dropout", 0.1, "--seed", 1, "--threads", 1, "--verify_threads", 1,
                             "--save_steps", 1, "--output_dir", f"{work}/{out}", *more)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torchrun(k, count):
    return dict(RANK=k, LOCAL_RANK=k, WORLD_SIZE=count, MASTER_ADDR="127.0.0.1")


def srun(k, count):
    """What srun sets for task k of a step on one node (and for the script around it, which is no
    rank: SLURM_NTASKS)."""
    return dict(SLURM_JOB_ID=os.getpid(), SLURM_STEP_ID=0, SLURM_PROCID=k, SLURM_LOCALID=k, SLURM_NTASKS=count,
                SLURM_STEP_NUM_TASKS=count, SLURM_STEP_NODELIST="localhost", SLURM_NODEID=0)


def start(commands, launcher=torchrun):
    """One process a command, as the launcher would start them."""
    port = free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "TORCHELASTIC_"))}
    more = [dict(launcher(k, len(commands)), **({"MASTER_PORT": port - 1} if launcher is torchrun else {}))
            for k in range(len(commands))]
    return [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(env, **{n: str(v) for n, v in more[k].items()})) for k, c in enumerate(commands)]


def finish(processes):
    """(exit status, stdout, stderr) of each."""
    return [(p.returncode, *texts) for p, texts in [(p, p.communicate(timeout=300)) for p in processes]]


def both(out, *more):
    return finish(start([command(out, *more)] * 2))


def rows(out, table, columns, what="row"):
    with sqlite3.connect(f"{work}/{out}/hone.db") as db:
        return db.execute(f"select {columns}, {what} from {table} order by {columns}").fetchall()


def metrics(out):
    drop = lambda r: {k: v for k, v in r.items() if not k.startswith("timing_s/") and k != "step_time"}
    return [drop(json.loads(line)) for line in open(f"{work}/{out}/metrics.jsonl")]


def tree(out):
    files = {}
    for folder, _, names in os.walk(f"{work}/{out}"):
        for name in names:
            path = os.path.join(folder, name)
            if ".db" not in name and name != "metrics.jsonl":
                files[os.path.relpath(path, f"{work}/{out}")] = open(path, "rb").read()
    return files


def close(a, b, relative):
    return abs(a - b) <= relative * max(abs(a), abs(b), 1e-6)


def test_same_step():
    """One step: each answer is a function of seed, step, prompt and sample, so whoever writes it
    writes the same."""
    more = ("--max_steps", 1, "--lora_dropout", 0)   # masks are of rows of a packed pass, and shares are packed apart
    one = finish([subprocess.Popen(command("one", *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)])[0]
    two = both("two", *more)
    check("two ranks train, and rank 0 alone prints",
          [p[0] for p in two] == [0, 0] and two[0][1].strip() == f"{work}/two/final" and two[1][1] == "", two)
    if one[0] or any(p[0] for p in two):
        return check("one process trains", False, one)
    a, b = rows("one", "samples", "step, idx"), rows("two", "samples", "step, idx")
    check("the store has the answers, verdicts, rewards and advantages of one process, byte by byte",
          len(a) == 12 and a == b, (a, b))
    slurm = finish(start([command("slurm", *more)] * 2, srun))
    check("started as srun starts them, two ranks give the bytes that torchrun's give", [p[0] for p in slurm] == [0, 0]
          and tree("slurm") == tree("two") and rows("slurm", "samples", "step, idx") == b, slurm)
    kinds = {json.loads(r[-1])["verdict"]["verdict"] for r in a}
    check("there is something to learn from them", "genuine" in kinds and len(kinds) > 1, kinds)
    m, n = metrics("one")[0], metrics("two")[0]
    # Gradients are the same sums in another order: relative differences of a few roundings of fp32,
    # a norm of 1e-6.
    differ = [k for k in m if isinstance(m[k], (int, float))
              and not close(m[k], n.get(k, 1e9), 2e-5 if k in ("grad_norm", "loss", "entropy") else 1e-9)
              and k not in ("sampling/trained_logp_difference/mean", "num_tokens", "distinct/update")]
    check("metrics are those of one process, sums up to rounding; a beginning that two shares have is passed twice",
          not differ and set(m) == set(n) and m["num_tokens"] <= n["num_tokens"] <= 2 * m["num_tokens"],
          [(k, m[k], n.get(k)) for k in differ])
    check("rank 1 has a store for its verdicts beside the run's",
          os.path.exists(f"{work}/two/rank-1.db") and rows("two", "metrics", "step")[0][0] == 1)


LEARNING = ("--max_steps", 3, "--prompt_selection", "promise", "--num_generations_first", 2, "--filter_groups",
            "--max_num_gen_batches", 2, "--steps_per_generation", 2, "--num_iterations", 2, "--replay_updates", 1,
            "--replay_batch_size", 3, "--replay_min", 1)


def kill_at(out, k, count, *more):
    """Kills rank k when so many steps are recorded; what the other one says."""
    processes = start([command(out, *more)] * 2)
    path = f"{work}/{out}/metrics.jsonl"
    while (all(p.poll() is None for p in processes)
           and not (os.path.exists(path) and open(path).read().count("\n") >= count)):
        time.sleep(0.002)
    processes[k].send_signal(signal.SIGKILL)
    return processes[k].pid, finish(processes)[1 - k]


def test_killed():
    whole = both("whole", *LEARNING)
    check("with staged groups, several updates and replay", [p[0] for p in whole] == [0, 0], whole)
    pid, (status, _, said) = kill_at("killed", 1, 1, *LEARNING)
    check("rank 1 killed: the other one ends, and says who is gone and what to do",
          status == 1 and "rank 1 of 2 (" in said and f"process {pid})" in said and "start all ranks again" in said,
          said)
    left = [n for n in os.listdir(f"{work}/killed") if n.startswith("checkpoint-")]
    check("a whole checkpoint is there", left and all(len(os.listdir(f"{work}/killed/{n}")) >= 4 for n in left), left)
    again = both("killed", *LEARNING)
    a, b = tree("whole"), tree("killed")
    check("started again they end with the bytes of the run that was not stopped",
          [p[0] for p in again] == [0, 0] and a == b and rows("whole", "samples", "step, idx") == rows("killed",
              "samples", "step, idx"), (again, [k for k in a.keys() | b.keys() if a.get(k) != b.get(k)]))
    check("and its metrics", metrics("whole") == metrics("killed"), (metrics("whole"), metrics("killed")))


def test_refusals():
    before = tree("two")
    alone = finish([subprocess.Popen(command("two", "--max_steps", 2, "--lora_dropout", 0), stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)])[0]
    check("one process does not continue the run of two",
          alone[0] == 1 and "ranks (processes of the job) 2, now it is 1" in alone[2], alone)
    apart = finish(start([command("two", "--max_steps", 2), command("two", "--max_steps", 2, "--learning_rate", 1e-3)]))
    check("ranks with other settings are refused on both sides",
          all(p[0] == 1 and "settings of rank 1 and of rank 0 are not the same" in p[2] for p in apart), apart)
    few = finish(start([command("few", "--max_steps", 1, "--generation_batch_size", 4)] * 2))
    check("a step with fewer groups than ranks is refused",
          all(p[0] == 2 or p[0] == 1 for p in few) and "1 groups a step for 2 ranks" in few[0][2], few)
    check("refusals change nothing", tree("two") == before)


if policy:
    warm_workers()
    test_same_step()
    test_killed()
    test_refusals()
done()
