"""hone sft, score and merge as commands, with transformers and peft as oracle.  timeout: 300

A byte-level tokenizer and a tiny random Qwen3 model are made here; nothing is downloaded."""
import gzip, json, os, random, re, shutil, signal, sqlite3, subprocess, sys, time

sys.path.append("tests")
from command import check, done, hone, work_folder
from command import run as run_any

work = work_folder("sft_command")


def run(*args, expect=0):
    return run_any(hone, *args, expect=expect)


def make_model():
    import torch, transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(["def add(x, y): return x + y", "kernel block size offset mask load store"] * 20,
                          trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                              show_progress=False))
    t.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    torch.manual_seed(1)
    config = transformers.Qwen3Config(vocab_size=t.get_vocab_size() + 5, hidden_size=48, intermediate_size=96,
                                      num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      head_dim=16, max_position_embeddings=200, tie_word_embeddings=True,
                                      eos_token_id=t.token_to_id("<|end|>"), bos_token_id=None)
    transformers.Qwen3ForCausalLM(config).save_pretrained(f"{work}/model")
    t.save(f"{work}/model/tokenizer.json")
    return t


def make_data():
    rng = random.Random(3)
    rows = []
    for i in range(90):
        a, b = rng.randrange(50), rng.randrange(50)
        rows.append(dict(prompt=f"add {a} {b}\n", completion=f"load {a} store {a + b} mask ✓",
                         split="dev" if i % 9 == 0 else "train", extra=1))
    rows.append(dict(prompt="p", completion="x " * 300))            # refused: too long
    rows.append(dict(prompt="p", completion="c", split="hand"))     # of another split
    # no label, and its structure is a test structure
    rows.append(dict(prompt="p", completion="c", structure="chain:a0"))
    rows.append(dict(prompt="ends by itself", completion="yes<|end|>"))
    with gzip.open(f"{work}/pairs.jsonl.gz", "wt") as f:
        f.write("\n".join(json.dumps(r) for r in rows) + "\n\n")
    return rows


COMMON = ["--model", f"{work}/model", "--data", f"{work}/pairs.jsonl.gz", "--max_tokens", 150, "--learning_rate", 5e-3,
          "--num_train_epochs", 3, "--eval_steps", 10, "--save_steps", 4, "--logging_steps", 1, "--threads", 2,
          "--lora_dropout", 0.05, "--lora_r", 8]   # the adapter's at the end


def encode(t, text):
    return t.encode(text, add_special_tokens=False).ids


def oracle(path, adapter=None):
    import torch, transformers
    m = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
    if adapter:
        import peft
        m = peft.PeftModel.from_pretrained(m, adapter)
    return m.eval()


def logprobs(model, ids, begin, temperature=1.0):
    import torch
    with torch.no_grad():
        lp = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0] / temperature, -1)
    return [lp[k - 1, ids[k]].item() for k in range(begin, len(ids))]


def metrics(out):
    return [json.loads(l) for l in open(f"{out}/metrics.jsonl")]


def test_plan():
    p = run("sft", *COMMON, "--dry_run")
    check("a dry run counts examples, refusals and other splits",
          p.returncode == 0 and "train 81 examples" in p.stdout and "held-out 10" in p.stdout
          and "refused 1" in p.stdout and "other splits 2" in p.stdout and "memory:" in p.stdout, p.stdout + p.stderr)
    # What is planned is what runs: a real run prints the same lines.
    r = run("sft", *COMMON, "--output_dir", f"{work}/planned", "--max_steps", 1)
    parts = [[line for line in text.splitlines() if " MiB" in line or line.startswith("parameters")]
             for text in (p.stdout, r.stderr)]
    check("and plans the very memory that a run does", r.returncode == 0 and len(parts[0]) > 5 and parts[0] == parts[1],
          parts)
    r = run("sft", *COMMON, "--output_dir", f"{work}/planned", "--max_steps", 1, "--memory", "900TiB")
    check("a cap above what there is limits nothing, and is not what the plan names",
          r.returncode == 0 and "this machine has" in r.stderr and "--memory allows" not in r.stderr, r.stderr)
    open(f"{work}/no_dev.jsonl", "w").write('{"prompt": "a", "completion": "b"}\n')
    # a folder without weights and a device that is not here are enough
    bare = f"{work}/bare"
    os.makedirs(bare)
    config = json.load(open(f"{work}/model/config.json"))
    shutil.copy(f"{work}/model/tokenizer.json", bare)
    json.dump(config, open(f"{bare}/config.json", "w"))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    plan = ("sft", "--model", bare, *COMMON[2:], "--dry_run")
    b = run(*plan)
    check("a dry run needs no weights", b.returncode == 0 and b.stdout == p.stdout, b.stdout + b.stderr)
    gpu = run(*plan, "--device", "cuda", "--memory", "80GiB")
    check("nor a device: bf16 weights, fp32 masters, the driver's share",
          gpu.returncode == 0 and "train 81 examples" in gpu.stdout
          and re.search(r"^weights .* bf16", gpu.stdout, re.M) and re.search(r"^driver +1024.0 MiB", gpu.stdout, re.M)
          and "--memory allows 81920.0 MiB: it fits" in gpu.stdout, gpu.stdout + gpu.stderr)
    gpu = run(*plan, "--device", "cuda")
    check("without a cap there is nothing to compare with, and why is said",
          gpu.returncode == 0 and "no such device here to compare with" in gpu.stdout
          and re.search("the plan is compared with no device: (device cuda: no NVIDIA GPU|--device cuda needs libhone)",
                        gpu.stderr), gpu.stdout + gpu.stderr)
    little = run(*plan, "--device", "cuda", "--memory", "1300MiB", "--max_tokens", 4194304, expect=1)
    most = re.search(r"memory: .* but --memory allows 1300 MiB; with --max_tokens (\d+) it fits", little.stderr)
    # A token has a row of angles, of one model, and seven numbers of a batch.
    tables = re.search(r"^tables +([\d.]+) MiB", little.stdout, re.M)
    check("what lies beside the activations is that of one pass",
          tables and abs(float(tables[1]) - 4194304 * (4 * config["head_dim"] + 4 * 7) / 2**20) < 0.2, little.stdout)
    check("what does not fit is refused, and says with how many tokens it would", little.returncode == 1 and most
          and "it does not fit" in little.stdout, little.stdout + little.stderr)
    for more, ends in ((0, 0), (1, 1)):
        q = run(*plan, "--device", "cuda", "--memory", "1300MiB", "--max_tokens",
                (int(most[1]) if most else 2) + more, expect=ends)
        check(f"with {more} more it does {'not' if more else ''}", q.returncode == ends, q.stdout + q.stderr)
    # with two tokens the demo's model takes 1166 MiB with an adapter, and
    # 1189 when all of it learns
    demo = ("sft", "--model", "recipes/demo/start", "--data", "recipes/demo/pairs.jsonl.gz", "--dry_run", "--device",
            "cuda")
    for option, cap, said in (("--use_peft", 1100, "does not help: take a smaller model or more memory"),
                              ("--no-use_peft", 1175, "for all weights are trained: train an adapter (--use_peft)"),
                              ("--no-use_peft", 1100, "does not help: take a smaller model or more memory")):
        q = run(*demo, option, "--memory", f"{cap}MiB", expect=1)
        check(f"{option}, {cap} MiB: what fewer tokens do not mend is told apart",
              q.returncode == 1 and said in q.stderr and f"but --memory allows {cap} MiB" in q.stderr, q.stderr)
    # what a run refuses before its first step, its plan refuses in the same words
    two = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for options, variables, said in ((("--num_train_epochs", 0), {}, "the run would never end"),
                                     (("--num_train_epochs", "1e300"), {}, "expected a finite number, 0 to 100000"),
                                     (("--stop_at_eval_minimum",), {}, "needs held-out examples"),
                                     ((), two, "gradient_accumulation_steps 1 with 2 ranks; expected a multiple")):
        os.environ.update(variables)
        common = ("sft", "--model", bare, "--data", f"{work}/no_dev.jsonl", *options)
        q = run(*common, "--dry_run", expect=2)
        check(f"refused by the plan: {said}", q.returncode == 2 and said in q.stderr and not q.stdout,
              q.stdout + q.stderr)
        for name in variables:
            del os.environ[name]
    json.dump({**config, "head_dim": 20}, open(f"{bare}/config.json", "w"))
    q = run(*plan, "--device", "cuda", "--memory", "80GiB", expect=1)
    check("a shape that a GPU's kernels do not take is refused by the config",
          q.returncode == 1 and "heads of 20 elements; device cuda takes multiples of 8" in q.stderr, q.stderr)
    del os.environ["CUDA_VISIBLE_DEVICES"]
    with open(f"{work}/mislabelled.jsonl", "w") as f:
        f.write(json.dumps(dict(prompt="p", completion="c", structure="chain:a0", split="train")) + "\n")
    p = run("sft", "--model", f"{work}/model", "--data", f"{work}/mislabelled.jsonl", "--output_dir", f"{work}/x",
            expect=1)
    check("a test structure that is labelled train is refused by line",
          p.returncode == 1 and "mislabelled.jsonl:1" in p.stderr and "belongs to test" in p.stderr, p.stderr)
    p = run("sft", "--model", f"{work}/model", "--data", f"{work}/none.jsonl", "--output_dir", f"{work}/x", expect=1)
    check("a missing file is named", p.returncode == 1 and "none.jsonl" in p.stderr, p.stderr)
    check("wrong usage exits with 2", run("sft", "--model", "m", expect=2).returncode == 2
          and run("score", "--modle", "m", expect=2).returncode == 2 and run("merge", expect=2).returncode == 2)
    with open(f"{work}/bad.jsonl", "w") as f:
        f.write('{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n')
    p = run("sft", "--model", f"{work}/model", "--data", f"{work}/bad.jsonl", "--output_dir", f"{work}/x", expect=1)
    check("a bad row is named with its line", "bad.jsonl:2" in p.stderr and "completion" in p.stderr, p.stderr)


def test_adapter(t, rows):
    p = run("sft", *COMMON, "--output_dir", f"{work}/run")
    m = metrics(f"{work}/run")
    check("sft trains an adapter and prints its folder", p.returncode == 0 and p.stdout.strip() == f"{work}/run/final",
          p.stderr)
    evals = [x["eval_loss"] for x in m if "eval_loss" in x]
    check("metrics have every step, and the held-out loss falls",
          [x["step"] for x in m] == list(range(1, len(m) + 1)) and evals[-1] < evals[0], evals)
    model, total, n = oracle(f"{work}/model", f"{work}/run/final"), 0.0, 0
    for r in rows:
        if r.get("split") == "dev":
            prompt = encode(t, r["prompt"])
            ids = prompt + encode(t, r["completion"]) + [t.token_to_id("<|end|>")]
            lp = logprobs(model, ids, len(prompt))
            total, n = total - sum(lp), n + len(lp)
    # Means of n fp32 log-probabilities whose logits err by eps sqrt(K) depth ~ 2e-5 relative to
    # logits of order 1.
    check("peft computes the same held-out loss from the saved adapter", abs(total / n - evals[-1]) < 5e-5,
          (total / n, evals[-1]))
    import sqlite3
    tables = sqlite3.connect(f"{work}/run/hone.db").execute("select name from sqlite_master").fetchall()
    check("the store has the run", len(tables) > 0, tables)
    return m


def test_score(t):
    prompt, completion = "add 3 4\n", "load 3 store 7 mask ✓<|end|>"
    open(f"{work}/prompt", "w").write(prompt)
    open(f"{work}/completion", "w").write(completion)
    ids = encode(t, prompt)
    begin = len(ids)
    ids += encode(t, completion)
    args = ["score", "--model", f"{work}/model", "--prompt-file", f"{work}/prompt",
            "--completion-file", f"{work}/completion", "--json"]
    # The base model, the adapter, and the adapter at another temperature.
    for adapter, extra in ((None, []), (f"{work}/run/final", []),
                           (f"{work}/run/final", ["--batch-invariant", "--temperature", "0.6"])):
        got = json.loads(run(*args, *extra, *(["--adapter", adapter] if adapter else [])).stdout)
        want = logprobs(oracle(f"{work}/model", adapter), ids, begin, 0.6 if extra else 1.0)
        worst = max(abs(a - b) for a, b in zip(got["logprobs"], want))
        check(f"score agrees with transformers, adapter {bool(adapter)} {' '.join(extra)}",
              got["tokens"] == ids[begin:] and len(want) == len(got["logprobs"]) and worst < 5e-5,
              (worst, got["tokens"], ids[begin:]))
    open(f"{work}/empty", "w").close()
    p = run("score", "--model", f"{work}/model", "--prompt-file", f"{work}/empty",
            "--completion-file", f"{work}/completion", expect=1)
    check("an empty prompt is refused", "no tokens" in p.stderr, p.stderr)
    # What the adapter adds is in the weights of a merged model.
    p = run("merge", "--model", f"{work}/model", "--adapter", f"{work}/run/final", "--out", f"{work}/merged")
    want = logprobs(oracle(f"{work}/merged"), ids, begin)
    got = json.loads(run(*args, "--adapter", f"{work}/run/final").stdout)["logprobs"]
    check("merged weights score the same and carry the tokenizer",
          os.path.exists(f"{work}/merged/tokenizer.json") and max(abs(a - b) for a, b in zip(got, want)) < 5e-5,
          (got, want))


def tree(path):
    return {os.path.relpath(os.path.join(d, f), path): open(os.path.join(d, f), "rb").read()
            for d, _, files in os.walk(path) for f in files}


def start(out):
    return subprocess.Popen([hone, "sft", *map(str, COMMON), "--output_dir", out], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


def kill_when(out, moment):
    """Starts or continues the run and kills it once moment() holds; whether it was still
    running."""
    p = start(out)
    while p.poll() is None and not moment():
        time.sleep(0.0005)
    p.kill()
    return p.wait() == -signal.SIGKILL


def rows(out):
    return open(f"{out}/metrics.jsonl").read().count("\n") if os.path.exists(f"{out}/metrics.jsonl") else 0


def test_kill(whole):
    """At three steps, twice while final/ is written, and at moments of chance."""
    out, kills = f"{work}/killed", 0
    for share in (0.2, 0.5, 0.8):
        step = random.randint(1, int(share * len(whole)))
        kills += kill_when(out, lambda: rows(out) >= step)
    for _ in range(2):
        kills += kill_when(out, lambda: os.path.isdir(f"{out}/final"))
    for _ in range(4):
        end = time.time() + random.uniform(0.0, 0.2)
        kills += kill_when(out, lambda: time.time() > end)
    p = start(out)
    p.wait()
    got, want = tree(f"{out}/final"), tree(f"{work}/run/final")
    differ = sorted(name for name in got.keys() | want.keys() if got.get(name) != want.get(name))
    steps = [m["step"] for m in metrics(out)]
    check(f"killed and continued: same final bytes, same metrics (# kills {kills})",
          kills >= 3 and p.returncode == 0 and not differ and metrics(out) == whole,
          f"{p.stderr.read().decode()}\nfiles that differ: {differ}\nsteps: {steps}")


def test_claim():
    """While another process writes into the folder a second run is refused, and takes nothing of
    the first one's away."""
    import fcntl
    out = f"{work}/claimed"
    os.makedirs(out)
    half = f"{out}/checkpoint-4.tmp"
    open(half, "w").close()
    holder = os.open(out, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    p = run("sft", *COMMON, "--max_steps", 1, "--output_dir", out, expect=1)
    check("a claimed folder is refused by name",
          f"{out}: another hone is writing into this folder" in p.stderr and os.path.exists(half), p.stderr)
    os.close(holder)
    run("sft", *COMMON, "--max_steps", 1, "--output_dir", out)
    check("a free one is cleaned and used",
          not os.path.exists(half) and os.path.exists(f"{out}/final/adapter_config.json"))


def test_settings():
    """A run is not continued under settings that its checkpoint would not notice: the adapter's,
    and another model of the same shapes."""
    out, other = f"{work}/settings", f"{work}/other_model"
    two = [*COMMON, "--max_steps", 2, "--lr_scheduler_type", "constant", "--output_dir", out]
    run("sft", *two)
    for option, value in (("lora_alpha", 8.0), ("lora_dropout", 0.1), ("device", "check")):
        p = run("sft", *two, f"--{option}", value, "--max_steps", 3, expect=1)
        check(f"another {option} is refused by name", f"made with {option} " in p.stderr
              and f"now it is {json.dumps(value)};" in p.stderr, p.stderr)
    p = run("sft", *two, "--stop_at_eval_minimum", "--max_steps", 3, expect=1)
    check("a run that kept no best weights is not continued to its minimum",
          "stop_at_eval_minimum null, now it is \"patience 3, eval_steps 10" in p.stderr, p.stderr)
    import torch, transformers
    m = transformers.AutoModelForCausalLM.from_pretrained(f"{work}/model", dtype=torch.float32)
    shutil.copytree(f"{work}/model", other)
    with torch.no_grad():
        for p in m.parameters():
            p.mul_(1.01)
    m.save_pretrained(other)
    p = run("sft", *two, "--model", other, "--max_steps", 3, expect=1)
    check("another model of the same shapes is refused", "weights (hash of the model" in p.stderr, p.stderr)
    p = run("sft", *two, "--max_steps", 3)
    check("the same settings go on", p.returncode == 0, p.stderr)


def test_shared_store():
    """Two folders of one name in one store are two runs, and each goes on."""
    program, store = os.path.abspath(hone), os.path.abspath(f"{work}/shared.db")
    common = [str(a) for a in COMMON]
    for i, name in enumerate(common):
        if name.startswith(work):
            common[i] = os.path.abspath(name)
    for steps in (1, 2):
        for place in ("here", "there"):
            os.makedirs(f"{work}/{place}", exist_ok=True)
            p = subprocess.run([program, "sft", *common, "--max_steps", str(steps), "--lr_scheduler_type", "constant",
                                "--output_dir", "run", "--store", store], cwd=f"{work}/{place}", capture_output=True,
                               text=True, timeout=300)
            check(f"run of {steps} steps in {place}", p.returncode == 0, p.stderr)
    db = sqlite3.connect(store)
    rows = db.execute("SELECT runs.name, max(step), count(*) FROM runs JOIN metrics ON run = id GROUP BY id").fetchall()
    check("the store holds two runs with their own rows",
          len(rows) == 2 and all(r[1] == 2 for r in rows) and rows[0][0] != rows[1][0], rows)


def test_weights():
    p = run("sft", *COMMON[:-4], "--no-use_peft", "--output_dir", f"{work}/full", "--stop_at_eval_minimum",
            "--max_steps", 6)
    check("sft trains all weights into a model folder",
          p.returncode == 0 and os.path.exists(f"{work}/full/final/model.safetensors") and os.path.exists(
              f"{work}/full/best/model.safetensors") and os.path.exists(f"{work}/full/final/tokenizer.json"), p.stderr)
    import torch
    m = oracle(f"{work}/full/final")
    check("transformers opens it", torch.isfinite(m(input_ids=torch.tensor([[1, 2, 3]])).logits).all())


def main():
    try:
        import peft, torch, transformers    # peft: of the oracles below
    except ImportError:
        print("1..1\nok 1 - sft # SKIP transformers and peft are not in build/venv")
        return
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    t, rows = make_model(), make_data()
    test_plan()
    whole = test_adapter(t, rows)
    test_score(t)
    test_kill(whole)
    test_claim()
    test_settings()
    test_shared_store()
    test_weights()
    done()


main()
