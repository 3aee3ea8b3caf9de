#!/bin/bash
# What a mid-end gains over a frontend that writes a launch an operator (docs/results.md). One model
# learns both stages; the frontend is then asked about structures that nobody trained on, and the
# mid-end about the kernels that came out genuine. recipes/study/midend-base.yaml has the protocol.
#
# usage: bench/learning/midend.sh DIR data
#            tasks and pairs alone
#        bench/learning/midend.sh DIR SEED SECONDS
#            fits for SECONDS and evaluates: DIR/SEED
#        bench/learning/midend.sh DIR SEED SECONDS rl
#            and trains the mid-end by reinforcement on the frontend's own kernels of further
#            structures
# What is there from an earlier start is not made again. A seed is that of order and answers; tasks
# and pairs are the same for all.
# Environment: START (recipes/demo/start; random: weights of the seed, a tokenizer of the pairs),
# HONE (build/release/hone), PYTHON (build/venv/bin/python), SAMPLES (4), LIMIT (tasks of an
# evaluation, 0: all)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ "$#,${2:-}" = 2,data ] || [ $# = 3 ] || [ "$#,${4:-}" = 4,rl ] || usage
hone=${HONE:-build/release/hone} start=${START:-recipes/demo/start} python=${PYTHON:-build/venv/bin/python} samples=${SAMPLES:-4} limit=${LIMIT:-0}
dir=$1 seed=$2 seconds=${3:-} out=$1/$2
operators=relu,sigmoid,silu,softsign,relu6,exp_neg_abs,gauss,abs,neg,square,cube,recip_abs,sin,cos
front=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
mid=(--prompt_template recipes/prompts/small-midend.txt --chat_template plain)

data() {
	[ -e "$dir/all.jsonl" ] || "$hone" tasks synth --seed 3 --count_train 2500 --count_dev 60 --count_test 200 --level_min 1 --level_max 1 \
		--operators_min 2 --operators $operators --out "$dir/all.jsonl"
	awk '/"split": ?"train"/ || match($0, /"structure": ?"[^"]*"/) && !seen[substr($0, RSTART, RLENGTH)]++' "$dir/all.jsonl" >"$dir/tasks.jsonl"
	"$python" bench/learning/midend_pairs.py recipes/demo/midend-few.jsonl.gz "$dir/tasks.jsonl" "$dir/pairs.jsonl" "$dir/rl.jsonl"
	head -600 "$dir/pairs.jsonl" >"$dir/text.jsonl"
}
evaluate() { # FILE OPTIONS...
	local file=$1; shift
	[ -e "$file" ] || "$hone" eval --model "$out/base/final" --split test --limit "$limit" --max_completion_length 560 --num_correct_trials 4 \
		--threads 1 --verify_threads 1 --seed "$seed" --store "$dir/cache.db" --out "$file" "$@" | tee "$file.table"
}
given() { # the frontend's genuine answers, as the mid-end's tasks
	"$python" - "$dir/tasks.jsonl" "$out/front.jsonl" "$out/given.jsonl" <<'PYTHON'
import json, sys
tasks, answers, out = sys.argv[1:]
task_of = {t["name"]: t for t in map(json.loads, open(tasks))}
with open(out, "w") as f:
    for r in map(json.loads, open(answers)):
        if r["verdict"]["verdict"] == "genuine":
            kernel = r["answer"].rsplit("```python\n", 1)[1].split("```")[0]
            f.write(json.dumps({**task_of[r["task"]], "kernel": kernel, "profile": r["verdict"]}) + "\n")
PYTHON
}
chain() { # FILE OPTIONS...: 4 + 4 answers, beside the frontend alone
	evaluate "$1" "${front[@]}" --tasks "$dir/tasks.jsonl" --pipeline --midend_template recipes/prompts/small-midend.txt --num_samples "$samples" \
		--temperature 1 "${@:2}"
}

mkdir -p "$dir"
[ -e "$dir/text.jsonl" ] || data
[ "$seed" != data ] || exit 0
mkdir -p "$out"
rate=()
if [ "$start" = random ]; then
	start=$out/untrained rate=(--learning_rate 2e-3)
	[ -d "$start" ] || "$hone" init --recipe recipes/demo/model.yaml --seed "$seed" --text "$dir/text.jsonl" --out "$start"
fi
[ -d "$out/base/final" ] || "$hone" sft --recipe recipes/study/midend-base.yaml --seed "$seed" --threads 1 --model "$start" \
	--data "$dir/pairs.jsonl" --max_seconds "$seconds" --output_dir "$out/base" "${rate[@]}"
evaluate "$out/front.jsonl" "${front[@]}" --tasks "$dir/tasks.jsonl"
given
evaluate "$out/mid.jsonl" --stage midend "${mid[@]}" --tasks "$out/given.jsonl"
chain "$out/chain.jsonl"
[ $# = 4 ] || exit 0
[ -d "$out/rl/midend/final" ] || "$hone" rl --recipe recipes/study/midend-front.yaml --pipeline recipes/study/midend-rl.yaml --seed "$seed" --threads 1 \
	--verify_threads 1 --model "$out/base/final" --tasks "$dir/rl.jsonl" --output_dir "$out/rl"
evaluate "$out/mid-rl.jsonl" --stage midend "${mid[@]}" --tasks "$out/given.jsonl" --adapter "$out/rl/midend/final" --compare "$out/mid.jsonl"
chain "$out/chain-rl.jsonl" --midend_adapter "$out/rl/midend/final"
