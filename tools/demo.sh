#!/bin/bash
# The whole of hone on a machine without a GPU, in at most twelve minutes on two cores: a model
# that was trained on few verified and more unverified pairs (tools/demo_pairs.sh made it),
# reinforcement learning of the frontend with the real verifier and a fit of what it found, both
# beside the verified pairs, a mid-end with an adapter of its own (fitted on its pairs, then a short
# reinforcement), held-out results before and after each, a report.
#
# usage: tools/demo.sh [--dir DIR] [--rl S] [--fit SHARE] [--midend S] [--tasks N] 
#                      [--midend_tasks N] [--seed N] [--control S]
#        seconds of training (of the mid-end two thirds are its fit), tasks per evaluation; fit: the
#        share of --rl's seconds in which the run's own genuine answers and the verified pairs are
#        fitted at the end (docs/training.md, What to run), 0 for none; control: also trains the
#        start for S seconds more on all of its pairs, and on the verified ones alone, to compare
#        with (off)
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${HONE:-build/release/hone} dir=build/demo rl=300 fit=0.25 midend=180 tasks=200 midend_tasks=40 seed=1 control=0
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=$2 ;; --rl) rl=$2 ;; --fit) fit=$2 ;; --midend) midend=$2 ;; --tasks) tasks=$2 ;; --midend_tasks) midend_tasks=$2 ;; --seed) seed=$2 ;;
	--control) control=$2 ;;
	*) sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
data=recipes/demo begin=$SECONDS
front=(--stage frontend --tasks $data/tasks.jsonl.gz --prompt_template recipes/prompts/small-frontend.txt --limit "$tasks")
mid=(--stage midend --tasks $data/midend.jsonl.gz --prompt_template recipes/prompts/small-midend.txt --limit "$midend_tasks")
say() { printf '\n== %s (%d s since the beginning)\n' "$1" $((SECONDS - begin)); }
# evaluate NAME MODEL ARGS... : one greedy answer to each held-out task
evaluate() {
	local name=$1 model=$2; shift 2
	"$hone" eval --model "$model" --chat_template plain --split test --max_completion_length 400 --num_correct_trials 4 --store "$dir/verdicts.db" \
		--out "$dir/$name.jsonl" --json "$@" >"$dir/$name.json"
}

rm -rf "$dir"
mkdir -p "$dir"
say "pairs: a random 5 % is verified again"
$hone pairs check --pairs $data/pairs.jsonl.gz --fraction 0.05 --num_correct_trials 4
say "frontend, before: the model of $data/start"
evaluate frontend-start $data/start "${front[@]}"
fit_s=$(awk "BEGIN {print $rl * $fit}") policy_s=$(awk "BEGIN {print $rl * (1 - $fit)}") after=$dir/rl-frontend/final
say "frontend, reinforcement learning, $policy_s s"
$hone rl --recipe $data/rl-frontend.yaml --model $data/start --tasks $data/tasks.jsonl.gz --seed "$seed" \
	--output_dir "$dir/rl-frontend" --store "$dir/hone.db" --max_seconds "$policy_s" --replay_pairs $data/pairs.jsonl.gz
if [ "$fit_s" != 0 ]; then
	say "frontend, the run's own genuine answers and the verified pairs fitted on top, $fit_s s"
	$hone distill --recipe $data/fit.yaml --from "$dir/hone.db" --pairs $data/pairs.jsonl.gz --model "$after" --tasks $data/tasks.jsonl.gz --seed "$seed" \
		--output_dir "$dir/fit" --max_seconds "$fit_s"
	after=$dir/fit/final
fi
say "frontend, after"
evaluate frontend-rl "$after" "${front[@]}" --compare "$dir/frontend-start.jsonl"
names=(frontend-start frontend-rl)
# continued NAME PAIRS : the start, trained on PAIRS for the control's seconds, and how RL compares
continued() {
	local name=$1 pairs=$2
	say "$name: the start, trained on $pairs for $control s more"
	$hone sft --recipe $data/sft.yaml --model $data/start --data "$pairs" --learning_rate 5e-4 --eval_steps 0 --max_steps 0 --seed "$seed" \
		--output_dir "$dir/$name" --max_seconds "$control"
	evaluate "$name" "$dir/$name/final" "${front[@]}" --compare "$dir/frontend-start.jsonl"
	evaluate "frontend-rl-$name" "$after" "${front[@]}" --compare "$dir/$name.jsonl"
	names+=("$name" "frontend-rl-$name")
}
if [ "$control" -gt 0 ]; then
	cat $data/pairs.jsonl.gz $data/unverified.jsonl.gz >"$dir/pairs.jsonl.gz"   # gzip members simply follow one another
	continued control "$dir/pairs.jsonl.gz"
	continued control-verified $data/pairs.jsonl.gz
fi
if [ "$midend" -gt 0 ]; then
	say "mid-end: an adapter on the same model, fitted on its pairs for $((midend - midend / 3)) s"
	$hone sft --recipe $data/sft-midend.yaml --model $data/start --data $data/midend.jsonl.gz --seed "$seed" --output_dir "$dir/sft-midend" \
		--max_seconds $((midend - midend / 3))
	say "mid-end, before"
	evaluate midend-start $data/start "${mid[@]}" --adapter "$dir/sft-midend/final"
	say "mid-end, reinforcement learning, $((midend / 3)) s"
	$hone rl --recipe $data/rl-midend.yaml --model $data/start --adapter "$dir/sft-midend/final" --tasks $data/midend.jsonl.gz --seed "$seed" \
		--output_dir "$dir/rl-midend" --store "$dir/hone.db" --max_seconds $((midend / 3))
	say "mid-end, after"
	evaluate midend-rl $data/start "${mid[@]}" --adapter "$dir/rl-midend/final" --compare "$dir/midend-start.jsonl"
	names+=(midend-start midend-rl)
fi

say "results on held-out tasks (operator combinations never seen in training)"
build/venv/bin/python tools/demo_table.py "$dir" "${names[@]}"
$hone report --store "$dir/hone.db" --tables "$dir/tables.json" --title "hone demo" --out "$dir/report.html"
printf 'demo: %d s\n' $((SECONDS - begin))
