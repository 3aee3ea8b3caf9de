#!/bin/bash
# Study s5: what a chain of two agents is worth beside one agent that is paid for speed, at equal
# verdicts and at equal tokens, on tasks whose plans have a price. recipes/study/s5.yaml has the
# protocol.
#
# usage: bench/learning/chain.sh DIR SHARE start
#            tasks, pairs and the model that the arms share; SHARE of the structures whose fused
#            kernel the pairs also show as an answer to the module: few (a tenth), half
#        bench/learning/chain.sh DIR SHARE ARM SEED SECONDS
#            trains for STEPS steps, and SECONDS at most, then evaluates: DIR/SHARE/ARM-SEED
#        bench/learning/chain.sh DIR SHARE table
#            all arms against each other
# Arms:
# none: the start, as a chain and as a single agent
# single: one agent, paid for right and fast kernels
# two: a frontend paid for right kernels for half of the steps, then a mid-end, an adapter each
# one: the same with one adapter, which the mid-end's training goes on from
# What is there from an earlier start is not made again, and training that was stopped goes on.
# Environment: HONE (build/release/hone), PYTHON (build/venv/bin/python), THREADS (of the start's
# fit, 1), DEVICE (where that fit runs, cpu), FIT (its steps, 1500), STEPS (24, of 32 answers),
# SAMPLES (4), LIMIT (tasks of each half of an evaluation, 0: all)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] && [[ $2 =~ ^(few|half)$ ]] || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} threads=${THREADS:-1} steps=${STEPS:-24} samples=${SAMPLES:-4} limit=${LIMIT:-0}
data=$1/tasks dir=$1/$2 share=$2 arm=$3 seed=${4:-} seconds=${5:-}
out=$dir/$arm-$seed start=$dir/start/final
front=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
chain=(--pipeline --midend_template recipes/prompts/small-midend.txt)

start() {
	[ -e "$data/text.jsonl" ] || bench/learning/midend.sh "$data" data
	for part in 1 2; do grep '"split": *"test"' "$data/tasks.jsonl" | awk "NR % 2 == $part - 1" >"$data/test-$part.jsonl"; done
	"$python" - "$share" "$data/pairs.jsonl" "$dir/pairs.jsonl" <<'PYTHON'
import hashlib, json, sys
share, pairs, out = sys.argv[1:]
every = {"few": 10, "half": 2}[share]
rows = [json.loads(line) for line in open(pairs)]
with open(out, "w") as f:
    for front, mid in zip(rows[::2], rows[1::2]):      # of one task
        f.writelines(json.dumps(r) + "\n" for r in (front, mid))
        if hashlib.sha256(front["structure"].encode()).digest()[-2] % every == 0:
            f.write(json.dumps({**front, "name": front["name"] + "-fused", "completion": mid["completion"]}) + "\n")
PYTHON
	[ -d "$start" ] || "$hone" sft --recipe recipes/study/midend-base.yaml --seed 1 --threads "$threads" --device "${DEVICE:-cpu}" \
		--model recipes/demo/start --data "$dir/pairs.jsonl" --max_steps "${FIT:-1500}" --output_dir "$dir/start"
}
reinforce() { # STEPS SECONDS OPTIONS...: more of a run that was stopped goes on from its newest checkpoint
	"$hone" rl --recipe recipes/study/s5.yaml --seed "$seed" --threads 1 --verify_threads 1 --model "$start" --tasks "$data/rl.jsonl" \
		--output_dir "$out/rl" --max_steps "$1" --max_seconds "$2" "${@:3}"
}
train() {
	local half=$((steps / 2)) time=$((seconds / 2)) recipe=recipes/study/chain-midend.yaml
	if [ "$arm" = one ]; then
		recipe=$out/midend.yaml
		sed "\$aadapter: $out/rl/frontend/final" recipes/study/chain-midend.yaml >"$recipe"
	fi
	case $arm in
	single) [ -d "$out/rl/final" ] || reinforce "$steps" "$seconds" --reward uniform ;;
	one | two) [ -d "$out/rl/midend/final" ] || reinforce "$half" "$time" --reward frontend --pipeline "$recipe" ;;
	esac
}
# evaluate NAME OPTIONS...: in two halves, so that one is there early
evaluate() {
	local name=$1 part; shift
	for part in 1 2; do
		[ -e "$out/$name-$part.jsonl" ] || "$hone" eval --model "$start" "${front[@]}" --tasks "$data/test-$part.jsonl" --limit "$limit" \
			--max_completion_length 560 --num_correct_trials 4 --threads 1 --verify_threads 1 --temperature 1 --seed "$seed" \
			--out "$out/$name-$part.jsonl" "$@" | tee "$out/$name-$part.table"
	done
}
# The single agent needs more answers than the chain for as many tokens: a fused kernel has half of
# the tokens of one with a launch an operator, so some 12 of them are as long as 4 and 4.
single() { evaluate single --num_samples $((4 * samples)) "$@"; }

case $arm in
start)
	mkdir -p "$dir" "$data"
	start
	;;
table) "$python" bench/learning/chain_table.py "$dir" "$samples" ;;
none | single | one | two)
	[ -n "$seconds" ] || usage
	mkdir -p "$out"
	train
	case $arm in
	none)
		evaluate chain "${chain[@]}" --num_samples "$samples"
		single
		;;
	single) single --adapter "$out/rl/final" ;;
	one) evaluate chain "${chain[@]}" --num_samples "$samples" --adapter "$out/rl/midend/final" ;;
	two) evaluate chain "${chain[@]}" --num_samples "$samples" --adapter "$out/rl/frontend/final" --midend_adapter "$out/rl/midend/final" ;;
	esac
	;;
*) usage ;;
esac
