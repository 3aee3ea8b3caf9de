"""hone rl --dry_run with the paper's recipes and a Qwen3-8B that is a config and a small tokenizer,
no weights; the recipes' values; one step with each on a tiny policy.
timeout: 600"""
import glob, json, os, re, shutil, sqlite3, sys

sys.path.append("tests")
from command import check, done, hone, run, tiny_policy, work_folder

work = work_folder("rl_dry_run")
MIB = 1 << 20
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096,
          "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
          "intermediate_size": 12288, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
          "tie_word_embeddings": False, "attention_bias": False, "hidden_act": "silu", "bos_token_id": 151643,
          "eos_token_id": 151645, "torch_dtype": "bfloat16"}
PARAMETERS = 8190735360     # what Qwen publishes as 8.2B, and what the sum over the config gives: see parameters()
PAPER = {"use_peft": True, "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.05,
         "lora_target_modules": "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "level": 1, "split": "",
         "max_prompt_length": 512, "truncate_prompts": True, "num_generations": 4, "generation_batch_size": 4,
         "max_completion_length": 512, "advantage": "mean_std", "beta": 0.1, "epsilon": 0.2, "epsilon_high": 0.2,
         "num_iterations": 1, "learning_rate": 1e-6}
TASK = """import torch
import torch.nn as nn
{comment}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(8, 50)]

def get_init_inputs():
    return []
"""


def parameters():
    c = CONFIG
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    layer = (c["hidden_size"] * (2 * q + 2 * kv) + 3 * c["hidden_size"] * c["intermediate_size"] + 2 * c["hidden_size"]
             + 2 * c["head_dim"])
    return c["num_hidden_layers"] * layer + 2 * c["vocab_size"] * c["hidden_size"] + c["hidden_size"]


def adapter(modules, rank=16):
    h, q, kv, m = 4096, 4096, 1024, 12288
    sides = {"q_proj": h + q, "k_proj": h + kv, "v_proj": h + kv, "o_proj": q + h, "gate_proj": h + m, "up_proj": h + m,
             "down_proj": m + h}
    return 36 * rank * sum(sides[n] for n in modules)


def plan(*args, model="qwen3_8b", expect=0):
    if "--memory" not in args and "--cuda_card" not in args:
        args = (*args, "--memory", "1TiB")    # this machine's own may be too little
    p = run(hone, "rl", "--model", f"{work}/{model}", "--dry-run", *args, expect=expect)
    return p, {m[1].strip(): float(m[2]) for m in re.finditer(r"^([a-zA-Z ]+?) +([\d.]+) MiB", p.stdout, re.M)}


def near(mib, count):
    return abs(mib - count * 4 / MIB) <= 0.05 + 1e-9    # one decimal is printed


def values(recipe):
    found = {}
    for line in open(f"recipes/{recipe}.yaml"):
        m = re.match(r"(\w+): *(\"[^\"]*\"|[^#\s]+)", line)
        if m:
            found[m[1]] = json.loads(m[2]) if re.match(r'["\d-]|true|false', m[2]) else m[2]
    return found


def test_recipes():
    for recipe, stage in (("paper-frontend", "frontend"), ("paper-midend", "midend")):
        found = values(recipe)
        wrong = {k: found.get(k) for k, v in {**PAPER, "stage": stage, "reward": recipe}.items() if found.get(k) != v}
        check(f"{recipe}: the paper's values", not wrong, wrong)
        text = open(f"recipes/{recipe}.yaml").read()
        check(f"{recipe}: each value that the paper does not state is said to be such",
              all(re.search(rf"^{k}:.*not stated", text, re.M)
                  for k in ("temperature", "loss_type", "epsilon", "lr_scheduler_type")))


def test_plan(policy):
    os.makedirs(f"{work}/qwen3_8b")
    json.dump(CONFIG, open(f"{work}/qwen3_8b/config.json", "w"))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        open(f"{work}/qwen3_8b/{name}", "w").write(open(f"{policy}/init/{name}").read())
    with open(f"{work}/tasks.jsonl", "w") as f:
        for n in range(5):    # two with so many words that they are cut, one of another level
            f.write(json.dumps({"code": TASK.format(comment="# many words\n" * (2000 * (n < 2))), "level": 1 + (n == 4),
                                "name": f"{n + 1}_Task", "problem_id": n + 1}) + "\n")
    p, m = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl")
    check("the plan needs no weights", p.returncode == 0 and not os.path.exists(f"{work}/qwen3_8b/model.safetensors"),
          p.stderr)
    every = PAPER["lora_target_modules"].split(",")
    check("weights and adapter",
          parameters() == PARAMETERS and near(m.get("weights", 0), PARAMETERS) and near(m.get("adapter", 0),
              adapter(every)) and "8.191 billion" in p.stdout and "43.6 million" in p.stdout, p.stdout)
    check("gradients and moments are the adapter's, the reference costs nothing", near(m.get("gradients", 0),
        adapter(every)) and near(m.get("optimiser", 0), 2 * adapter(every)) and m.get("reference") == 0, m)
    check("KV: keys and values, 36 layers, 8 heads of 128, 4 sequences of 1024 in pages of 32, and one page for copies",
          near(m.get("KV cache", 0), 2 * 36 * 8 * 128 * (4 * 1024 + 32)), m)
    check("the total is the sum",
          "total" in m and abs(m["total"] - sum(v for k, v in m.items() if k not in ("total",))) < 1, m)
    check("prompts: the four of level 1; all are cut, the small tokenizer needs more than 512 for the template alone",
          re.search(r"^prompts +4 \(2048 tokens; .*longest 512; 0 refused, 4 cut\)", p.stdout, re.M), p.stdout)
    long, _ = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", "--max_prompt_length", "2000")
    check("the two with many words are cut at 2000",
          re.search(r"^prompts +4 \(.*longest 2000; 0 refused, 2 cut\)", long.stdout, re.M), long.stdout)
    check("what would run", "300 of 1 prompts x 4 answers, at most 512 new tokens" in p.stdout
          and "at most 2048 written" in p.stdout and "75.00 passes" in p.stdout and "dapo, mean_std" in p.stdout
          and "beta 0.1" in p.stdout and "1 if C, else -10" in p.stdout, p.stdout)
    p, m = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl",
                "--lora_target_modules", "q_proj,down_proj")
    check("fewer projections, a smaller adapter", near(m.get("adapter", 0), adapter(["q_proj", "down_proj"])), m)
    p, m = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", "--no-use_peft")
    check("all weights: gradients, moments and the reference are as large as they are", near(m.get("gradients", 0),
        PARAMETERS) and near(m.get("optimiser", 0), 2 * PARAMETERS) and near(m.get("reference", 0), PARAMETERS), m)
    gpu = ("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", "--device", "cuda", "--memory")
    p, m = plan(*gpu, "139GiB")
    # bf16, with 64 columns beside every projection; the adapter's masters, gradients and moments in
    # fp32; KV in bf16
    sides = 36 * (4096 + 1024 + 1024 + 4096 + 2 * 12288 + 4096)
    check("a GPU's plan needs no GPU: bf16 weights with their tail, fp32 masters, KV of half the bytes",
          near(m.get("weights", 0), (PARAMETERS + 64 * sides) / 2) and near(m.get("masters", 0), adapter(every))
          and near(m.get("adapter", 0), adapter(every) / 2) and near(m.get("KV cache", 0),
                                                                     36 * 8 * 128 * (4 * 1024 + 32))
          and m.get("driver", 0) > 0 and "--memory allows 142336.0 MiB: it fits" in p.stdout, p.stdout)
    p, m = plan(*gpu, "30GiB", expect=1)
    check("what does not fit says what would", "computed again in backward" in p.stdout
          and "it does not fit" in p.stdout and re.search(r"with --max_tokens (\d+) it fits", p.stdout), p.stdout)
    check("and ends as the run would, with the sum", p.returncode == 1 and re.search(
        r"^hone rl: memory: weights \d+ .* = \d+ MiB, but --memory allows 30720 MiB; with --max_tokens \d+ it fits$",
        p.stderr, re.M), p.stderr)
    p, m = plan(*gpu, "30GiB", "--max_tokens", re.search(r"with --max_tokens (\d+) it fits", p.stdout)[1])
    check("and then it does", ": it fits" in p.stdout, p.stdout)
    card = (*gpu[:-1], "--cuda_card")
    p, m = plan(*card, "rtx4090", expect=1)
    most = re.search(r"the card has 24210.3 MiB: it does not fit\n.*with --max_tokens (\d+) it fits", p.stdout)
    check("an RTX 4090's 24 GiB hold an 8B's training with fewer tokens at once; the sum says so",
          most and m.get("total", 0) > 24210.3, p.stdout)
    p, m = plan(*card, "RTX 4090", "--max_tokens", most[1] if most else 0)
    check("and then they do", "the card has 24210.3 MiB: it fits" in p.stdout and m.get("total", 1e9) <= 24210.3,
          p.stdout)
    p, m = plan(*card, "a100")
    check("an A100's 79 GiB hold it as it is",
          "4096 packed tokens, forward and backward\n" in p.stdout and "the card has 81153.8 MiB: it fits" in p.stdout,
          p.stdout)
    p, m = plan(*card, "a100", "--memory", "30GiB", expect=1)
    check("the smaller of card and --memory holds", "--memory allows 30720.0 MiB: it does not fit" in p.stdout,
          p.stdout)
    p, _ = plan(*card, "tpu", expect=2)
    check("a card that nobody knows is refused by those that are known",
          p.returncode == 2 and "H200, H100, A100" in p.stderr, p.stderr)
    p, _ = plan(*gpu, "40", expect=2)
    check("a cap without a unit is refused", p.returncode == 2 and "as 24GiB" in p.stderr, p.stderr)
    p, _ = plan(*gpu, "", expect=2)
    check("an empty cap is no cap: it is refused by name", p.returncode == 2 and '--memory "": expected' in p.stderr,
          p.stderr)
    p, _ = plan(*gpu, "0.0000001MB", expect=2)
    check("a cap of no byte is no cap: it is refused by the least one",
          p.returncode == 2 and '"0.0000001MB": expected 1MB or more' in p.stderr and not p.stdout, p.stdout + p.stderr)
    # All weights, their masters, gradients and moments are 18 bytes a parameter, which no shorter
    # answer makes less; a second copy of the weights is two more.
    for cap, beta, said in (("139GiB", "0.1", "train an adapter (--use_peft), take a smaller model or more memory"),
                            ("139GiB", "0", "train an adapter (--use_peft), take a smaller model or more memory"),
                            ("150GiB", "0.1",
                             "set --beta 0, which needs no second copy of them, or train an adapter (--use_peft)")):
        p, _ = plan(*gpu, cap, "--no-use_peft", "--beta", beta, expect=1)
        check(f"all weights, {cap}, beta {beta}: shorter answers do not help, and what does is said",
              p.returncode == 1 and "shorter answers do not help, for all weights are trained: " + said in p.stderr
              and "--max_completion_length" not in p.stderr, p.stderr)
    p, _ = plan(*gpu, "16GiB", expect=1)
    check("an adapter whose weights alone do not fit needs a smaller model",
          p.returncode == 1 and "shorter answers do not help: take a smaller model or more memory" in p.stderr,
          p.stderr)
    p, _ = plan(*gpu[:-1], "--memory", "1TiB", "--max_tokens", "4194305", expect=2)
    check("more tokens than a pass takes are refused by name", p.returncode == 2 and "max_tokens" in p.stderr
          and "4194304" in p.stderr and not p.stdout, p.stderr)


def test_refused_by_the_plan(policy):
    """What the run would refuse when it opens weights and adapter, the plan
    refuses by the config."""
    odd = {"heads": ({"head_dim": 100}, "heads of 100 elements; device cuda takes multiples of 8 up to 256"),
           "vocabulary": ({"vocab_size": 393217}, "a vocabulary of 393217 tokens; device cuda takes at most 393216"),
           "hidden": ({"hidden_size": 12296}, "a hidden size of 12296; device cuda takes multiples of 8 up to 12288"),
           "mlp": ({"intermediate_size": 12290}, "an MLP of 12290 columns; device cuda takes multiples of 8")}
    # each is one number away from what a GPU takes, and the CPU takes them all
    for name, (values, said) in odd.items():
        shutil.copytree(f"{work}/qwen3_8b", f"{work}/{name}")
        json.dump({**CONFIG, **values}, open(f"{work}/{name}/config.json", "w"))
        common = ("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", "--device")
        p, _ = plan(*common, "cuda", model=name, expect=1)
        check(f"{name}: a GPU's limits hold for its plan",
              p.returncode == 1 and f"{work}/{name}: {said}" in p.stderr and not p.stdout, p.stdout + p.stderr)
        p, _ = plan(*common, "cpu", model=name)
        check(f"{name}: the CPU has none", p.returncode == 0, p.stderr)
    for option, said in ((("--lora_target_modules", "q_proj,x_proj"), '"x_proj" is unknown'),
                         (("--replay_pairs", f"{work}/none.jsonl", "--replay_updates", "1"), "none.jsonl: cannot be"),
                         (("--adapter", f"{work}/none"), "none/adapter_config.json: no such file; expected a PEFT")):
        p, _ = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", *option, expect=None)
        r = run(hone, "rl", "--recipe", "paper-frontend", "--model", f"{policy}/init", "--tasks",
                f"{work}/tasks.jsonl", "--output_dir", f"{work}/never", *option, expect=None)
        check(f"{option[0]}: refused as the run refuses it", p.returncode == r.returncode != 0 and said in p.stderr
              and p.stderr.splitlines()[-1] == r.stderr.splitlines()[-1], p.stderr + r.stderr)
    # torchrun's variables speak of several ranks, which the plan knows without them
    ranks = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    os.environ.update(ranks)
    for options, said in ((("--num_generations", "4"), "1 groups a step for 3 ranks"),
                          (("--num_turns", "2"), "--num_turns above 1: not with several ranks")):
        p, _ = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", *options, expect=2)
        check(f"ranks: {said}", p.returncode == 2 and said in p.stderr and not p.stdout, p.stdout + p.stderr)
    os.environ["RANK"] = "1"
    one = ("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", "--generation_batch_size", "12")
    p, _ = plan(*one)
    little, _ = plan(*one, "--memory", "1GiB", expect=1)
    check("one rank prints the plan, all end by it", p.returncode == 0 and not p.stdout and little.returncode == 1
          and not little.stdout and "--memory allows 1024 MiB" in little.stderr, p.stdout + p.stderr + little.stderr)
    for name in ranks:
        del os.environ[name]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    p = run(hone, "rl", "--model", f"{work}/qwen3_8b", "--dry_run", "--recipe", "paper-frontend", "--tasks",
            f"{work}/tasks.jsonl", "--device", "cuda", expect=0)
    check("without a device and a cap there is nothing to hold the plan against",
          p.returncode == 0 and "no such device here to compare with" in p.stdout
          and "the plan is compared with no device: " in p.stderr, p.stdout + p.stderr)
    del os.environ["CUDA_VISIBLE_DEVICES"]


def test_plan_midend():
    p, m = plan("--recipe", "paper-midend", "--tasks", "recipes/demo/midend.jsonl.gz", "--split", "train")
    check("the mid-end's plan, on rows with kernel and profile",
          p.returncode == 0 and "beta + alpha reference / kernel (raw) if C, else -10" in p.stdout
          and near(m.get("weights", 0), PARAMETERS), p.stdout + p.stderr)
    p, _ = plan("--recipe", "paper-midend", "--tasks", f"{work}/tasks.jsonl", expect=1)
    check("tasks without kernels are no prompts of the mid-end", p.returncode == 1 and 'no field "profile"' in p.stderr
          and "`hone pairs synth --stage midend` writes such rows" in p.stderr, p.stderr)
    p, _ = plan("--recipe", "paper-frontend", "--tasks", f"{work}/tasks.jsonl", "--level", "3", expect=1)
    check("a level without tasks is an error", p.returncode == 1 and "no prompt left" in p.stderr, p.stderr)


def test_settings_that_do_not_go_together(policy):
    for options, said in ((("--advantage", "maxrl", "--reward", "paper-frontend"), "must not be negative"),
                          (("--advantage", "maxrl", "--overlong_buffer_len", "4"), "overlong_buffer_len"),
                          (("--loss_type", "cispo"), "cap of the ratio"),
                          (("--delta", "1.2", "--num_iterations", "2"), "more than 1 + epsilon_high"),
                          (("--loss_type", "cispo", "--epsilon_high", "5", "--delta", "7", "--num_iterations",
                            "2"), "one cap"),
                          (("--guard_kl", "0.1"), "set --beta"),
                          (("--min_p", "0.1", "--top_p", "0.9"), "use one"),
                          (("--num_generations_first", "8"), "num_generations_first"),
                          (("--num_turns", "2", "--num_generations_first", "2"), "are drawn whole"),
                          (("--num_turns", "2", "--filter_groups"), "are drawn whole"),
                          (("--steps_per_generation", "65"), "steps_per_generation"),
                          (("--level_weights", "1:1"), "promise"),
                          (("--level_weights", "1:1,", "--prompt_selection", "promise", "--level_admission", "0.5",
                            "--policy_weight", "0"), "nothing would train"),
                          (("--level_admission", "0.5"), "level_weights"),
                          (("--replay_pairs", f"{policy}/pairs.jsonl"), "without --replay_updates"),
                          (("--prompt_selection", "promise", "--level_weights", "one"), "LEVEL:WEIGHT"),
                          (("--prompt_selection", "promise", "--level_weights", "1:1,9:1"), "no task is of level 9"),
                          (("--reward", "frontend", "--reward_alpha", "1"), "no such constant"),
                          (("--overlong_buffer_len", "200"), "max_completion_length")):
        p = run(hone, "rl", "--model", f"{policy}/init", "--tasks", f"{policy}/tasks.jsonl",
                "--max_completion_length", "100", "--dry_run", *options, expect=2)
        check(f"refused: {' '.join(options)}", p.returncode == 2 and said in p.stderr, p.stderr)
    p = run(hone, "rl", "--model", f"{policy}/init", "--tasks", f"{policy}/tasks.jsonl", "--max_completion_length",
            "100", "--dry_run", "--num_turns", "2", "--max_feedback_length", "16", "--num_generations", "2",
            "--generation_batch_size", "4", expect=1)
    check("refused: a turn that cannot fit, before the first answer",
          p.returncode == 1 and "without any feedback a turn has" in p.stderr, p.stderr)
    # the two that exclude turns, without them
    p = run(hone, "rl", "--model", f"{policy}/init", "--tasks", f"{policy}/tasks.jsonl",
            "--max_completion_length", "100", "--max_steps", "1", "--generation_batch_size", "16", "--dry_run",
            "--num_generations_first", "2", "--filter_groups")
    check("staged groups and dynamic sampling go together where answers stand alone", p.returncode == 0, p.stderr)


def test_arms():
    """The demo's and the studies' recipes are settings that go together; an arm's is read after the
    common one."""
    whole = ["recipes/study/s5.yaml", "recipes/study/s6.yaml", "recipes/demo/rl-frontend.yaml"]
    for path in sorted(glob.glob("recipes/study/s*-*.yaml")) + whole:
        if path.endswith("s2-fit.yaml"):
            continue   # of hone distill
        common = ("--recipe", "recipes/study/common.yaml") if "/study/" in path else ()
        p = run(hone, "rl", *common, "--recipe", path, "--model", "recipes/demo/start",
                "--tasks", "recipes/demo/tasks.jsonl.gz", "--max_seconds", "9", "--limit", "64", "--dry_run")
        check(f"{path}: would run on the demo's start", p.returncode == 0, p.stderr)
    p = run(hone, "rl", "--recipe", "recipes/study/common.yaml", "--recipe", "recipes/study/s1-stock.yaml",
            "--model", "recipes/demo/start", "--tasks", "recipes/demo/tasks.jsonl.gz", "--max_seconds", "9",
            "--limit", "64", "--dry_run")
    check("the arm's reward is the one that would be paid", "KernelBench's own check" in p.stdout, p.stdout)
    check("the demo's start is a file of at most 4 MB",
          os.path.getsize("recipes/demo/start/model.safetensors") <= 4_000_000)


def test_step(policy):
    """One step on a tiny policy: every setting of the recipe is one that training takes."""
    p = run(hone, "rl", "--recipe", "paper-frontend", "--model", f"{policy}/init", "--tasks", f"{work}/tasks.jsonl",
            "--max_steps", "1", "--max_completion_length", "8", "--max_prompt_length", "64",
            "--output_dir", f"{work}/run", "--threads", "1")
    rows = [json.loads(line) for line in open(f"{work}/run/metrics.jsonl")] if p.returncode == 0 else [{}]
    # eight random tokens are no answer: every reward is -10
    check("a step of the frontend's recipe runs, wrong answers earn -10",
          rows[0].get("reward") == -10 and rows[0].get("learning_rate") == 1e-6 and "kl" in rows[0],
          p.stderr + str(rows))


def test_code_temperature(policy):
    """Hot plans, and code that is drawn as good as greedily: it is what the policy knows by heart.
    One prompt is all there is, so it is the longest."""
    p = run(hone, "rl", "--model", f"{policy}/sft/final", "--tasks", f"{policy}/tasks.jsonl",
            "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--limit", "1",
            "--num_generations", "8", "--generation_batch_size", "8", "--max_completion_length", "170",
            "--max_tokens", "1024", "--max_steps", "1", "--num_correct_trials", "1", "--lora_r", "4", "--seed", "1",
            "--threads", "1", "--verify_threads", "1", "--temperature", "1.5", "--temperature_code", "0.01",
            "--output_dir", f"{work}/code_temperature")
    answers = []
    if p.returncode == 0:
        with sqlite3.connect(f"{work}/code_temperature/hone.db") as db:
            answers = [json.loads(row) for row, in db.execute("select row from samples")]
    opened = [(a["task"], a["answer"].split("```python\n", 1)[1]) for a in answers if "```python\n" in a["answer"]]
    # Eight answers to one task; a plan that went astray may take its code along, so two that repeat
    # one are enough.
    check("code is repeated to the letter behind plans that are not",
          len(opened) - len(set(opened)) >= 2 and len({a["answer"] for a in answers}) > len(set(opened)),
          (opened, p.stderr))


def test_refused(policy):
    """A run that does not fit ends before it allocates, with the sum."""
    options = ("--recipe", "paper-frontend", "--model", f"{policy}/init", "--tasks", f"{work}/tasks.jsonl",
               "--max_steps", "1", "--max_completion_length", "8", "--max_prompt_length", "64", "--threads", "1",
               "--memory", "2MiB")
    p = run(hone, "rl", *options, "--output_dir", f"{work}/refused", expect=1)
    check("a run is refused by its plan",
          p.returncode == 1 and re.search(r"memory: .*activations \d+.* = \d+ MiB, but --memory allows 2 MiB; ",
                                          p.stderr) and not os.path.exists(f"{work}/refused/settings.json"), p.stderr)
    planned = run(hone, "rl", *options, "--dry_run", expect=1)
    check("and its dry run ends in the same words", planned.returncode == 1
          and planned.stderr.splitlines()[-1] == p.stderr.splitlines()[-1], planned.stderr + p.stderr)


policy = tiny_policy()
test_recipes()
test_arms()
if policy:
    test_plan(policy)
    test_plan_midend()
    test_refused_by_the_plan(policy)
    test_settings_that_do_not_go_together(policy)
    test_step(policy)
    test_code_temperature(policy)
    test_refused(policy)
done()
