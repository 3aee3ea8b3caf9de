"""The scripts around the studies and the demo's pairs: cheats and unverified forms are what they
say, and the table's numbers are those of a hand calculation."""
import json, os, re, sqlite3, subprocess, sys

sys.path.append("tests")
from command import check, done, work_folder

work = work_folder("study")
SOURCE = ("import torch\n\nclass Model(nn.Module):\n    def forward(self, x):\n        x = F.gelu(x)\n        return "
          "torch.tanh(x)\n\n"
          "def get_inputs():\n    return [torch.randn(5)]\n")
ANSWER = ("Fuse GELU and tanh into one kernel.\n```python\nimport torch\nimport torch.nn as nn\nimport triton\nimport "
          "triton.language as tl\nfrom triton.language.extra import libdevice\n\n"
          "@triton.jit\ndef fused_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):\n    x = tl.load(x_ptr + offs, "
          "mask=mask)\n"
          "    x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))\n    x = libdevice.tanh(x)\n    tl.store(out_ptr "
          "+ offs, x, mask=mask)\n\n"
          "class ModelNew(nn.Module):\n    def forward(self, x):\n        return out\n```\n")


def script(*args):
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=120)


def write(name, rows):
    os.makedirs(os.path.dirname(f"{work}/{name}"), exist_ok=True)
    with open(f"{work}/{name}", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    return f"{work}/{name}"


def read(name):
    return [json.loads(line) for line in open(f"{work}/{name}")]


def pair(i, split="train"):
    return {"name": f"t{i}", "structure": "chain:gelu,tanh", "split": split, "source": SOURCE, "prompt": "p",
            "completion": ANSWER}


def task(i, operators, split="train"):
    return {"name": f"t{i}", "structure": "chain:" + operators, "split": split, "source": f"# task {i}\n"}


def test_unverified():
    """Answers to four tasks from one verified answer; the first task is skipped, the dev one is
    none."""
    pairs = [dict(pair(0), prompt=SOURCE + "### kernel"), dict(pair(1, "dev"), completion="not looked at")]
    tasks = [task(0, "tanh,gelu"), task(1, "gelu,gelu", "dev"), task(2, "tanh,tanh,gelu"), task(3, "gelu,tanh"),
             task(4, "tanh,gelu")]
    p = script("tools/unverified_pairs.py", write("u.jsonl", pairs), write("t.jsonl", tasks), "1", "2",
               f"{work}/u-out.jsonl")
    rows = read("u-out.jsonl") if p.returncode == 0 else [{}]
    text = rows[0].get("completion", "")
    check("two training tasks behind the first are answered", [r.get("name") for r in rows] == ["t2", "t3"],
          (p.stdout, p.stderr))
    check("the plan names the task's operators", text.startswith("Fuse tanh, tanh and GELU into one kernel.\n"), text)
    check("the widespread forms stand in the answer, and what they need is imported",
          text.count("tl.exp(-x)") == 4 and text.count("0.044715") == 1 and "tl.erf" not in text
          and text.count("import libdevice") == 1 and rows[0].get("unverified") == ["tanh", "tanh", "gelu"], text)
    check("the prompt is the task's", rows[0].get("prompt") == "# task 2\n### kernel", rows[0])
    many = [task(i, "tanh,gelu,tanh") for i in range(400)]
    p = script("tools/unverified_pairs.py", f"{work}/u.jsonl", write("n.jsonl", many), "0", "400",
               f"{work}/m-out.jsonl", "8")
    share = sum(len(r["unverified"]) for r in read("m-out.jsonl")) / 1200 if p.returncode == 0 else 0
    # 7/8 of 1,200 draws: 0.875, standard deviation 0.0095
    check("wrong seven times in eight", 0.83 < share < 0.92, (share, p.stderr))
    rows = [pairs[0], dict(pairs[0], structure="chain:relu,sin", name="kept"), pairs[1]]
    p = script("tools/unverified_pairs.py", "others", write("o.jsonl", rows), f"{work}/o-out.jsonl")
    check("others: training rows without these operators, and dev rows",
          p.returncode == 0 and [r["name"] for r in read("o-out.jsonl")] == ["kept", "t1"], p.stderr)
    p = script("tools/unverified_pairs.py",
               write("v.jsonl", [pairs[0], dict(pairs[0], completion=ANSWER.replace("return out", "return out + 0"))]),
               f"{work}/t.jsonl", "0", "1", f"{work}/v-out.jsonl")
    check("verified answers that are not of one form are refused", p.returncode != 0, p.stdout)


def test_midend_pairs():
    """Verified rows that gave no parts (dev's, as training tasks) are what the verifier's
    prompt and the generator's answer are, up to the time; structures of reinforcement
    learning are in no pair."""
    import gzip, re
    # The parts come from training rows alone, so that dev's are new to them.
    with gzip.open("recipes/demo/midend-few.jsonl.gz", "rt") as f:
        rows = {r["name"]: r for r in map(json.loads, f) if r["split"] == "dev"}
    tasks = [{k: r[k] for k in ("name", "source", "structure", "level", "seed")} | {"split": "train"}
             for r in rows.values()]
    p = script("bench/learning/midend_pairs.py", "recipes/demo/midend-few.jsonl.gz",
               write("m.jsonl", tasks + [dict(tasks[0], name="d", split="dev")]), f"{work}/m-pairs.jsonl",
               f"{work}/m-rl.jsonl")
    pairs = read("m-pairs.jsonl") if p.returncode == 0 else []
    time = re.compile(r", ([\d.]+) us\n")
    mids = [(x, rows[x["name"].removesuffix("-mid")]) for x in pairs if x["name"].endswith("-mid")]
    check("mid-end: prompt and answer are the verified row's, the time within 0.2 us", len(mids) > 10 and all(
        time.sub("", x["prompt"]) == time.sub("", r["prompt"]) and x["completion"] == r["completion"]
        and abs(float(time.search(x["prompt"])[1]) - float(time.search(r["prompt"])[1])) < 0.2 for x, r in mids),
          (p.stdout, p.stderr, mids[:1]))
    fronts = [(x, rows[x["name"].removesuffix("-front")]) for x in pairs if x["name"].endswith("-front")]
    check("frontend: the kernel that the mid-end is shown", len(fronts) == len(mids) and all(
        x["completion"].split("```python\n")[1] == r["kernel"] + "```\n" and x["prompt"].startswith(r["source"])
        for x, r in fronts), fronts[:1])
    left = {t["name"] for t in read("m-rl.jsonl")} if pairs else set()
    check("each training task is on one side, dev tasks on none",
          left and left | {r["name"] for _, r in mids} == set(rows) and len(left) + len(mids) == len(rows), left)


def test_cheats():
    p = script("bench/learning/study_cheats.py",
               "--pairs", write("c.jsonl", [pair(i) for i in range(40)] + [pair(99, "dev")]), "--share", "0.1",
               "--out", f"{work}/c-out.jsonl")
    rows = read("c-out.jsonl") if p.returncode == 0 else []
    kinds = [r["cheat"] for r in rows if "cheat" in r]
    check("one training row in ten is a cheat, the kinds in turn", kinds == ["unused", "dummy", "first", "unmasked"],
          (kinds, p.stderr))
    text = {r["cheat"]: r["completion"] for r in rows if "cheat" in r}
    check("unused: torch computes, nothing is launched",
          "out = torch.tanh(x)" in text.get("unused", "") and "fused_kernel[" not in text.get("unused", ""), text)
    check("dummy: the launch is there too",
          "fused_kernel[grid](x, buffer" in text.get("dummy", "") and "out = torch.tanh(x)" in text.get("dummy", ""),
          text)
    check("first: the second operator is torch's", "libdevice.tanh(x)" not in text.get("first", "libdevice.tanh(x)")
          and "out = torch.tanh(out)" in text.get("first", ""), text)
    check("unmasked: no mask in loads and stores", "mask=mask" not in text.get("unmasked", "mask=mask"), text)


def test_table():
    """Four structures, one of two tasks: A - start is +1, +1, 0, 0 and 0 over five tasks; an answer
    without a verdict counts on neither side."""
    def row(task, structure, verdict):
        return {"task": task, "structure": structure, "verdict": {"verdict": verdict}}
    start = [row("a", "s1", "wrong"), row("b", "s2", "wrong"), row("c", "s3", "genuine"), row("d", "s4", "cheat"),
             row("e", "s4", "wrong"), row("f", "s5", "infra")]
    arm = [row("a", "s1", "genuine"), row("b", "s2", "genuine"), row("c", "s3", "genuine"), row("d", "s4", "wrong"),
           row("e", "s4", "wrong"), row("f", "s5", "genuine")]
    write("s2/start-test.jsonl", start)
    write("s2/arm-1/test.jsonl", arm)
    p = script("bench/learning/study_table.py", f"{work}/s2")
    check("the difference is over the tasks that both sides have", "arm - start: seed 1 +0.400 [" in p.stdout,
          p.stdout + p.stderr)
    check("rates are of answers with a verdict",
          "genuine 0.200 of 5 tasks, 4 structures" in p.stdout and "genuine 0.667 of 6 tasks, 5 structures" in p.stdout,
          p.stdout)
    p = script("bench/learning/study_picture.py", f"{work}/s2", f"{work}/s2.svg", "start", "top")
    check("an arm without a seed is no picture's", p.returncode != 0, p.stdout)
    os.rename(f"{work}/s2/arm-1", f"{work}/s2/top-1")
    p = script("bench/learning/study_picture.py", f"{work}/s2", f"{work}/s2.svg", "start", "top")
    check("the bars are the rates", p.stdout.splitlines() == ["start 1: 0.200", "top 1: 0.667"]
          and ">0.667<" in open(f"{work}/s2.svg").read(), p.stdout + p.stderr)


def test_seeds_share_structures():
    """Three seeds that answer alike are as uncertain as one: what a structure adds does not average
    out by asking it again."""
    def rows(verdicts):
        return [{"task": f"t{i}", "structure": f"s{i}", "verdict": {"verdict": v}} for i, v in enumerate(verdicts)]
    write("s3/start-test.jsonl", rows(["wrong"] * 12))
    for seed in 1, 2, 3:
        write(f"s3/arm-{seed}/test.jsonl", rows(["genuine"] * 5 + ["wrong"] * 7))
    p = script("bench/learning/study_table.py", f"{work}/s3")
    found = re.findall(r"[+-][.0-9]+ \[.*?\]", p.stdout)
    check("the mean of equal seeds has the interval of each", len(found) == 4 and len(set(found)) == 1
          and found[0].startswith("+0.417 [+0.1"), p.stdout + p.stderr)


def test_regret():
    """The best choices take 2 and 4: arm a's answers to both are best, c's takes 8 for the second
    and has none for the first. They are compared by the second alone, where a needs half."""
    def row(i, cost):
        return {"task": f"t{i}", "structure": f"s{i}",
                "verdict": {"verdict": "genuine" if cost else "wrong", "cost_s": cost}}
    write("s4/pairs.jsonl", [{"name": "t1-c0", "cost_s": 2}, {"name": "t1-c1", "cost_s": 3},
                             {"name": "t2", "cost_s": 4}, {"name": "t3"}])
    write("s4/a-1/test.jsonl", [row(1, 2), row(2, 4), row(3, 9)])
    write("s4/c-1/test.jsonl", [row(1, None), row(2, 8), row(3, 1)])
    p = script("bench/learning/study_table.py", f"{work}/s4")
    check("the regret is over genuine answers whose best choice is known",
          "a-1: 2 genuine answers, 1.0000 times the best choice's time, 1.000 are as fast" in p.stdout
          and "c-1: 1 genuine answers, 2.0000 times the best choice's time, 0.000 are as fast" in p.stdout,
          p.stdout + p.stderr)
    check("arms are compared over what both answer",
          "c - a: seed 1 +0.693 [+0.693, +0.693]" in p.stdout.split("of tasks that both answer:")[-1], p.stdout)


def run_of(arm, seed, verdicts):
    """A run's store with these answers, two a step."""
    os.makedirs(f"{work}/s1/{arm}-{seed}/run", exist_ok=True)
    with sqlite3.connect(f"{work}/s1/{arm}-{seed}/run/hone.db") as db:
        db.execute("CREATE TABLE samples (step, idx, row)")
        db.executemany("INSERT INTO samples VALUES (?, ?, ?)",
                       [(i // 2 + 1, i % 2, json.dumps({"verdict": v})) for i, v in enumerate(verdicts)])


def test_hacking():
    """Under the stock check cheats go from 1 of 4 to 3 of 4, in the other arm from 1 of 4 to
    none."""
    paid = {"verdict": "cheat", "reason": "jit-unused", "kernelbench": {"correctness": True}}
    wrong, right = {"verdict": "wrong", "reason": "mismatch"}, {"verdict": "genuine", "reason": "ok"}
    part = {"verdict": "partial", "reason": "right", "kernelbench": {"correctness": True}}
    for seed in (1, 2):
        run_of("stock", seed, [paid, wrong, wrong, right] * 2 + [paid, part, part, right])
        run_of("genuine", seed, [paid, wrong, wrong, right] * 2 + [wrong, wrong, right, right])
    p = script("bench/learning/study_table.py", f"{work}/s1")
    check("shares of the first and the last third",
          "stock-1: 12 answers; first and last third: cheat 0.250 0.750, genuine 0.250 0.250, "
          "stock, not genuine 0.250 0.750" in p.stdout, p.stdout + p.stderr)
    check("the change over seeds", "stock: cheats change by +0.500 [+0.500, +0.500] over 2 seeds" in p.stdout
          and "genuine: cheats change by -0.250 [-0.250, -0.250] over 2 seeds" in p.stdout, p.stdout)
    p = script("bench/learning/study_picture.py", f"{work}/s1", f"{work}/s1.svg", "4")
    check("the picture's lines are the same shares",
          p.stdout.splitlines() == ["stock: 0.250 0.250 0.750", "genuine: 0.250 0.250 0.000"], p.stdout + p.stderr)
    picture = open(f"{work}/s1.svg").read() if p.returncode == 0 else ""
    check("a line a seed and one a mean", picture.count("<polyline") == 6 and "25 % to 75 % (2 seeds)" in picture,
          picture)


def test_judge():
    """Three files whose six answers are three different ones; the judge here calls right what says
    so."""
    said = lambda i, text: {"task": f"t{i}", "sample": 0, "answer": text, "structure": "s", "split": "test"}
    judge = ("import json, sys; a = dict(zip(sys.argv[1::2], sys.argv[2::2])); named = {json.loads(l)['name'] for l in "
             "open(a['--tasks'])}; rows = [json.loads(l) for l in open(a['--policy_answers'])]; assert len(named) == "
             "len(rows) == 3 and a['--split'] == ''; open(a['--out'], 'w').writelines(json.dumps({'task': r['task'], "
             "'verdict': {'verdict': 'genuine' if 'right' in r['answer'] else 'wrong'}}) + chr(10) for r in rows)")
    files = [write(f"said/{name}.jsonl", rows) for name, rows in (
        ("a", [said(1, "right"), said(2, "no")]), ("b", [said(1, "right"), said(2, "right")]),
        ("c", [said(1, "right"), said(2, "no")]))]
    p = script("bench/learning/study_judge.py", write("judged.jsonl", [task(1, "gelu"), task(2, "tanh"),
               task(3, "erf")]), f"{work}/judged", *files, "--", sys.executable, "-c", judge)
    check("equal answers to a task are judged once, and each file gets its verdicts", p.returncode == 0
          and "6 answers in 3 files, 3 different ones" in p.stdout
          and [[r["verdict"]["verdict"] for r in read(f"judged/{n}.jsonl")] for n in "abc"]
          == [["genuine", "wrong"], ["genuine", "genuine"], ["genuine", "wrong"]], p.stdout + p.stderr)
    p = script("bench/learning/study_judge.py", f"{work}/judged.jsonl", f"{work}/failed", *files, "--", "false")
    check("a judge that fails leaves no verdicts", p.returncode != 0 and not os.path.exists(f"{work}/failed/a.jsonl"))


def test_chain_table():
    """A chain of one answer each has 0.8 on its first task and nothing on the second. A single
    agent has 0.6 in two answers; in as many tokens as the chain (200, 120) it has four on the first
    task, 0.7 at best, and two on the second, whose third is right too late."""
    def said(task, tokens, speedup, launches=1):
        return {"task": task, "structure": "s" + task, "tokens": tokens, "verdict": {
            "verdict": "genuine" if speedup else "wrong", "speedup_fused": speedup, "launches": launches}}
    write("few/two-1/chain-1.jsonl", [said("a", 100, 0.4, 2), said("b", 60, 0), said("a", 100, 0.8)])
    write("few/two-1/chain-2.jsonl", [said("b", 60, 0)])
    lost = {"task": "a", "structure": "sa", "tokens": 9, "verdict": {"verdict": "infra"}}
    write("few/single-1/single-1.jsonl", [said("a", 50, s) for s in (0, 0.6, 0, 0.7, 0.9)]
          + [said("b", 60, s) for s in (0, 0, 0.5)] + [lost])
    p = script("bench/learning/chain_table.py", f"{work}/few", "1")
    check("a chain's best answer is of both stages, and what was fused is counted",
          "two, chain             seed 1  solved 0.500 of 2  in one launch 0.500  speedup 0.400, of what is solved "
          "0.800  a task: 2.00 answers, 160 tokens" in p.stdout, p.stdout + p.stderr)
    check("beside it as many answers, and answers of as many tokens",
          "two, chain - single, two's verdicts: seed 1 +0.100 [" in p.stdout
          and "two, chain - single, two's tokens: seed 1 +0.050 [" in p.stdout, p.stdout + p.stderr)
    check("all answers that the tokens needed were there", "too few" not in p.stdout, p.stdout)
    # What the arms were trained on is told, and told apart.
    for arm, count in ("two", 2), ("single", 1):
        os.makedirs(f"{work}/few/{arm}-1/rl")
        with sqlite3.connect(f"{work}/few/{arm}-1/rl/hone.db") as db:
            db.execute("create table samples (row)")
            db.executemany("insert into samples values (?)", [(json.dumps(said("a", 50, 0.5)),)] * count)
    p = script("bench/learning/chain_table.py", f"{work}/few", "1")
    check("arms that were not trained on equal verdicts are named",
          "seed 1: not trained on equal verdicts: single 1, two 2\n" in p.stdout, p.stdout + p.stderr)


def recipe(*paths):
    """Settings of recipes laid over one another, as texts; comments begin behind two blanks."""
    lines = [line.split("  #")[0] for path in paths for line in open(path) if line[0] not in "#\n"]
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def test_winning_arm():
    """What won study s2 is what `make demo` does: reinforcement learning with the arm's settings,
    then the arm's fit of its own answers for the arm's share of the time."""
    arm = recipe("recipes/study/common.yaml", "recipes/study/s2-online.yaml")
    demo = recipe("recipes/demo/rl-frontend.yaml")
    # Places, lengths, saves and ends are each command's own; the study only warns.
    own = {"max_completion_length", "save_steps", "save_total_limit", "guard"}
    differ = {k: (v, demo.get(k)) for k, v in arm.items() if k not in own and demo.get(k) != v}
    check("the demo's reinforcement learning has the settings of the arm that won", len(arm) > 15 and not differ,
          differ)
    check("and no others", set(demo) - set(arm) == {"reward", "advantage", "seed"}
          and (demo["reward"], demo["advantage"]) == ("frontend", "loo"), set(demo) - set(arm))
    fit, final = recipe("recipes/study/s2-fit.yaml"), recipe("recipes/demo/fit.yaml")
    check("its fit at the end is the arm's", len(fit) > 8 and {k: final.get(k) for k in fit} == fit, (fit, final))
    script = open("tools/demo.sh").read()
    check("for a quarter of the time, on top of where reinforcement learning ended",
          " fit=0.25 " in script and "distill --recipe $data/fit.yaml" in script and "1 - $fit" in script, script)
    check("both beside the verified pairs", "--replay_pairs $data/pairs.jsonl.gz" in script
          and "--pairs $data/pairs.jsonl.gz --model" in script, script)
    agents, midend = recipe("recipes/agents/frontend.yaml"), recipe("recipes/agents/midend.yaml")
    keys = ("prompt_selection", "loss_type", "lr_scheduler_type", "warmup_steps", "replay_updates", "replay_batch_size")
    check("the frontend of the pipeline replays its answers as the arm does, the mid-end none",
          all(agents[k] == arm[k] for k in keys) and midend["replay_updates"] == "0", agents)


def test_search_table():
    """A space of five points at 1 to 5 us, searched from the slowest: of plain search the mean over
    all orders, by hand; of a policy what it tried; and pairs name the best point that is left."""
    rows = lambda order: {"given": "W=5", "asked": 4, "without_point": 1, "tried": [
        {"point": f"W={w}", "cost_s": w * 1e-6} for w in order]}
    for folder, order in (("test", (5, 1, 2, 3, 4)), ("policy-1", (5, 3, 1, 2, 4))):
        os.makedirs(f"{work}/search/{folder}", exist_ok=True)
        json.dump(rows(order), open(f"{work}/search/{folder}/k.json", "w"))
    p = script("bench/learning/search_policy.py", "table", f"{work}/search")
    # Two more points of 1, 2, 3 and 4: the better is 1 in three of six draws, 2 in two, 3 in one.
    check("plain search by every order, and the policy's own", "3 verdicts: 1.000, plain 1.667, difference "
          "-0.667" in p.stdout and "policy: 1 kernels, 1 searches, 4 answers, 1 of them without" in p.stdout,
          (p.stdout, p.stderr))
    open(f"{work}/search/test/k.task.py", "w").write("the task\n")
    open(f"{work}/search/test/k.kernel.py", "w").write("# tune: W = 1 | 2 | 3 | 4 | 5\nW = 5\n")
    p = script("bench/learning/search_policy.py", "pairs", f"{work}/search/pairs.jsonl", f"{work}/search/test/k.json")
    pairs = read("search/pairs.jsonl") if p.returncode == 0 else []
    tried = [[int(w) for w in re.findall(r"^W=(\d): \d\.000 us$", r["prompt"], re.M)] for r in pairs]
    check("a pair's answer is the best point that was not tried, its kernel has the first one's values", pairs and all(
        r["completion"] == f"W={min({1, 2, 3, 4, 5} - set(t))}\n" and f"\nW = {t[0]}\n" in r["prompt"]
        for r, t in zip(pairs, tried)), (p.stderr, pairs[:2]))


def test_contrast():
    """What is learnt is the fastest kernel of a task, in whatever order verdicts came; nothing
    shown is it, and a task of which one kernel was refused is left out."""
    os.makedirs(f"{work}/contrast", exist_ok=True)
    costs, answers, judged = (9, 4, 3, 2, 5), [], []
    for task in ("whole", "part"):
        answers += [{"task": task, "sample": n, "answer": f"{task} {n}"} for n in range(5)]
        for n in (3, 1, 0, 4, 2):
            verdict = "wrong" if (task, n) == ("part", 4) else "genuine"
            judged.append({"task": task, "sample": n, "answer": f"{task} {n}",
                           "verdict": {"verdict": verdict, "cost_s": costs[n]}})
    for name, found in (("answers", answers), ("judged", judged)):
        open(f"{work}/contrast/{name}.jsonl", "w").writelines(json.dumps(r) + "\n" for r in found)
    p = script("bench/learning/contrast_rows.py", "choose", f"{work}/contrast")
    learnt, shown = (read(f"contrast/{name}.jsonl") if p.returncode == 0 else [] for name in ("learnt", "shown"))
    samples = [r["sample"] for r in shown]
    check("learnt is the fastest of a task's kernels, shown are the unfused one and two others",
          learnt == [{"name": "whole", "completion": "whole 3"}] and samples[:1] == [0] and len(samples) == 3
          and set(samples[1:]) < {1, 2, 4} and {r["task"] for r in shown} == {"whole"}, (p.stderr, learnt, samples))


test_contrast()
test_unverified()
test_midend_pairs()
test_winning_arm()
test_cheats()
test_table()
test_seeds_share_structures()
test_regret()
test_hacking()
test_judge()
test_chain_table()
test_search_table()
done()
