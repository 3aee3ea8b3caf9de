"""hone pairs: what synth writes, check finds to be genuine; what was tampered with, it does not.
timeout: 900"""
import gzip, json, re, shutil, sys

sys.path.append("tests")
from command import check, done, hone, run, tiny_policy, warm_workers, work_folder

work = work_folder("pairs_command")


def pairs(verb, *args):
    return run(hone, "pairs", verb, *args, "--num_correct_trials", 1, "--verify_threads", 1,
               "--store", f"{work}/cache.db")


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def write(name, rows, between=""):
    with open(f"{work}/{name}", "w") as f:
        f.write(between.join(json.dumps(r) + "\n" for r in rows))
    return f"{work}/{name}"


def test_frontend():
    synth = ("--tasks", f"{work}/tasks.jsonl", "--prompt_template", "recipes/prompts/small-frontend.txt",
             "--chat_template", "plain", "--styles", 2)
    p = pairs("synth", *synth, "--out", f"{work}/pairs.jsonl.gz")
    rows = read(f"{work}/pairs.jsonl.gz") if p.returncode == 0 else []
    keys = {"name", "source", "structure", "split", "level", "seed", "prompt", "completion", "style", "choice", "rung",
            "cost_s"}
    check("synth writes a row for each admitted answer, in two styles",
          len(rows) == 4 and all(set(r) == keys for r in rows) and len({(r["name"], r["style"]) for r in rows}) == 4
          and "4 of 4 answers admitted" in p.stdout, p.stdout + p.stderr)
    spent = dict(re.findall(r"^  (\D+?) +([0-9.]+)$", p.stdout, re.M))
    check("where the verdicts' time went is printed", "\nverdicts  4 made" in p.stdout and len(spent) == 10
          and 1 < float(spent.get("machine code", 0)) < 60000, p.stdout)
    check("prompt and completion are the rendered template and plan + code",
          rows and all(r["source"].rstrip() in r["prompt"] and "### kernel" in r["prompt"] for r in rows)
          and all(r["completion"].rstrip().endswith("```") and "```python\n" in r["completion"]
                  and "class ModelNew" in r["completion"] for r in rows), rows[:1])
    # Asked again: every verdict is in the store.
    p = pairs("synth", *synth, "--out", f"{work}/again.jsonl.gz")
    check("the same options give the same bytes, out of the store", p.returncode == 0 and "made" not in p.stdout
          and open(f"{work}/pairs.jsonl.gz", "rb").read() == open(f"{work}/again.jsonl.gz", "rb").read(), p.stderr)
    # Tasks of a rung have several answers each, chosen by their sizes.
    run(hone, "tasks", "synth", "--seed", 2, "--rungs", "T2", "--count_train", 1, "--count_dev", 0, "--count_test", 0,
        "--out", f"{work}/rung.jsonl")
    p = pairs("synth", "--tasks", f"{work}/rung.jsonl", "--prompt_template", "recipes/prompts/small-frontend.txt",
              "--chat_template", "plain", "--choices", 3, "--out", f"{work}/rung_pairs.jsonl")
    both = read(f"{work}/rung_pairs.jsonl") if p.returncode == 0 else []
    check("choices of a rung's task are rows of their own, whose prompts do not say where they are judged",
          len(both) >= 2 and [r["choice"] for r in both] == list(range(len(both)))
          and all(r["name"].endswith(f"-c{r['choice']}") and r["rung"] == "T2" and "Judged at" in r["source"]
                  and "Judged at" not in r["prompt"] for r in both), p.stdout + p.stderr)
    # The same answers as IR, and both kinds graded again.
    p = pairs("synth", *synth, "--form", "ir", "--out", f"{work}/ir.jsonl")
    ir = read(f"{work}/ir.jsonl") if p.returncode == 0 else []
    check("--form ir writes the same answers as the compiler's IR, with a head",
          [(r["name"], r["style"], r["prompt"]) for r in ir] == [(r["name"], r["style"], r["prompt"]) for r in rows]
          and all("```ttir\n// input x0 f32[" in r["completion"] and "\nmodule {\n" in r["completion"]
                  and "import" not in r["completion"] for r in ir), p.stdout + p.stderr)
    p = pairs("check", "--pairs", f"{work}/ir.jsonl", "--fraction", 1)
    check("check grades answers in IR", p.returncode == 0 and "4 of 4 answers" in p.stdout, p.stdout + p.stderr)
    p = pairs("check", "--pairs", f"{work}/pairs.jsonl.gz", "--fraction", 1)
    check("check grades them again", p.returncode == 0 and "4 of 4 answers" in p.stdout, p.stdout + p.stderr)
    return rows


def test_tampered(rows):
    swapped = [dict(r) for r in rows]
    first, last = swapped[0], swapped[-1]   # of different tasks
    first["completion"], last["completion"] = last["completion"], first["completion"]
    # A blank line between rows must not shift rows against tasks.
    p = pairs("check", "--pairs", write("swapped.jsonl", swapped, "\n"), "--fraction", 1)
    check("an answer to another task is found: exit 1, counted",
          p.returncode == 1 and "2 of 4 answers" in p.stdout and "2 answers are not genuine" in p.stderr,
          p.stdout + p.stderr)
    p = pairs("check", "--pairs", write("spaced.jsonl", rows, "\n"), "--fraction", 1)
    check("blank lines are no rows", p.returncode == 0 and "4 of 4 answers" in p.stdout, p.stdout + p.stderr)
    p = pairs("check", "--pairs", write("cut.jsonl", [dict(rows[0], completion="no code at all")]), "--fraction", 1)
    check("a completion without code is named with its line", p.returncode == 1 and "cut.jsonl:1" in p.stderr, p.stderr)
    p = pairs("check", "--pairs",
              write("torch.jsonl",
                    [dict(rows[0], completion="plan\n```python\n" + rows[0]["source"].replace("class Model(",
                        "class ModelNew(") + "```\n")]), "--fraction", 1)
    check("the reference under another name is not genuine", p.returncode == 1 and "0 of 1" in p.stdout,
          p.stdout + p.stderr)
    p = pairs("check", "--pairs", f"{work}/pairs.jsonl.gz", "--fraction", 1e-9)
    check("a check that draws no row does not pass", p.returncode == 1 and "fraction" in p.stderr, p.stdout + p.stderr)


def test_midend():
    p = pairs("synth", "--stage", "midend", "--tasks", f"{work}/tasks.jsonl",
              "--prompt_template", "recipes/prompts/small-midend.txt", "--chat_template", "plain",
              "--out", f"{work}/midend.jsonl")
    rows = read(f"{work}/midend.jsonl") if p.returncode == 0 else []
    check("midend rows show a genuine kernel and its costs",
          rows and all("class ModelNew" in r["kernel"] and r["profile"]["verdict"] == "genuine"
                       and r["profile"]["cost_s"] > 0 and r["kernel"].strip() in r["prompt"]
                       and "total: " in r["prompt"] for r in rows), p.stdout + p.stderr)
    # A mid-end sees a kernel and its costs, not the module: a line of forward would be its
    # solution.
    forward = [[line.strip() for line in r["source"].split("def forward(")[1].split("\n\n")[0].split("\n")[1:]]
               for r in rows]
    check("and nothing of the module's forward", rows and all(forward) and not any(line in r["prompt"]
        for r, lines in zip(rows, forward) for line in lines) and "class Model(" not in "".join(r["prompt"]
            for r in rows), [(r["prompt"], lines) for r, lines in zip(rows, forward)])
    # hone rl reads these rows, and refuses those that would train on the wrong thing.
    # The longest of them has a few tokens more than the tiny policy has positions.
    model = shutil.copytree(f"{tiny_policy()}/init", f"{work}/model")
    config = json.load(open(f"{model}/config.json"))
    json.dump(dict(config, max_position_embeddings=2048), open(f"{model}/config.json", "w"))
    rl = (hone, "rl", "--stage", "midend", "--model", model, "--prompt_template", "recipes/prompts/small-midend.txt",
          "--chat_template", "plain", "--split", "", "--num_generations", 2, "--generation_batch_size", 2,
          "--max_completion_length", 64, "--reward", "uniform", "--dry_run")
    p = run(*rl, "--tasks", f"{work}/midend.jsonl")
    check("hone rl refuses to train on a task of dev or test, whatever --split says",
          p.returncode == 2 and "of split dev" in p.stderr, p.stderr)
    train = [r for r in rows if r["split"] == "train"]
    p = run(*rl, "--tasks", write("train.jsonl", train))
    check("hone rl --stage midend --dry_run reads them", p.returncode == 0 and 0 < len(train) < len(rows)
          and f"prompts      {len(train)} " in p.stdout and "total " in p.stdout, p.stdout + p.stderr)
    p = run(*rl, "--tasks", f"{work}/pairs.jsonl.gz")
    check("rows without a kernel are refused by line",
          p.returncode == 1 and "pairs.jsonl.gz:1" in p.stderr and "kernel" in p.stderr, p.stderr)
    p = run(*rl, "--tasks", write("wrong.jsonl", [dict(rows[0], profile=dict(rows[0]["profile"], verdict="wrong"))]))
    check("a profile that is not of a genuine kernel is refused",
          p.returncode == 1 and "genuine" in p.stderr and "wrong.jsonl:1" in p.stderr, p.stderr)
    p = run(*rl, "--tasks", f"{work}/midend.jsonl", "--prompt_template", "recipes/prompts/small-frontend.txt")
    check("a template that does not show the kernel is refused", p.returncode == 1 and "{{kernel}}" in p.stderr,
          p.stderr)
    open(f"{work}/shows.txt", "w").write("{{kernel}}\n{{task}}\n")
    p = run(*rl, "--tasks", f"{work}/midend.jsonl", "--prompt_template", f"{work}/shows.txt")
    check("and so is one that shows the module", p.returncode == 1 and "has {{task}}" in p.stderr, p.stderr)


def main():
    warm_workers()
    run(hone, "tasks", "synth", "--seed", 7, "--count_train", 1, "--count_dev", 1, "--count_test", 0, "--level_min", 1,
        "--level_max", 1, "--out", f"{work}/tasks.jsonl")
    rows = test_frontend()
    if len(rows) == 4:
        test_tampered(rows)
        test_midend()
    done()


main()
