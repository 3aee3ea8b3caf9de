"""Without a GPU, or without the backend's library beside the program, every command refuses
--device cuda: in one line that says what is missing and what to take instead, with nothing
written."""
import os, shutil, sys

sys.path.append("tests")
from command import check, done, hone, run, work_folder

work = work_folder("no_gpu")
out = f"{work}/out"
p = run("bash", "-c", ". tests/rl/tiny_policy.sh; tiny_policy")
policy = p.stdout.strip()
check("there is a policy", p.returncode == 0 and os.path.isdir(policy), p.stderr)
pairs = f"{work}/pairs.jsonl"
open(pairs, "w").write('{"prompt": "a", "completion": "b"}\n' * 4)
open(f"{work}/text", "w").write("a")
m = ("--model", f"{policy}/sft/final")
COMMANDS = {
    "generate": (*m, "--prompt", "a"),
    "score": (*m, "--prompt_file", f"{work}/text", "--completion_file", f"{work}/text"),
    "eval": (*m, "--tasks", f"{policy}/tasks.jsonl", "--out", out),
    "sft": (*m, "--data", pairs, "--output_dir", out),
    "rl": (*m, "--tasks", f"{policy}/tasks.jsonl", "--output_dir", out),
    "bench": ("gpu", "--shapes", "demo"),
}
# a GPU that is there is hidden; where the backend was not built its absence is what is told
os.environ["CUDA_VISIBLE_DEVICES"] = ""
built = os.path.exists(f"{os.path.dirname(hone)}/libhone_cuda.so")
absent = "where there is an nvcc of CUDA 13, which tools/setup.sh --cuda fetches"
want = "no NVIDIA GPU or no driver" if built else absent
alone = f"{work}/alone/hone"
os.makedirs(os.path.dirname(alone))
shutil.copy(hone, alone)
for program, what, says in ((hone, "no GPU", want), (alone, "no backend", absent)):
    for name, args in COMMANDS.items():
        if not os.path.exists(policy) and name != "bench":
            continue
        p = run(program, name, *args, "--device", "cuda", expect=1)
        lines = p.stderr.strip().split("\n")
        check(f"{what}: hone {name} refuses",
              p.returncode == 1 and len(lines) == 1 and says in lines[0] and "--device cpu" in lines[0]
              and not os.path.exists(out) and not p.stdout, p.stderr + p.stdout)
# a driver that does not start is told in its own words, with what to look at; a plan that needs the
# device is refused like the run, and one with a cap is not
if built:
    run("gcc", "-shared", "-fPIC", "-o", f"{work}/libcuda.so.1", "tests/cli/failing_driver.c", expect=0)
    os.environ["LD_LIBRARY_PATH"] = work
    for code, name in ((802, "cudaErrorSystemNotReady"), (999, "cudaErrorUnknown")):
        os.environ["FAKE_INIT"] = str(code)
        p = run(hone, "generate", *COMMANDS["generate"], "--device", "cuda", expect=1)
        check(f"{name}: hone generate refuses",
              p.returncode == 1 and f"({name}); nvidia-smi and dmesg tell of" in p.stderr
              and "--device cpu" in p.stderr and not p.stdout, p.stderr + p.stdout)
        p = run(hone, "sft", *m, "--data", pairs, "--dry_run", "--device", "cuda", expect=1)
        check(f"{name}: and so does a plan", p.returncode == 1 and f"({name})" in p.stderr and not p.stdout
              and "; with --memory the plan is made without the device" in p.stderr, p.stderr + p.stdout)
        p = run(hone, "sft", *m, "--data", pairs, "--dry_run", "--device", "cuda", "--memory", "80GiB")
        check(f"{name}: with a cap it is made",
              p.returncode == 0 and "--memory allows 81920.0 MiB: it fits" in p.stdout, p.stderr + p.stdout)
    del os.environ["LD_LIBRARY_PATH"]
p = run(hone, "generate", *COMMANDS["generate"], "--device", "gpu", expect=2)
check("a device of another name is a wrong use",
      p.returncode == 2 and '"gpu" is unknown; expected cpu, cuda or cuda:N' in p.stderr, p.stderr)
done()
