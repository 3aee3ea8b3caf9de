"""Policies outside: hone eval and hone rl with a command and with a set of answers; what they
collect is fitted by hone distill.
timeout: 900"""
import json, os, shutil, sqlite3, sys

sys.path.append("tests")
from command import check, done, hone, run, warm_workers, work_folder

work = work_folder("agents")
POLICY = '''import json, os, select, sys
KERNEL = """One program a block.
```python
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def k(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(p + i, mask=i < n)
    tl.store(o + i, EXPRESSION, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), B=256)
        return o
```
"""
# Right and wrong in turn; of the third task it has nothing. Answers pairs of requests in reverse
# order, and one alone when no other comes for a second.
held = []


def tell():
    for a in reversed(held):
        print(json.dumps(a), flush=True)
    held.clear()


def requests():
    text = b""
    while True:
        if held and not select.select([0], [], [], 1)[0]:
            tell()
        more = os.read(0, 1 << 16)
        if not more:
            return
        *lines, text = (text + more).split(b"\\n")
        yield from lines


for line in requests():
    r = json.loads(line)
    m = r["messages"]
    assert r["stage"] == "frontend" and len(m) == 2 * r["turn"] + 1 and 0 <= r["seed"] < 2**63
    assert [x["role"] for x in m] == (["user", "assistant"] * 9)[:len(m)]
    right = {"relu": "tl.maximum(x, 0.0)", "twice": "x * 2.0"}.get(r["task"])
    wrong = (r["sample"] + len(sys.argv)) % 2
    if "turns" in sys.argv:   # wrong at first; told which element is wrong, the odd ones see what is
        said = m[-1]["content"]
        told = all(s in said for s in ("wrong", "first at [", "around it in its row, expected"))
        assert r["turn"] == 0 or (told and "x + 1.0" in m[-2]["content"]), said
        wrong = r["turn"] == 0 or r["sample"] % 2 == 0
    a = {"error": "no idea"}
    if right:
        a = {"answer": KERNEL.replace("EXPRESSION", "x + 1.0" if wrong else right), "tokens": 100 + r["sample"]}
    held.append({"id": r["id"], **a})
    if len(held) == 2:
        tell()
'''


def prepare():
    open(f"{work}/policy.py", "w").write(POLICY)
    return run("bash", "-c", f". tests/rl/tiny_policy.sh; tiny_files {work}")


def evaluate(*more):
    return run(hone, "eval", "--tasks", f"{work}/tasks.jsonl", "--split", "train",
               "--prompt_template", f"{work}/template.txt", "--num_samples", "2", "--temperature", "1",
               "--num_correct_trials", "1", "--verify_threads", "1", "--store", f"{work}/cache.db", "--json", *more)


def test_eval():
    p = evaluate("--policy_command", f"{sys.executable} {work}/policy.py", "--policy_requests", "2",
                 "--out", f"{work}/rows.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    check("a command: half of its answers are right, what it does not have is dropped and counted",
          s.get("tasks") == 3 and s.get("answers") == 4 and s.get("dropped") == 2 and s.get("genuine") == 0.5 and s.get(
              "pass") == {"pass@1": 0.5, "pass@2": 1.0} and s.get("reasons") == {"genuine/ok": 2, "wrong/mismatch": 2,
                  "infra/policy-error": 2} and s.get("mean_length") == 100.5 and s.get("length_unit") == "tokens",
          p.stdout + p.stderr)
    rows = [json.loads(line) for line in open(f"{work}/rows.jsonl")] if s else []
    check("rows have the task, the sample and the answer that was given",
          [(r["task"], r["sample"], "class ModelNew" in r["answer"]) for r in rows] == [("relu", 0, True),
              ("relu", 1, True), ("twice", 0, True), ("twice", 1, True), ("square", 0, False), ("square", 1, False)],
          rows)
    # Then what cannot be answered: a folder without answers, a command that dies, two authors at
    # once.
    with open(f"{work}/two.jsonl", "w") as f:
        f.writelines(line for line in open(f"{work}/tasks.jsonl") if '"square"' not in line)
    os.makedirs(f"{work}/answers", exist_ok=True)
    p = evaluate("--policy_answers", f"{work}/answers")
    check("an answer that is not there is named before anything is judged",
          p.returncode == 1 and "relu.0.txt" in p.stderr and p.stdout == "", p.stderr)
    p = evaluate("--policy_command", "exit 4")
    check("a command that dies: how, and with what unanswered",
          p.returncode == 1 and "exit 4" in p.stderr and "6 requests unanswered" in p.stderr, p.stderr)
    for more, word in ((("--model", "m"), "--model and adapters"), (("--policy_answers", "a"), "exclude"),
                       (("--from_runs", "r"), "--from_runs")):
        p = evaluate("--policy_command", "cat", *more)
        check(f"a command beside {more[0]} is refused", p.returncode == 2 and word in p.stderr, p.stderr)


DIES = """
import json, os, sys
exec(open(sys.argv[1]).read().split("# Right and wrong")[0])
limit = int(open(sys.argv[2]).read())
for n, line in enumerate(sys.stdin):
    if n == limit:
        sys.exit(5)
    r = json.loads(line)
    print(line.rstrip(), file=open(sys.argv[2] + ".asked", "a"))
    text = KERNEL.replace("EXPRESSION", "x + 1.0" if r["sample"] else "tl.maximum(x, 0.0)")
    print(json.dumps({"id": r["id"], "answer": text, "tokens": 7 + r["sample"]}), flush=True)
"""
BROKEN = r"""
import json, sys
for n, line in enumerate(sys.stdin):
    text = ["a \\u0000 b", "half \\ud800 pair", "byte \xff here", "```python\\nimport torch\\u0000\\n```"][n % 4]
    sys.stdout.buffer.write(b'{"id": %d, "answer": "%s"}\n' % (json.loads(line)["id"], text.encode("latin1")))
    sys.stdout.flush()
"""


def test_dies():
    """What a command has answered, and what the verifier has said of it, outlives it: the same
    command asks for the rest alone, and ends with the rows of a run in one go."""
    open(f"{work}/dies.py", "w").write(DIES)
    limit = lambda n: open(f"{work}/limit", "w").write(str(n))
    args = ("--policy_command", f"{sys.executable} {work}/dies.py {work}/policy.py {work}/limit", "--policy_requests",
            "1", "--tasks", f"{work}/two.jsonl", "--out")
    asked = lambda: [json.loads(x) for x in open(f"{work}/limit.asked")]
    # Without a store of the user's, verdicts are kept beside the answers.
    ask = lambda *more: run(hone, "eval", "--split", "train", "--prompt_template", f"{work}/template.txt", "--json",
                            "--num_samples", "2", "--num_correct_trials", "1", "--verify_threads", "1", *more)
    limit(99)
    whole = ask(*args, f"{work}/whole.jsonl")
    check("a command that stays: nothing is left beside its rows", whole.returncode == 0 and len(asked()) == 4
          and not [f for f in os.listdir(work) if f.startswith("whole.jsonl.")], whole.stderr)
    os.unlink(f"{work}/limit.asked")
    limit(3)
    p = ask(*args, f"{work}/dies.jsonl")
    check("a command that dies: its answers are kept, and it is said where", p.returncode == 1 and "exit 5" in p.stderr
          and "dies.jsonl.partial: the answers so far" in p.stderr and len(asked()) == 3
          and len(open(f"{work}/dies.jsonl.partial").readlines()) == 3
          and os.path.exists(f"{work}/dies.jsonl.partial.db")
          and not os.path.exists(f"{work}/dies.jsonl"),
          p.stderr)
    with open(f"{work}/dies.jsonl.partial", "a") as f:
        f.write('{"answer": "half a li')   # as a kill leaves it
    limit(99)
    p = ask(*args, f"{work}/dies.jsonl")
    check("the same command asks for the rest, and has the same rows and summary", p.returncode == 0
          and [(r["task"], r["sample"]) for r in asked()] == [("relu", 0), ("relu", 1), ("twice", 0), ("twice", 1)]
          and p.stdout == whole.stdout and open(f"{work}/dies.jsonl").read() == open(f"{work}/whole.jsonl").read()
          and not [f for f in os.listdir(work) if f.startswith("dies.jsonl.")], p.stdout + p.stderr)
    # rl: answers of a step that was not whole
    os.unlink(f"{work}/limit.asked")
    rl = (hone, "rl", *args[:6], "--prompt_template", f"{work}/template.txt", "--num_generations", "2",
          "--generation_batch_size", "4", "--max_steps", "2", "--num_correct_trials", "1", "--output_dir",
          f"{work}/dying")
    limit(7)
    p = run(*rl)
    kept = open(f"{work}/dying/answers.partial").readlines() if p.returncode == 1 else []
    limit(99)
    p = run(*rl)
    questions = [json.dumps({k: v for k, v in r.items() if k != "id"}) for r in asked()]
    check("rl: a step that was not whole is asked for no answer twice", p.returncode == 0 and len(kept) == 3
          and len(questions) == len(set(questions)) == 8 and os.path.getsize(f"{work}/dying/answers.partial") == 0,
          (p.stderr, kept, len(questions)))


def test_broken():
    """An answer with what no text holds is an invalid answer, and the run goes on."""
    open(f"{work}/broken.py", "w").write(BROKEN)
    p = evaluate("--policy_command", f"{sys.executable} {work}/broken.py", "--out", f"{work}/broken.jsonl")
    rows = [json.loads(line) for line in open(f"{work}/broken.jsonl")] if p.returncode == 0 else []
    check("NUL, half of a pair and bytes that are no UTF-8: invalid answers", len(rows) == 6
          and all(r["verdict"]["verdict"] == "invalid" and r["verdict"]["reason"] == "not-text"
                  and "\ufffd" in r["answer"] for r in rows), p.stdout + p.stderr)
    with open(f"{work}/broken-set.jsonl", "w") as f:
        f.writelines('{"task": "%s", "sample": %d, "answer": "a \\u0000 b"}\n' % (t, s)
                     for t in ("relu", "twice", "square") for s in (0, 1))
    p = evaluate("--policy_answers", f"{work}/broken-set.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    check("and in a file of answers", s.get("reasons") == {"invalid/not-text": 6}, p.stdout + p.stderr)
    with open(f"{work}/broken-tasks.jsonl", "w") as f:
        f.write(open(f"{work}/two.jsonl").readline() + '{"name": "b\\ud800", "source": "x"}\n')
    p = evaluate("--policy_command", "cat", "--tasks", f"{work}/broken-tasks.jsonl")
    check("a task with half of a pair is refused with its line", p.returncode == 1
          and "broken-tasks.jsonl:2" in p.stderr and "half of a surrogate pair" in p.stderr, p.stderr)


def test_alone():
    """Options that another one gives their meaning are refused without it, by both commands."""
    model = ("--model", "recipes/demo/start", "--tasks", f"{work}/tasks.jsonl")
    for more in (("--variants_from", "x"), ("--turn_refines",), ("--policy_roles", "recipes/prompts/roles"),
                 ("--midend_samples", "2"), ("--midend_template", "x")):
        for command in ("eval",) if more[0].startswith("--midend") else ("eval", "rl"):
            p = run(hone, command, *model, *more, *(("--dry_run",) if command == "rl" else ("--split", "train")),
                    "--prompt_template", f"{work}/template.txt", "--max_completion_length", "8")
            check(f"{command} {more[0]} alone is refused", p.returncode == 2 and more[0] in p.stderr, p.stderr)


def test_turns():
    """Half of the episodes are solved by their second turn; no first answer ever is, so best of n
    finds nothing with as many tokens."""
    command = f"{sys.executable} {work}/policy.py turns"
    p = evaluate("--policy_command", command, "--policy_requests", "2", "--tasks", f"{work}/two.jsonl",
                 "--num_turns", "3", "--out", f"{work}/turns.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    t = s.get("turns", {})
    check("refinement: solved by turn, and best of n at equal tokens beside it", [(x["turn"], x["answers"], x["solved"])
        for x in t.get("by_turn", [])] == [(1, 4, 0), (2, 4, 0.5), (3, 2, 0.5)] and s["pass"] == {"pass@1": 0.5,
            "pass@2": 1.0} and t["refined"]["solved"] == 0.5 and t["best_of"]["solved"] == 0 and t["best_of"]["tokens"]
          >= t["refined"]["tokens"] > 200 and t["difference"]["solved"] == 0.5, p.stdout + p.stderr)
    rows = [json.loads(line) for line in open(f"{work}/turns.jsonl")] if t else []
    check("rows have every turn, and what was said before it",
          [(r["task"], r["sample"], r["turn"], "feedback" in r) for r in rows] == [(k, *x) for k in ("relu", "twice")
              for x in ((0, 0, False), (0, 1, True), (0, 2, True), (1, 0, False), (1, 1, True))], rows)
    # What was written is a set of answers itself, with all of its turns.
    p = evaluate("--policy_answers", f"{work}/turns.jsonl", "--tasks", f"{work}/two.jsonl", "--num_turns", "3",
                 "--temperature", "0", "--compare", f"{work}/turns.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    check("the rows as a set of answers: the same episodes; compared with themselves an episode is one answer",
          s.get("turns", {}).get("by_turn") == t.get("by_turn") and "best_of" not in s.get("turns",
              {}) and s["compare"]["difference"] == 0, p.stdout + p.stderr)
    p = evaluate("--policy_command", command, "--num_turns", "2", "--turn_template", f"{work}/template.txt")
    check("a template of turns that tells nothing is refused", p.returncode == 1 and "{{feedback}}" in p.stderr,
          p.stderr)


def collect(out, *more):
    return run(hone, "rl", "--policy_command", f"{sys.executable} {work}/policy.py" + " x" * 2,
               "--tasks", f"{work}/two.jsonl", "--prompt_template", f"{work}/template.txt", "--num_generations", "2",
               "--generation_batch_size", "4", "--policy_requests", "2", "--num_correct_trials", "1",
               "--verify_threads", "1", "--output_dir", f"{work}/{out}", *more)


def samples(out):
    with sqlite3.connect(f"{work}/{out}/hone.db") as db:
        return db.execute("select step, idx, row from samples order by step, idx").fetchall()


def test_rl():
    p = collect("a", "--max_steps", "1")
    first = samples("a") if p.returncode == 0 else []
    p = collect("a", "--max_steps", "2")
    rows = samples("a") if p.returncode == 0 else []
    check("rl collects: every answer with its verdict, two steps in two starts, nothing trained",
          len(rows) == 8 and rows[:4] == first and p.stdout == f"{work}/a\n" and "continuing after step 1" in p.stderr
          and sum(json.loads(r)["verdict"]["verdict"] == "genuine" for _, _, r in rows) == 4 and not [n
              for n in os.listdir(f"{work}/a") if n.startswith("checkpoint") or n == "final"],
          (p.stderr, p.stdout, os.listdir(f"{work}/a")))
    m = [json.loads(line) for line in open(f"{work}/a/metrics.jsonl")] if rows else []
    check("metrics say what was judged, and nothing of a training", len(m) == 2 and m[0]["genuine"] == 0.5
          and m[0]["answers"] == 4 and not {"loss", "entropy", "learning_rate", "grad_norm"} & set(m[0]), m)
    p = collect("over", "--max_steps", "1", "--max_seconds", "1e-9")
    check("a run whose seconds are over before its first step makes none",
          p.returncode == 0 and samples("over") == [], p.stderr)
    # Other settings are refused, and all that would need a policy of one's own.
    p = collect("a", "--max_steps", "3", "--seed", "5")
    check("a folder that was begun with other settings is refused", p.returncode == 1 and "seed" in p.stderr, p.stderr)
    for option in (("--replay_updates", "2"), ("--eval_steps", "1"), ("--dry_run",)):
        p = collect("c", *option)
        check(f"{option[0]} needs a policy that trains: refused",
              p.returncode == 2 and option[0] in p.stderr and "distill" in p.stderr, p.stderr)
    # What the command found is enough to fit a model to.
    p = run(hone, "init", "--text", f"{work}/pairs.jsonl", "--vocab_size", "448", "--hidden_size", "64",
            "--num_hidden_layers", "1", "--num_attention_heads", "4", "--num_key_value_heads", "2", "--head_dim", "16",
            "--intermediate_size", "64", "--max_position_embeddings", "1024", "--seed", "3", "--out", f"{work}/init")
    p = (run(hone, "distill", "--model", f"{work}/init", "--from", f"{work}/a", "--tasks", f"{work}/two.jsonl",
             "--prompt_template", f"{work}/template.txt", "--chat_template", "plain", "--no-use_peft",
             "--max_tokens", "1024", "--threads", "1", "--num_train_epochs", "0", "--max_steps", "1",
             "--save_steps", "0", "--output_dir", f"{work}/fit") if p.returncode == 0 else p)
    pairs = [json.loads(line) for line in open(f"{work}/fit/distilled.jsonl")] if p.returncode == 0 else []
    check("a model is fitted to what the command found", {r["task"] for r in pairs} == {"relu", "twice"}
          and len(pairs) == 2 and os.path.exists(f"{work}/fit/final/model.safetensors"), p.stderr)


PIPELINE = '''import json, sys
# As a frontend it writes a kernel that copies first; as a mid-end it takes the copy out of what it is
# shown, copies twice, or breaks it.
FRONT = open(sys.argv[1]).read()
COPY = "copy_kernel[(triton.cdiv(x.numel(), 16),)](x, t, x.numel(), B=16)"
for line in sys.stdin:
    r = json.loads(line)
    said, s = r["messages"][0]["content"], r["sample"]
    if r["stage"] == "frontend":
        code = FRONT.replace("EXPRESSION", {"relu": "tl.maximum(x, 0.0)", "twice": "x * 2.0"}[r["task"]])
        if s == 1:   # right, and slower still
            code = code.replace(COPY, COPY + "\\n        " + COPY)
    else:
        assert "class Model(" not in said and "line " in said and "us\\n" in said, said
        code = said[said.index("import torch"):said.index("### cost")]
        assert code.count(COPY) == 1   # the cheaper of the two that the frontend wrote
        if s == 0:
            code = code.replace(COPY, "").replace("](t, o,", "](x, o,")
        elif s == 1:   # once more for nothing
            code = code.replace(COPY, COPY + "\\n        " + COPY)
        else:
            code = code.replace("x = tl.load(p + i, mask=i < n)", "x = 1.0 + tl.load(p + i, mask=i < n)")
    answer = "As it is.\\n```python\\n" + code.strip() + "\\n```\\n"
    print(json.dumps({"id": r["id"], "answer": answer, "tokens": 50}), flush=True)
'''


def test_pipeline():
    # The frontend writes the kernel of the resume test, which copies first.
    sys.path.append("tests/rl")
    source = open("tests/rl/test_rl_resume.py").read()
    open(f"{work}/slow.py", "w").write(source[source.index('SLOW = \"\"\"') + 10:].split('\"\"\"')[0])
    open(f"{work}/pipeline.py", "w").write(PIPELINE)
    command = ("--policy_command", f"{sys.executable} {work}/pipeline.py {work}/slow.py",
               "--tasks", f"{work}/two.jsonl")
    p = evaluate(*command, "--pipeline", "--midend_template", "recipes/prompts/small-midend.txt",
                 "--midend_samples", "3", "--out", f"{work}/pipeline.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    j = s.get("pipeline", {})
    m = j.get("midend", {})
    fused = m.get("changes", {}).get("fused", {})
    check("the mid-end fuses, slows down and breaks what the frontend wrote: each is counted",
          m.get("kernels") == 2 and m.get("answers") == 6 and abs(m["genuine"] - 2 / 3) < 1e-9
          and abs(m["faster"] - 1 / 3) < 1e-9 and abs(m["slower"] - 1 / 3) < 1e-9 and fused.get("kernels") == 2
          and abs(fused["speedup_geomean"] / m["speedup_geomean"] - 1) < 1e-12 and m["speedup_geomean"] > 1.5
          and m.get("structures") == 2 and 1.5 < m["low"] <= m["speedup_geomean"] <= m["high"] and m["untimed"] == 0,
          p.stdout + p.stderr)
    one, same, much = (j.get(k, {}) for k in ("pipeline", "single_equal_answers", "single_equal_tokens"))
    ratio = j.get("over_equal_tokens", {}).get("speedup_ratio", {})
    check("the pipeline beside a single agent, at equal answers and at equal tokens", one.get("solved")
          == same.get("solved") == 1 and one["answers"] == same["answers"] == much["answers"] == 5 and one["tokens"]
          == much["tokens"] == 250 and abs(one["speedup_geomean"] / same["speedup_geomean"] - m["speedup_geomean"])
          < 1e-9 and abs(ratio.get("value", 0) - m["speedup_geomean"]) < 1e-9 and ratio["pairs"] == 2, j)
    rows = [json.loads(line) for line in open(f"{work}/pipeline.jsonl")] if j else []
    check("rows of both stages", [r.get("stage") for r in rows] == [None] * 4 + ["midend"] * 6, rows)
    # Rows of a pipeline as answers: of which stage they are is known.
    p = evaluate("--pipeline", "--policy_answers", f"{work}/pipeline.jsonl", "--tasks", f"{work}/two.jsonl")
    check("a set of answers has none to kernels that the verdicts choose: refused",
          p.returncode == 2 and "--policy_command" in p.stderr, p.stderr)
    p = evaluate("--policy_answers", f"{work}/pipeline.jsonl", "--tasks", f"{work}/two.jsonl", "--variants", "2",
                 "--variants_from", f"{work}/pipeline.jsonl")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    check("a pipeline's rows as a set: its frontend's answers; as variants: of both stages",
          s.get("genuine") == 1 and s.get("answers") == 4 and s.get("tasks_without_variants") == 0, p.stderr)
    # The same as two runs of reinforcement: the second begins at what the first one found.
    open(f"{work}/midend.yaml", "w").write("prompt_template: recipes/prompts/small-midend.txt\nmax_steps: 2\n")
    args = [hone, "rl", *command, "--prompt_template", f"{work}/template.txt", "--num_generations", "2",
            "--generation_batch_size", "4", "--max_steps", "1", "--num_correct_trials", "1", "--verify_threads", "1",
            "--pipeline", f"{work}/midend.yaml", "--pipeline_kernels", "1", "--output_dir", f"{work}/p"]
    p = run(*args)
    given = [json.loads(line) for line in open(f"{work}/p/midend.jsonl")] if p.returncode == 0 else []
    with sqlite3.connect(f"{work}/p/hone.db") as db:
        found = [[json.loads(t) for t, in db.execute("select row from samples where run = ? order by step, idx", (r,))]
                 for r, in db.execute("select id from runs order by id")]
    front = {r["task"]: r for r in reversed(found[0])} if given else {}
    check("the mid-end's tasks are the first genuine kernel of each task that the frontend found, with its verdict",
          [r["name"].split("+")[0] for r in given] == ["relu", "twice"]
          and all(r["kernel"] in front[r["name"].split("+")[0]]["answer"]
                  and r["profile"] == front[r["name"].split("+")[0]]["verdict"] for r in given), (p.stderr, given))
    paid = {r["sample"]: r["reward_code"] for r in found[1]} if given else {}
    check("the mid-end is paid for what it gained and not for a regression",
          p.stdout == f"{work}/p/frontend\n{work}/p/midend\n" and len(found) == 2 and len(found[1]) == 8 and paid.get(0,
              0) > 0.5 and paid.get(1) == 0, (p.stderr, paid))
    metrics = [json.loads(line) for line in open(f"{work}/p/midend/metrics.jsonl")] if given else []
    check("metrics say by which change", metrics and metrics[0]["midend/faster"] == metrics[0]["midend/slower"] == 0.5
          and metrics[0]["midend/fused"] == 1, metrics)
    timed = (hone, "rl", *command[:2], "--stage", "midend", "--tasks", f"{work}/p/midend.jsonl", "--prompt_template",
             "recipes/prompts/small-midend.txt", "--num_generations", "2", "--generation_batch_size", "4",
             "--max_steps", "1", "--output_dir", f"{work}/card")
    p = run(*timed, "--cost_size", "65536")
    check("and so are kernels that are timed at other sizes, of which no answer would be paid",
          p.returncode == 1 and "the judged sizes" in p.stderr and "--cost_size" in p.stderr, p.stderr)
    p = run(*timed, "--gpu", "A100")
    check("kernels that are timed for another card are refused: leaving them as they are would be a gain",
          p.returncode == 1 and "for H200 and this run's are for A100" in p.stderr, p.stderr)
    # What is wrong with the second run is said to be so: its settings are other
    # ones than the command's.
    open(f"{work}/midend.yaml", "a").write("seed: 9\n")
    p = run(*args)
    check("what the mid-end's run is refused for is said to be its own", p.returncode == 1 and "seed" in p.stderr
          and f"--pipeline {work}/midend.yaml" in p.stderr, p.stderr)
    return m.get("speedup_geomean", 0)


def test_given(gained):
    """The mid-end alone, over the kernels that the pipeline kept: what `hone eval --pipeline` says
    of it."""
    args = ("--policy_command", f"{sys.executable} {work}/pipeline.py {work}/slow.py", "--stage", "midend",
            "--tasks", f"{work}/p/midend.jsonl", "--prompt_template", "recipes/prompts/small-midend.txt",
            "--num_samples", "3")
    # The same answers to the same kernels, with a summary of their own.
    p = evaluate(*args)
    m = json.loads(p.stdout).get("midend", {}) if p.returncode == 0 else {}
    check("a mid-end alone: shares, kinds of change and the gain with its interval, as in the pipeline",
          m.get("kernels") == m.get("structures") == 2 and m["answers"] == 6 and abs(m["faster"] - 1 / 3) < 1e-9
          and abs(m["slower"] - 1 / 3) < 1e-9 and m["changes"]["fused"]["kernels"] == 2
          and abs(m["speedup_geomean"] / gained - 1) < 1e-9 and m["low"] <= m["speedup_geomean"] <= m["high"],
          (p.stdout, p.stderr, gained))
    # The demo's table of it: the speedup of genuine answers, not of one kind, and the gain below.
    with open(f"{work}/given.json", "w") as f:
        f.write(p.stdout)
    t = run(sys.executable, "tools/demo_table.py", work, "given")
    alone = json.loads(p.stdout).get("speedup_geomean", 0) if p.returncode == 0 else 0
    check("the demo's table reads it", t.returncode == 0 and f"{alone:10.3f}" in t.stdout
          and f"given: the kernels given are x{gained:.3f} as fast" in t.stdout, t.stdout + t.stderr)
    p = evaluate(*args, "--cost_size", "65536")
    m = json.loads(p.stdout).get("midend", {}) if p.returncode == 0 else {}
    check("times of other sizes than the given kernel's are no gain, and are counted",
          m.get("untimed") == 4 and m["speedup_geomean"] == 1 and m["faster"] == m["slower"] == 0, p.stdout + p.stderr)
    with open(f"{work}/renamed.jsonl", "w") as f:
        f.writelines(json.dumps({**r, "name": r["name"].split("+")[0]}) + "\n"
                     for r in map(json.loads, open(f"{work}/p/midend.jsonl")))
    p = evaluate("--policy_answers", f"{work}/pipeline.jsonl", *args[2:4], "--tasks", f"{work}/renamed.jsonl",
                 *args[6:])
    again = json.loads(p.stdout).get("midend", {}) if p.returncode == 0 else {}
    check("a pipeline's rows as a set: its mid-end's answers to --stage midend", abs(again.get("faster", 0) - 1 / 3)
          < 1e-9 and again["changes"]["fused"]["kernels"] == 2, p.stdout + p.stderr)
    open(f"{work}/both.txt", "w").write("{{feedback}}\n{{task}}\n")
    p = evaluate(*args, "--num_turns", "2", "--turn_template", f"{work}/both.txt")
    check("a further turn of a mid-end shows no module: refused",
          p.returncode == 1 and "--turn_template" in p.stderr and "{{task}}" in p.stderr, p.stdout + p.stderr)


def test_pipeline_refused():
    """What is wrong with the mid-end is said before the frontend is asked; and one that has nothing
    to begin with is no run."""
    with open(f"{work}/none.jsonl", "w") as f:   # the policy has no answer to it
        f.writelines(line for line in open(f"{work}/tasks.jsonl") if '"square"' in line)
    p = collect("none", "--max_steps", "1", "--generation_batch_size", "2", "--tasks", f"{work}/none.jsonl",
                "--pipeline", f"{work}/midend.yaml")
    check("rl: a frontend without a genuine kernel ends the pipeline", p.returncode == 1
          and "found no genuine kernel" in p.stderr and not os.path.exists(f"{work}/none/midend"), p.stderr)
    # More kernels than there are to be had, before the frontend is asked; and more than were found.
    open(f"{work}/wide.yaml", "w").write("prompt_template: recipes/prompts/small-midend.txt\n"
                                         "generation_batch_size: 16\n")
    p = collect("wide", "--max_steps", "1", "--generation_batch_size", "2", "--pipeline", f"{work}/wide.yaml")
    check("rl: a mid-end whose step asks about more kernels than the tasks can give", p.returncode == 1
          and "2 tasks with at most 2 kernels each are 4 for the mid-end, and its steps ask about 8" in p.stderr
          and not os.path.exists(f"{work}/wide"), p.stderr)
    open(f"{work}/wide.yaml", "a").write("num_generations: 4\n")
    p = collect("wide", "--max_steps", "1", "--generation_batch_size", "2", "--pipeline", f"{work}/wide.yaml")
    check("rl: or than the frontend found: how many, and what gives more", p.returncode == 1
          and "found 1 genuine kernels, and a step of the mid-end asks about 4" in p.stderr
          and "--max_steps" in p.stderr and "--pipeline_kernels" in p.stderr
          and not os.path.exists(f"{work}/wide/midend"), p.stderr)
    # A template with a hole that nobody fills, by both commands.
    open(f"{work}/bad.txt", "w").write("{{kernel}}\n{{colour}}\n")
    policy = ("--policy_command", f"tee {work}/asked | {sys.executable} {work}/pipeline.py {work}/slow.py")
    p = evaluate(*policy, "--tasks", f"{work}/two.jsonl", "--pipeline", "--midend_template", f"{work}/bad.txt")
    check("eval: a mid-end's template with an unknown hole", p.returncode == 1 and "{{colour}}" in p.stderr
          and not (os.path.exists(f"{work}/asked") and os.path.getsize(f"{work}/asked")), p.stdout + p.stderr)
    model = ("--model", "recipes/demo/start", "--chat_template", "plain", "--replay_updates", "1",
             "--replay_pairs", f"{work}/none.jsonl")
    answers = ("--policy_answers", work)
    for who, recipe, word in ((policy, f"prompt_template: {work}/bad.txt\n", "{{colour}}"),
                              (answers, "max_steps: 1\n", "use --policy_command"),
                              (policy, "eval_steps: 1\n", "kernels of training tasks"),
                              (model, f"replay_updates: 0\nprompt_template: {work}/bad.txt\n", "{{colour}}")):
        open(f"{work}/refused.yaml", "w").write(recipe)
        p = run(hone, "rl", *who, "--tasks", f"{work}/two.jsonl", "--prompt_template", f"{work}/template.txt",
                "--num_generations", "2", "--generation_batch_size", "4", "--max_steps", "1",
                "--pipeline", f"{work}/refused.yaml", "--output_dir", f"{work}/refused")
        check(f"rl: {recipe.split(':')[0]} of the mid-end ({who[0]})", p.returncode in (1, 2) and word in p.stderr
              and "--pipeline" in p.stderr and not os.path.exists(f"{work}/refused"), p.stderr)


TUNED = """import torch
import torch.nn as nn
import triton
import triton.language as tl

# tune: BLOCK = 16 | 64 | 512
# tune: WARPS = 1 | 4
BLOCK = 16
WARPS = 4

@triton.jit
def kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(p + i, mask=i < n) * 2.0, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), BLOCK),)](x, o, x.numel(), B=BLOCK, num_warps=WARPS)
        return o
"""
TUNER = '''import json, re, sys
# Names a point that was tried, then one that is not in the space, then the last that is left in the space's order; or,
# where it is told so, the first that is left each time.
for n, line in enumerate(sys.stdin):
    r = json.loads(line)
    said = r["messages"][0]["content"]
    tried = re.findall(r"BLOCK=\\d+ WARPS=\\d+", said.split("Tried so far")[1])
    assert r["stage"] == "backend" and len(tried) == n + 1, said
    assert all(s in said for s in ("H200: 132 SMs", "BLOCK: 16 64 512", "def kernel", "total: 1 launch, ",
                                "waits for most: ")), said
    assert r["temperature"] == 0.5 and r["max_tokens"] == 99, r
    left = [p for p in (f"BLOCK={b} WARPS={w}" for w in (1, 4) for b in (16, 64, 512)) if p not in tried]
    answers = [left[0]] * 3 if sys.argv[1:] else [tried[0], "BLOCK=48 WARPS=1", left[-1]]
    print(json.dumps({"id": r["id"], "answer": answers[min(n, 2)]}), flush=True)
'''


IR_MODULE = """import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.maximum(tl.load(p + i, mask=i < n), 0.0), mask=i < n)

@triton.jit
def kernel(p, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, EXPRESSION * 2.0, mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        t, o = torch.empty_like(x), torch.empty_like(x)
        FIRST
        kernel[(triton.cdiv(x.numel(), 64),)](GIVEN, o, x.numel(), B=64)
        return o
"""
IR_POLICY = '''import json, sys
# Two launches as the frontend, one as the mid-end, which has to be shown the two in the same form.
slow, fast = (open(f).read() for f in sys.argv[1:])
for line in sys.stdin:
    r = json.loads(line)
    said = r["messages"][0]["content"]
    if r["stage"] == "midend":
        assert slow.strip() in said and "total: 2 launches" in said, said
    text = fast if r["stage"] == "midend" else slow
    print(json.dumps({"id": r["id"], "answer": f"```ttir\\n{text}```\\n"}), flush=True)
'''


def test_ir_chain():
    """Frontend and mid-end in Triton's IR: what one writes is what the
    other reads, and its gain."""
    source = open(f"{work}/tasks.jsonl").readline()
    source = json.loads(source)["source"].replace("torch.relu(x)", "torch.relu(x) * 2.0")
    open(f"{work}/chain.py", "w").write(source)
    row = {"name": "chain", "source": source, "level": 1, "structure": "chain", "split": "train"}
    open(f"{work}/chain.jsonl", "w").write(json.dumps(row) + "\n")
    open(f"{work}/irs.py", "w").write(IR_POLICY)
    # Two modules that compute the same, in two launches and in one, as IR.
    launch = "relu_kernel[(triton.cdiv(x.numel(), 64),)](x, t, x.numel(), B=64)"
    forms = {"two": ("tl.load(p + i, mask=i < n)", launch, "t"),
             "one": ("tl.maximum(tl.load(p + i, mask=i < n), 0.0)", "pass", "x")}
    for name, (expression, first, given) in forms.items():
        text = IR_MODULE.replace("EXPRESSION", expression).replace("FIRST", first).replace("GIVEN", given)
        open(f"{work}/{name}.py", "w").write(text)
        p = run(hone, "verify", "--task", f"{work}/chain.py", "--candidate", f"{work}/{name}.py", "--emit",
                f"{work}/{name}.ttir")
        check(f"kernels of {name} as IR", p.returncode == 0, p.stdout + p.stderr)
    # The former are the frontend's answer, the latter the mid-end's to it.
    p = run(hone, "eval", "--tasks", f"{work}/chain.jsonl", "--split", "train", "--prompt_template",
            "recipes/prompts/frontend-ir.txt", "--pipeline", "--midend_template", "recipes/prompts/midend-ir.txt",
            "--num_samples", "2", "--midend_samples", "1", "--temperature", "1", "--num_correct_trials", "1",
            "--verify_threads", "1", "--json", "--policy_command",
            f"{sys.executable} {work}/irs.py {work}/two.ttir {work}/one.ttir")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    m = s.get("pipeline", {}).get("midend", {})
    check("a chain in IR: the mid-end fuses what the frontend wrote",
          m.get("kernels") == 1 and m["genuine"] == m["faster"] == 1 and m["changes"]["fused"]["kernels"] == 1
          and m["speedup_geomean"] > 1.3, p.stdout + p.stderr)


def test_tune_elsewhere(tune):
    """The same search, kept and asked again where the workers have another triton."""
    build = f"{work}/other/build/release"
    os.makedirs(build)
    for name in ("hone", "hone-runner", "libhone_sandbox.so"):
        os.link(f"{os.path.dirname(hone)}/{name}", f"{build}/{name}")
    shutil.copytree("worker", f"{work}/other/worker")
    os.symlink(os.path.abspath("build/venv"), f"{work}/other/build/venv")
    zygote = open(f"{work}/other/worker/zygote.py").read()
    open(f"{work}/other/worker/zygote.py", "w").write(zygote.replace('version("triton")', '"another"'))
    here, again, there = (json.loads(tune("--verdicts", "1", program=p).stdout)["cached"]
                          for p in (hone, hone, f"{build}/hone"))
    return (here, again, there) == (False, True, False)


def test_tune():
    open(f"{work}/tuned.py", "w").write(TUNED)
    open(f"{work}/tuner.py", "w").write(TUNER)

    def tune(*more, program=hone):
        return run(program, "tune", "--task", f"{work}/twice.py", "--candidate", f"{work}/tuned.py",
                   "--num_correct_trials", "1", "--store", f"{work}/cache.db", "--json", *more)

    # By chance over the whole space, which gives every point's cost for what follows.
    p = tune("--verdicts", "6", "--out", f"{work}/best.py")
    s = json.loads(p.stdout) if p.returncode == 0 else {}
    tried = {r["point"]: r["cost_s"] for r in s.get("tried", [])}
    check("plain search: each point once, the kernel's own first, the cheapest is the best",
          len(tried) == len(s.get("tried", [])) == s.get("points") == 6 and s["tried"][0]["point"] == s["given"]
          == "BLOCK=16 WARPS=4" and s["best_s"] == tried[s["best"]] == min(tried.values()) < tried[s["given"]]
          and abs(s["speedup"] - tried[s["given"]] / s["best_s"]) < 1e-12 and s["cached"] is False, p.stdout + p.stderr)
    # Guided by a command that repeats itself, by one that does not, and by a model.
    p = tune("--verdicts", "4", "--search", "policy", "--policy_command", f"{sys.executable} {work}/tuner.py",
             "--temperature", "0.5", "--max_completion_length", "99")
    g = json.loads(p.stdout) if p.returncode == 0 else {}
    check("a search that a policy guides: as many verdicts, chance where it names no new point",
          [r["by"] for r in g.get("tried", [])] == ["given", "chance", "chance", "policy"] and g["asked"] == 3
          and g["without_point"] == 2 and all(tried[r["point"]] == r["cost_s"] for r in g["tried"]),
          (p.stdout, p.stderr, tried))
    p = tune("--verdicts", "3", "--search", "policy", "--policy_command", f"{sys.executable} {work}/tuner.py first",
             "--temperature", "0.5", "--max_completion_length", "99")
    g = json.loads(p.stdout) if p.returncode == 0 else {}
    check("the points that a policy names are tried, the space's first one too",
          [(r["point"], r["by"]) for r in g.get("tried", [])] == [("BLOCK=16 WARPS=4", "given"),
              ("BLOCK=16 WARPS=1", "policy"), ("BLOCK=64 WARPS=1", "policy")], (p.stdout, p.stderr))
    model = ("--verdicts", "4", "--search", "policy", "--model", "recipes/demo/start", "--chat_template", "plain")
    p = tune(*model, "--max_completion_length", "8")
    m = json.loads(p.stdout) if p.returncode == 0 else {}
    check("a model that hone runs is asked for each point but the first, at as many verdicts",
          m.get("asked") == 3 and len(m["tried"]) == 4 and m["tried"][0]["by"] == "given"
          and sum(r["by"] == "chance" for r in m["tried"]) == m["without_point"]
          and all(tried[r["point"]] == r["cost_s"] for r in m["tried"]), p.stdout + p.stderr)
    for form, kept in (("plain", True), ("chatml", False)):
        p = tune(*model[:-1], form, "--max_completion_length", "8")
        check(f"the store answers a model asked in the form that it was asked in alone ({form})",
              p.returncode == 0 and json.loads(p.stdout)["cached"] is kept, p.stdout + p.stderr)
    p = tune("--verdicts", "6", "--gpu", "A100")
    a = json.loads(p.stdout) if p.returncode == 0 else {}
    check("another card's search is its own", a.get("cached") is False and a["gpu"] == "A100", p.stdout + p.stderr)
    p = tune(*model, "--max_completion_length", "1536")
    check("a question that the model has no positions for is refused with its numbers",
          p.returncode == 1 and "1536 positions" in p.stderr and "--max_completion_length" in p.stderr, p.stderr)
    # What was found is written and kept.
    best = dict(x.split("=") for x in s["best"].split()) if s else {}
    check("the best kernel is written with its values",
          s and f"\nBLOCK = {best['BLOCK']}\nWARPS = {best['WARPS']}\n" in open(f"{work}/best.py").read())
    p = tune("--verdicts", "6")
    again = json.loads(p.stdout) if p.returncode == 0 else {}
    check("asked again the store answers", again.get("cached") is True and {**again, "cached": False} == s,
          p.stdout + p.stderr)
    check("another compiler's or verifier's results are not ours", test_tune_elsewhere(tune))
    # A choice that is no number is numbered.
    load = "tl.load(p + i, mask=i < n) * 2.0"
    evict = TUNED.replace("# tune: BLOCK = 16 | 64 | 512\n# tune: WARPS = 1 | 4", "# tune: EVICT = 1 | 2").replace(
        "WARPS = 4\n", "WARPS = 4\nEVICT = 1\n").replace("B: tl.constexpr", "B: tl.constexpr, E: tl.constexpr").replace(
        "B=BLOCK", "B=BLOCK, E=EVICT").replace(f"    tl.store(o + i, {load}, mask=i < n)", """\
    if E == 1:
        x = tl.load(p + i, mask=i < n, eviction_policy="evict_first")
    else:
        x = tl.load(p + i, mask=i < n, eviction_policy="evict_last")
    tl.store(o + i, x * 2.0, mask=i < n)""")
    open(f"{work}/tuned.py", "w").write(evict)
    p = tune("--verdicts", "2")
    e = json.loads(p.stdout) if p.returncode == 0 else {}
    check("eviction policies are points of a space, of one predicted time",
          evict.count("evict_") == 2 and [r["point"] for r in e.get("tried", [])] == ["EVICT=1", "EVICT=2"]
          and e["tried"][0]["cost_s"] == e["tried"][1]["cost_s"] and e["speedup"] == 1, p.stdout + p.stderr)
    open(f"{work}/tuned.py", "w").write(TUNED.replace("# tune: WARPS = 1 | 4", "# tune: WARPS = 1 | 2"))
    p = tune()
    check("a value that is not declared is refused by name", p.returncode == 1 and "WARPS" in p.stderr, p.stderr)
    p = tune("--search", "policy")
    check("a policy's search needs a policy", p.returncode == 2 and "--policy_command" in p.stderr, p.stderr)


def main():
    warm_workers()
    p = prepare()
    if p.returncode == 0:
        test_eval()
        test_dies()
        test_broken()
        test_alone()
        test_turns()
        test_rl()
        gained = test_pipeline()
        test_given(gained)
        test_pipeline_refused()
        test_ir_chain()
        test_tune()
    else:
        check("tasks are made", False, p.stderr)
    done()


main()
