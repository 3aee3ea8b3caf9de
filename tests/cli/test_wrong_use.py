"""Wrong use of the commands that need no policy: the message names the thing and what was expected,
the status is 2 for wrong usage and 1 for the world's faults, stdout stays empty, and nothing is
written that looks like a result. Beside it: values that are no numbers, other folders, names that
are not ASCII, and what a kill leaves."""
import glob, json, os, re, shutil, struct, subprocess, sys, time
sys.path.insert(0, "tests")
from command import check, done, hone, run, work_folder

dir = work_folder("wrong use \u00fc")
path = lambda name: f"{dir}/{name}"


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path(name)


def expect(status, words, *args):
    p = run(hone, *args)
    check(f"{args[0]}: {words}", p.returncode == status and words in p.stderr and not p.stdout,
          f"{args}\nexit {p.returncode}, expected {status}\n{p.stderr}{p.stdout}")


text = write("text.txt", "".join(f"def kernel_{i}(x_ptr, n): tl.load(x_ptr + {i})\n" for i in range(300)))
small = ["--vocab_size", "320", "--hidden_size", "16", "--num_hidden_layers", "1", "--num_attention_heads", "2",
         "--num_key_value_heads", "1", "--head_dim", "8", "--intermediate_size", "16",
         "--max_position_embeddings", "64"]
model, adapter = path("model"), path("run/final")
run(hone, "init", "--out", model, "--text", text, *small, expect=0)
pairs = write("pairs.jsonl", '{"prompt": "def k", "completion": "ernel"}\n')
sft = ["sft", "--model", model, "--data", pairs, "--max_steps", "1"]
run(hone, *sft, "--output_dir", path("run"), expect=0)
task = write("task.py", "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n  "
             "      return torch.relu(x)\n\n"
             "def get_inputs():\n    return [torch.randn(300)]\n\ndef get_init_inputs():\n    return []\n")
before = sorted(os.listdir(dir))

generate = ["generate", "--model", model, "--prompt", "def", "--max_new_tokens", "2"]
nothing, none = write("nothing.txt", ""), path("none")
binary, zero = write("binary.txt", bytes(range(256))), write("zero.txt", b"ab\0cd")
row = write("row.jsonl", '{"prompt": 3}\n')

# ranges, on the command line and in recipes
for command, option, value, expected in (
        (generate, "--threads", "-1", "0 to 4096"), (generate, "--threads", "4294967297", "0 to 4096"),
        (generate, "--top_p", "0", "1e-6 to 1"),
        (generate, "--temperature", "-1", "0 to 1000"),
        (generate, "--top_k", "-3", "0 to "), (generate, "--num_samples", "0", "1 to 4096"),
        (sft, "--learning_rate", "-1", "0 to 1000"),
        (sft, "--adam_beta1", "1", "0 to 0.999999"),
        (sft, "--max_seconds", "-1", "0 or more"), (sft, "--lora_r", "257", "1 to 256"),
        (sft, "--lora_dropout", "1", "0 to 0.999"),
        (["score"], "--temperature", "0", "0.001 to 1000"),
        (["verify"], "--threads", "-1", "0 to 4096"), (["verify"], "--trace_timeout_ms", "-1", "0 to "),
        (["tasks", "audit", task], "--num_correct_trials", "33", "0 to 32"),
        (["pairs", "check"], "--fraction", "0", "1e-9 to 1"), (["bench", "cpu"], "--rounds", "0", "1 to 1000"),
        (["init"], "--head_dim", "0", "2 to 1024"), (["merge"], "--max_shard_mb", "0", "1 to 1000000"),
        (["vm"], "--configs", "0", "1 to 100000"), (["report"], "--steps", "-1", "0 to ")):
    expect(2, f"{option}: expected", *command, option, value)
    expect(2, expected, *command, option, value)
write("threads.yaml", "threads: 5000\n")
expect(2, "threads.yaml: threads: expected an integer, 0 to 4096, found 5000", *generate,
       "--recipe", path("threads.yaml"))

# options that would do nothing in their combination: each by its name and what it needs
outside = ("--policy_command", "cat")
for command, given, needs in (
        ("rl", ("--turn_template", "x"), "--num_turns above 1"), ("rl", ("--max_feedback_length", "64"), "--num_turns"),
        ("rl", ("--turn_refines",), "--num_turns"), ("rl", ("--turn_gamma", "0.5"), "--num_turns"),
        ("rl", ("--policy_requests", "4"), "--policy_command"), ("rl", ("--policy_timeout", "4"), "--policy_command"),
        ("rl", ("--cuda_libs", "x"), "--device cuda"), ("rl", ("--cuda_card", "a100"), "--device cuda"),
        ("rl", ("--replay_rate", "2"), "--replay_updates"), ("rl", ("--eval_limit", "5"), "--eval_steps"),
        ("rl", ("--guard_hack", "0.1", "--guard", "off"), "--guard other than off"),
        ("rl", ("--epsilon", "0.1"), "--num_iterations above 1"), ("rl", ("--warmup_steps", "5"), "constant"),
        ("rl", ("--promise_decay", "0.9"), "--prompt_selection promise"),
        ("rl", ("--pipeline_kernels", "3"), "--pipeline"),
        ("rl", ("--lora_r", "4", "--no-use_peft"), "--use_peft"), ("rl", ("--ranks_port", "4000"), "$WORLD_SIZE"),
        ("rl", ("--learning_rate", "1", *outside), "--policy_command"),
        ("rl", ("--device", "cuda", *outside), "beside"),
        ("rl", ("--sanitize_share", "1"), "--verify_device cuda"),
        ("rl", ("--verify_profile",), "--verify_device cuda"),
        ("eval", ("--turn_template", "x"), "--num_turns"), ("eval", ("--max_feedback_length", "64"), "--num_turns"),
        ("eval", ("--midend_samples", "2"), "--pipeline"), ("eval", ("--top_p", "0.5"), "--temperature above 0"),
        ("eval", ("--num_samples", "2", "--from_runs", "x"), "--from_runs"),
        ("eval", ("--verify_seed", "2", "--no-judge", "--out", "x"), "--judge"),
        ("eval", ("--max_completion_length", "9", "--policy_answers", "x"), "--policy_answers"),
        ("eval", ("--policy_timeout", "5", "--policy_answers", "x"), "--policy_command"),
        ("tune", ("--temperature", "0.5"), "--search policy"), ("tune", ("--policy_requests", "4"), "--policy_command"),
        ("sft", ("--patience", "3"), "--stop_at_eval_minimum"), ("sft", ("--cuda_libs", "x"), "--device cuda"),
        ("distill", ("--lora_r", "4", "--adapter", "x"), "--adapter"),
        ("generate", ("--cuda_card", "a100"), "--device cuda"),
        ("generate", ("--top_k", "5", "--temperature", "0"), "above 0"),
        ("score", ("--cuda_libs", "x"), "--device cuda"), ("verify", ("--num_perf_trials", "5"), "--device cuda"),
        ("tasks", ("list", "x", "--count_train", "5"), "`hone tasks synth`"),
        ("tasks", ("synth", "--level", "1"), "`hone tasks list`"), ("tasks", ("show", "x", "--slow"), "--answer"),
        ("pairs", ("check", "--styles", "2"), "`hone pairs synth`"), ("pairs", ("synth", "--fraction", "1"), "check`"),
        ("redteam", ("--timeout_s", "5"), "--against"), ("doctor", ("--device", "cuda:1"), "--calibrate"),
        ("bench", ("cpu", "--hidden_size", "64", "--model", "x"), "--model"),
        ("bench", ("rl", "--learning_rate", "1"), "learning rate 0")):
    name = next(g for g in given if g.startswith("--"))
    p = run(hone, command, *given)
    check(f"{command} {' '.join(given)}: does nothing", p.returncode == 2 and f"{name} " in p.stderr
          and "does nothing" in p.stderr and needs in p.stderr and not p.stdout, p.stderr)
# the lists of --help speak of options that some command has, in both directions
known, listed = set(), set()
for command in ("rl", "eval", "tune", "sft", "distill", "generate", "score", "verify", "tasks", "pairs", "redteam",
                "doctor", "bench", "bench rl"):
    for line in run(hone, *command.split(), "--help").stdout.splitlines():
        found = re.match(r"(?:only with|only for|not beside|never,) ([^:]*):(.*)", line)
        if line.startswith("  --"):
            known.add(line.split()[0][2:])
        elif found:
            listed.update(found[2].replace(",", "").split() + re.findall(r"--(\w+)", found[1]))
check("the lists of --help name options", len(listed) > 100 and listed <= known, listed - known)

# options that contradict each other, inputs that are not what they should be
expect(2, "--chat_template does nothing without --chat", *generate, "--chat_template", "chatml")
expect(2, "--chat_date does nothing without --chat", *generate, "--chat_date", "05 Nov 2026")
expect(2, '--chat_date "05 Nov 2026": chat template plain has no date', *generate, "--chat",
       "--chat_date", "05 Nov 2026")
expect(1, "--max_new_tokens 64 are more than the model's 64 positions", *generate, "--max_new_tokens", "64")
for command in ("eval", "--split", ""), ("rl", "--output_dir", none, "--max_steps", "1", "--split", ""):
    expect(1, "and an answer up to 60, but the model knows 64 positions; lower --max_completion_length or", *command,
           "--model", model, "--tasks", task, "--max_completion_length", "60", *(
               ("--generation_batch_size", "8", "--num_generations", "8") if command[0] == "rl" else ()))
# shapes and sizes that no device has room for, before anything is made
init = ["init", "--out", none, "--text", text, *small]
expect(1, "the model: heads of 512 elements; device cpu takes multiples of 2 up to 256; take another", *init,
       "--head_dim", "512")
expect(1, "the model: 1024 query heads on 1 key heads; device cpu takes at most 128 on each", *init,
       "--num_attention_heads", "1024")
if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 1 << 38:   # it would be written otherwise
    expect(1, "the largest tensor, of 1048576 rows of --hidden_size 65536, needs 262144 MiB, but this machine has",
           *init, "--vocab_size", "1048576", "--hidden_size", "65536")
expect(1, "zero.txt: byte 2 is 0", "generate", "--model", model, "--prompt_file", zero, "--chat")
expect(1, "binary.txt: text is not UTF-8", "generate", "--model", model, "--prompt_file", binary)
expect(1, "none/config.json: no such file; expected a Hugging Face model folder", *generate, "--model", none)
expect(1, "adapter_config.json: no such file; expected a PEFT adapter folder", *generate, "--adapter", model)
expect(1, "nothing.txt: the file is empty", "init", "--out", none, "--text", nothing, *small)
expect(1, "binary.txt: not UTF-8", "init", "--out", none, "--text", binary, *small)
expect(1, "expected a file of JSON lines, found a folder", "sft", "--model", model, "--data", dir, "--output_dir", none)
expect(1, 'row.jsonl:1: field "prompt": expected a string', "sft", "--model", model, "--data", row,
       "--output_dir", none)
for out in (model, model + "/", f"{dir}/./model", adapter):
    expect(2, "is the folder of the model or of the adapter", "merge", "--model", model, "--adapter", adapter,
           "--out", out)
# --out, asked before anything is read (here: before it is missed, so that a command that does not
# ask writes nothing either)
folders = (["init", "--text", none], ["import", none],
           ["merge", "--model", none, "--adapter", none], ["tasks", "import", none],
           ["tasks", "synth", "--count_train", "1", "--level_max", "1", "--operators_min", "4"])
for command in (*folders, ["report", "--store", none], ["pairs", "synth", "--tasks", none],
                ["eval", "--model", none, "--tasks", none]):
    for root in ("/", "//", "/./"):
        expect(2, f"--out {root} is the root of the file system; name a", *command, "--out", root)
    expect(2, "--out is empty: name a", *command, "--out", "")
for command in folders:
    expect(1, f"{text}: expected a folder to write, found a file", *command, "--out", text)
    expect(1, f"{text}/below/that: expected a folder to write, found a file: {text}", *command,
           "--out", f"{text}/below/that")
expect(1, f"{dir}: expected a file to write, found a folder", "report", "--store", none, "--out", dir)
for command, more in (("list", ()), ("show", ("relu",)), ("audit", ())):
    expect(1, "absent.jsonl: no such file or folder", "tasks", command, path("absent.jsonl"), *more)
expect(1, "none.parquet: cannot open", "tasks", "import", path("none.parquet"), "--out", path("tasks.jsonl"))
write("deep.json", "[" * 100000)
os.mkdir(path("deep"))
write("deep/a.py", "x = 1\n")
expect(1, "not JSON that can be read", "tasks", "import", path("deep.json"), "--out", path("tasks.jsonl"))
expect(2, "found a folder", "vm", dir)
expect(2, "say --allow_unsandboxed if that is meant\n", "verify", "--task", task, "--candidate", task,
       "--sandbox", "none")
check("none of these left a result", not set(os.listdir(dir)) - set(before) - {"nothing.txt", "binary.txt", "zero.txt",
    "row.jsonl", "threads.yaml", "deep.json", "deep"}, os.listdir(dir))

# rope_theta twice, with two values
shutil.copytree(model, path("theta"))
config = json.load(open(path("theta/config.json")))
json.dump(dict(config, rope_theta=10000.0), open(path("theta/config.json"), "w"))
expect(1, "rope_theta is 10000 and 1e+06", *generate, "--model", path("theta"))
# heads that no attention here has room for
for heads, said in (
        ({"head_dim": 512}, "theta: heads of 512 elements; device cpu takes multiples of 2 up to 256"),
        ({"num_attention_heads": 129}, "theta: 129 query heads on 1 key heads; device cpu takes at most 128")):
    json.dump(dict(config, **heads), open(path("theta/config.json"), "w"))
    expect(1, said, *generate, "--model", path("theta"))

# values that are no numbers are an error, not tokens
shutil.copytree(model, path("nan"))
data = bytearray(open(path("nan/model.safetensors"), "rb").read())
header = 8 + int.from_bytes(data[:8], "little")
data[header:] = struct.pack("<f", float("nan")) * ((len(data) - header) // 4)
write("nan/model.safetensors", bytes(data))
expect(1, "token 0: the model's values are not finite", *generate, "--model", path("nan"), "--json")
expect(1, "token 0 of the completion: the model's values are not finite", "score", "--model", path("nan"),
       "--prompt_file", write("a.txt", "a"), "--completion_file", path("a.txt"))
write("tasks.jsonl", json.dumps({"name": "relu", "source": open(task).read(), "split": "train", "level": 1}) + "\n")
write("template.txt", "{{task}}")
evaluate = ["--tasks", path("tasks.jsonl"), "--split", "train", "--prompt_template", path("template.txt"),
            "--chat_template", "plain", "--max_completion_length", "4", "--max_prompt_length", "0"]
large = path("large")   # with room for the task
run(hone, "init", "--out", large, "--text", text, *small[:-1], "1024", expect=0)
shutil.copy(path("nan/model.safetensors"), large)
expect(1, "task relu: token 0: the model's values are not finite", "eval", "--model", large, *evaluate)

# what memory would hold and a GPU's grid does not: told by plans, which need no GPU
for command in (sft, ["rl", "--model", large, *evaluate, "--generation_batch_size", "8", "--num_generations", "8"]):
    p = run(hone, *command, "--device", "cuda", "--memory", "900GiB", "--dry_run", "--max_tokens", "4194304")
    check(f"{command[0]} --dry_run: more rows than a GPU takes at once", p.returncode == 1 and "max_tokens 4194304: "
          "device cuda takes passes of at most 1572863 packed tokens" in p.stderr, p.stdout + p.stderr)

# rows packed and read again
run(hone, "init", "--out", large, "--text", text, *small[:-1], "1024", expect=0)
rows = path("rows.jsonl.gz")
p = run(hone, "eval", "--model", large, *evaluate, "--out", rows)
check("eval --out of a name in .gz is gzip", p.returncode == 0 and open(rows, "rb").read(2) == b"\x1f\x8b", p.stderr)
p = run(hone, "eval", "--model", large, *evaluate, "--compare", rows)
check("and --compare reads it", p.returncode == 0 and "difference to" in p.stdout, p.stderr)

# several adapters in one batch: each gives what it gives alone
run(hone, "sft", "--model", model, "--data", pairs, "--max_steps", "20", "--learning_rate", "0.05",
    "--num_train_epochs", "0", "--output_dir", path("run2"), expect=0)
other = path("run2/final")
alone = [json.loads(run(hone, *generate, "--max_new_tokens", "8", "--num_samples", "2", "--adapter", a, "--json",
                        expect=0).stdout)["completions"] for a in (adapter, other)]
both = json.loads(run(hone, *generate, "--max_new_tokens", "8", "--num_samples", "2", "--adapter", adapter,
                      "--adapter", other, "--json", expect=0).stdout)["completions"]
check("generate with two adapters", both == alone[0] + alone[1] and alone[0][0]["logprobs"] != alone[1][0]["logprobs"]
      and [c["adapter"] for c in both] == [adapter] * 2 + [other] * 2, both)
p = run(hone, *generate, "--adapter", adapter, "--adapter", other)
check("and as text",
      p.returncode == 0 and f"--- {adapter}, sample 0, " in p.stdout and f"--- {other}, sample 0, " in p.stdout,
      p.stdout + p.stderr)
expect(1, "none/adapter_config.json", *generate, "--adapter", adapter, "--adapter", none)

# from another folder: templates that ship with hone are found
env = dict(os.environ, LC_ALL="C")
options = ["--num_generations", "2", "--generation_batch_size", "2", "--max_completion_length", "4",
           "--chat_template", "plain", "--dry_run"]
p = subprocess.run([os.path.abspath(hone), "rl", "--model", "large", "--tasks", "tasks.jsonl", *options], cwd=dir,
                   env=env, capture_output=True, text=True)
check("rl --dry_run in another folder, whose name is not ASCII", p.returncode == 0 and "prompts      1 " in p.stdout,
      p.stderr)

# a killed benchmark's folder goes with the next one's start
bench = [hone, "bench", "cpu", "--python=", "--length", "16", "--sequences", "1", "--max_new_tokens", "2",
         "--hidden_size", "16", "--num_hidden_layers", "1"]
p = subprocess.Popen([*bench, "--rounds", "1000", "--train_steps", "1000000"], stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
left = lambda: glob.glob(f"/tmp/hone-bench-{p.pid}-*")
for _ in range(200):
    if left():
        break
    time.sleep(0.05)
made = left()
p.kill()
p.wait()
p2 = run(*bench, "--rounds", "1", "--train_steps", "1", "--json", expect=0)
check("the folder of a killed benchmark is taken away", made and not left(), made)
figures = [v["hone"] for v in json.loads(p2.stdout).values() if isinstance(v, dict)]
check("a benchmark of one round has all its figures", len(figures) > 2 and min(figures) > 0, p2.stdout)
done()
