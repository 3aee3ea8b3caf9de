"""hone bench rl: a step's split and the long way beside the new one, on the tiny policy; what it
refuses.  timeout: 900"""
import json, sys

sys.path.append("tests")
from command import check, done, hone, run, tiny_policy, warm_workers

warm_workers()
policy = tiny_policy()
command = [hone, "bench", "rl", "--model", f"{policy}/sft/final", "--tasks", f"{policy}/tasks.jsonl",
           "--prompt_template", f"{policy}/template.txt", "--chat_template", "plain", "--num_generations", "6",
           "--generation_batch_size", "12", "--max_completion_length", "170", "--max_tokens", "1024",
           "--max_steps", "1", "--num_correct_trials", "1", "--lora_r", "4", "--threads", "1", "--verify_threads", "1"]

if policy:
    p = run(*command, "--rounds", "1", "--json", expect=0)
    r = json.loads(p.stdout) if p.returncode == 0 else {}
    ways = [r.get("long", {}), r.get("new", {})]
    check("both ways are measured, whole and with verdicts known, on the same answers",
          all(w.get("answers") == 12 and w["generate_s"] > 0 and w["update_s"] > 0 and w["known_generate_s"] > 0
              and w["answers_per_s"] > 0 and w["step_s"] >= w["generate_s"] + w["idle_s"] for w in ways),
          p.stdout + p.stderr)
    check("verdicts outlast generation here, and their seconds are idle ones, not those of generation",
          all(w.get("idle_s", 0) > 0 for w in ways), ways)
    check("a policy that knows its answers by heart shares most of its tokens",
          0 < r.get("distinct_generation", 0) < 0.8, r)
    p = run(*command, "--rounds", "1", "--cpu_time", expect=0)
    check("a table in words, with the share of distinct tokens",
          all(s in p.stdout for s in ("idle: verdicts waited for", "answers a second, without verdicts",
                                      "distinct tokens: generation", "drew the same")), p.stdout + p.stderr)
    p = run(*command, "--store", "x.db", expect=2)
    check("a store of one's own is refused", p.returncode == 2 and "--store" in p.stderr, p.stderr)
    p = run(*command, "--max_steps", "0", expect=2)
    check("no step is refused", p.returncode == 2 and "--max_steps" in p.stderr, p.stderr)
done()
