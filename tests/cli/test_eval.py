"""hone eval with a policy that knows three tasks by heart: rates, rows, pass@k against brute force
from the rows, comparison.  timeout: 600"""
import itertools, json, os, sys

sys.path.append("tests")
from command import check, done, hone, run, tiny_policy, warm_workers, work_folder

work = work_folder("eval_command")


def evaluate(*more, model=None, tasks=None):
    judged = ("--num_correct_trials", "1", "--verify_threads", "1", "--store", f"{work}/cache.db")
    return run(hone, "eval", "--model", model or f"{policy}/sft/final", "--tasks", tasks or f"{policy}/tasks.jsonl",
               "--split", "train", "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain",
               "--max_completion_length", "170", "--threads", "1", *(() if "--no-judge" in more else judged),
               "--json", *more)


def rows(name):
    return [json.loads(line) for line in open(f"{work}/{name}")]


def brute_pass_at_k(flags, k):
    picks = list(itertools.combinations(flags, k))
    return sum(any(p) for p in picks) / len(picks)


def test_greedy():
    p = evaluate("--out", f"{work}/greedy.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    check("greedy: all three tasks are solved", s.get("tasks") == 3 and s.get("samples") == 1 and s.get("pass")
          == {"pass@1": 1.0} and s.get("genuine") == s.get("well_formed") == s.get("compiled") == s.get("correct")
          == 1.0 and s.get("reasons") == {"genuine/ok": 3} and s.get("dropped") == 0 and s.get("clipped_ratio") == 0,
          p.stdout + p.stderr)
    r = rows("greedy.jsonl") if s else []
    keys = {"task", "level", "structure", "split", "sample", "turn", "answer", "tokens", "finish", "verdict",
            "reward_plan", "reward_code", "advantage_plan", "advantage_code"}
    check("--out has a row for every answer, with text and verdict", [x["task"] for x in r] == ["relu", "twice",
        "square"] and all(set(x) == keys and "class ModelNew" in x["answer"] and x["verdict"]["verdict"] == "genuine"
                          and x["finish"] in ("eos", "stop") for x in r), r)
    check("mean length and speedups are those of the rows",
          s and abs(s["mean_length"] - sum(x["tokens"] for x in r) / 3) < 1e-9
          and abs(s["speedup_mean"] - sum(x["verdict"]["speedup_fused"] for x in r) / 3) < 1e-9, s)
    first = open(f"{work}/greedy.jsonl", "rb").read()
    evaluate("--out", f"{work}/again.jsonl", "--threads", "2")
    check("again, on more threads: the same bytes", open(f"{work}/again.jsonl", "rb").read() == first)


def test_later():
    """Answers now, verdicts later: together what one command gives."""
    p = evaluate("--no-judge", "--out", f"{work}/answers.jsonl")
    r, once = (rows("answers.jsonl"), rows("greedy.jsonl")) if p.returncode == 0 else ([], [1])
    texts = lambda found: [(x["task"], x["sample"], x["answer"], x["tokens"]) for x in found]
    check("--no-judge writes the same answers, and no verdict", len(r) == 3 and texts(r) == texts(once)
          and all(x["verdict"]["verdict"] == "infra" and x["verdict"]["reason"] == "not-judged" for x in r)
          and "3 tasks, not judged" in p.stdout and "pass@" not in p.stdout, p.stdout + p.stderr)
    p = run(hone, "eval", "--policy_answers", f"{work}/answers.jsonl", "--tasks", f"{policy}/tasks.jsonl", "--split",
            "train", "--prompt_template", f"{policy}/template.txt", "--num_correct_trials", "1", "--verify_threads",
            "1", "--store", f"{work}/cache.db", "--out", f"{work}/later.jsonl", "--json")
    later = rows("later.jsonl") if p.returncode == 0 else []
    check("judged later they have the same verdicts",
          [(x["task"], x["verdict"]) for x in later] == [(x["task"], x["verdict"]) for x in once],
          p.stdout + p.stderr)
    for more in ((), ("--out", f"{work}/x.jsonl", "--num_turns", "2"),
                 ("--out", f"{work}/x.jsonl", "--compare", f"{work}/greedy.jsonl")):
        p = evaluate("--no-judge", *more)
        check(f"--no-judge {' '.join(more[2:3])}: refused by message",
              p.returncode == 2 and "--no-judge writes answers to --out" in p.stderr, (p.returncode, p.stderr))
    p = evaluate("--num_turns", "2", "--max_feedback_length", "16")
    check("a turn that cannot fit is refused before the first answer",
          p.returncode == 1 and "without any feedback a turn has" in p.stderr and "task " in p.stderr, p.stderr)


def test_sampled():
    p = evaluate("--num_samples", "4", "--temperature", "1", "--out", f"{work}/sampled.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {"pass": {}}
    r = rows("sampled.jsonl") if p.returncode == 0 else []
    flags = {}
    for x in r:
        flags.setdefault(x["task"], []).append(x["verdict"]["verdict"] == "genuine")
    want = {f"pass@{k}": sum(brute_pass_at_k(f, k) for f in flags.values()) / 3 for k in (1, 2, 4)} if r else {}
    check("sampled: pass@k is what the rows give by brute force, and not all alike",
          set(s["pass"]) == set(want) == {"pass@1", "pass@2", "pass@4"} and all(abs(s["pass"][k] - want[k]) < 1e-12
              for k in want) and 0 < s["pass"]["pass@1"] < s["pass"]["pass@4"], (s, want, p.stderr))
    p = run(hone, "eval", "--model", f"{policy}/init", "--tasks", f"{policy}/tasks.jsonl", "--split", "train",
            "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--max_completion_length", "40",
            "--limit", "2", "--num_samples", "2", "--temperature", "1", "--out", f"{work}/random.jsonl", "--json")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    # A random byte-level model writes bytes that are no UTF-8; rows must be JSON all the same.
    check("a random model: nothing passes, its bytes are recorded", s.get("tasks") == 2 and s.get("pass",
        {}).get("pass@1") == 0 and s.get("well_formed") == 0 and len(rows("random.jsonl")) == 4, p.stdout + p.stderr)
    p = run(hone, "eval", "--model", f"{policy}/init", "--tasks", f"{policy}/tasks.jsonl", "--split", "train",
            "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--max_completion_length", "4",
            "--limit", "1")
    check("without --json: a table for people",
          p.returncode == 0 and p.stdout.startswith("tasks 1, samples 1") and "pass@1         0.0000" in p.stdout,
          p.stdout + p.stderr)


def test_results():
    p = evaluate("--results", f"{work}/results")
    check("--results without problem ids is refused before any answer", p.returncode == 2 and "problem id" in p.stderr
          and not os.path.exists(f"{work}/results"), p.stderr)
    tasks = [json.loads(line) for line in open(f"{policy}/tasks.jsonl")]
    with open(f"{work}/numbered.jsonl", "w") as f:
        f.writelines(json.dumps({**t, "level": 1, "problem_id": n}) + "\n" for t, n in zip(tasks, (30, 4, 11)))
    p = evaluate("--results", f"{work}/results", "--num_samples", "2", "--temperature", "1",
                 "--out", f"{work}/numbered_rows.jsonl", tasks=f"{work}/numbered.jsonl")
    flags = {}
    for x in rows("numbered_rows.jsonl") if p.returncode == 0 else []:
        flags.setdefault(x["task"], []).append(x["verdict"]["verdict"] == "genuine")
    results = json.load(open(f"{work}/results/eval_results.json")) if flags else {}
    check("--results: KernelBench's shape, by number",
          list(results) == ["4", "11", "30"] and [[e["correctness"] for e in l] for l in results.values()] == [flags[n]
              for n in ("twice", "square", "relu")], (results, flags, p.stderr))
    again = run(hone, "eval", "--from_runs", f"{work}/results", "--results", f"{work}/regraded",
                "--tasks", f"{work}/numbered.jsonl", "--num_correct_trials", "1", "--store", f"{work}/cache.db",
                "--json")
    regraded = json.load(open(f"{work}/regraded/eval_results.json")) if again.returncode == 0 else {}
    genuine = lambda r: {(k, e["sample_id"]) for k, l in r.items() for e in l if e["correctness"]}
    check("the kernels that were written beside are graded alike",
          genuine(results) and genuine(results) == genuine(regraded), again.stdout + again.stderr)


def test_compare():
    p = evaluate("--compare", f"{work}/greedy.jsonl")
    c = json.loads(p.stdout).get("compare", {}) if p.returncode == 0 else {}
    check("a run against itself: 0 with interval [0, 0]",
          (c.get("difference"), c.get("low"), c.get("high"), c.get("tasks")) == (0, 0, 0, 3), p.stdout + p.stderr)
    # Against one with chance in it: what is known is the mean.
    p = evaluate("--compare", f"{work}/sampled.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    mean = sum(x["verdict"]["verdict"] == "genuine" for x in rows("sampled.jsonl")) / 12
    c = s.get("compare", {})
    check("against the sampled run: the difference of the means, inside its interval",
          c and abs(c["difference"] - (1 - mean)) < 1e-12 and c["low"] <= c["difference"] <= c["high"],
          p.stdout + p.stderr)
    p = evaluate("--num_samples", "4", "--temperature", "1", "--compare", f"{work}/sampled.jsonl")
    c = json.loads(p.stdout).get("compare", {}) if p.returncode == 0 else {}
    check("a sampled run against itself: 0 as well, over all samples of each task",
          (c.get("difference"), c.get("low"), c.get("high")) == (0, 0, 0), p.stdout + p.stderr)
    # Comparisons that would be of other tasks, and files that are no runs.
    p = evaluate("--compare", f"{work}/greedy.jsonl", "--limit", "2")
    check("fewer tasks than the other run: refused",
          p.returncode == 1 and "3 tasks" in p.stderr and "over 2" in p.stderr and p.stdout == "", p.stderr)
    open(f"{work}/short.jsonl",
         "w").writelines(line for line in open(f"{work}/greedy.jsonl") if '"task":"twice"' not in line)
    p = evaluate("--compare", f"{work}/short.jsonl")
    check("a task that the other run lacks is named", p.returncode == 1 and "twice" in p.stderr, p.stderr)
    for name, text, expected in (("broken", '{"task":"relu","verdict":', "broken.jsonl:1"),
                                 ("other", '{"task":"relu","verdict":"genuine"}\n', "other.jsonl:1"),
                                 ("list", "[1]\n", "list.jsonl:1")):
        open(f"{work}/{name}.jsonl", "w").write(text)
        p = evaluate("--compare", f"{work}/{name}.jsonl")
        check(f"a comparison file that is no such file ({name}): line named",
              p.returncode == 1 and expected in p.stderr, p.stderr)


def test_long_kernels():
    """A kernel that the model has no positions for stays as it is; the frontend's answers are not
    lost over it."""
    open(f"{work}/long.txt", "w").write("{{kernel}}\n" * 8)
    p = evaluate("--pipeline", "--num_samples", "4", "--temperature", "0.5", "--midend_template", f"{work}/long.txt")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    m = s.get("pipeline", {}).get("midend", {})
    check("prompts of the mid-end that are too long for the model are counted", m.get("refused_prompts", 0) > 0
          and m["kernels"] == 0 and s["pipeline"]["pipeline"]["solved"] > 0, p.stdout + p.stderr)


def main():
    global policy
    warm_workers()
    policy = tiny_policy()
    if policy:
        test_greedy()
        test_later()
        test_sampled()
        test_results()
        test_compare()
        test_long_kernels()
    done()


main()
