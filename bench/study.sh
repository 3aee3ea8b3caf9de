#!/bin/bash
# Does reinforcement learning teach what supervised training on the same few pairs does not? One part of the measurement of docs/results.md at a time; DIR collects a seed's parts.
#
# usage: bench/study.sh DIR SEED start               supervised training on 250 pairs, to the minimum of the held-out loss
#        bench/study.sh DIR SEED ARM [SECONDS]       ARM: rl, rejection (the policy's own genuine answers), sft (more of start); 400 seconds each
#        bench/study.sh DIR SEED eval ARM            greedy, T = 1 with pass@8, hand-written tasks; each against start (paired bootstrap over tasks)
# Environment: HONE (build/release/hone), THREADS (2).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 3 ] || { sed -n '4,6s/^# //p' "$0" >&2; exit 2; }
hone=${HONE:-build/release/hone} threads=${THREADS:-2} dir=$1/$2 seed=$2 part=$3
data=recipes/demo
prompts=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain --max_completion_length 400 --num_correct_trials 4 --threads "$threads" --verify_threads "$threads")
sft=("$hone" sft --recipe $data/sft.yaml --seed "$seed" --threads "$threads" --data "$dir/pairs.jsonl" --eval_steps 50)
rl=("$hone" rl --recipe $data/rl-frontend.yaml --seed "$seed" --threads "$threads" --verify_threads "$threads" --model "$dir/start/final" --tasks $data/tasks.jsonl.gz --temperature 1.3
	--generation_batch_size 128 --lr_scheduler_type constant --max_steps 0)

start() {
	mkdir -p "$dir"
	# 250 training rows and 60 held-out ones for the loss; never the pairs of the other tasks, which only the verifier may speak of
	{ zcat $data/pairs.jsonl.gz | grep '"split":"train"' | awk 'NR <= 250'; zcat $data/pairs.jsonl.gz | grep '"split":"heldout"' | awk 'NR <= 60'; } >"$dir/pairs.jsonl"
	"$hone" init --recipe $data/model.yaml --seed "$seed" --text $data/pairs.jsonl.gz --out "$dir/init"
	"${sft[@]}" --model "$dir/init" --learning_rate 2e-3 --lr_scheduler_type cosine --max_steps 1000 --stop_at_eval_minimum --patience 20 --output_dir "$dir/start"
}

evaluate() {
	local arm=$1 model=(--model "$dir/start/final") kind
	case $arm in
	rl | rejection) model+=(--adapter "$dir/$arm/final") ;;
	sft) model=(--model "$dir/sft/final") ;;
	esac
	for kind in greedy sampled hand; do
		local options=(--tasks $data/tasks.jsonl.gz)
		[ $kind = sampled ] && options+=(--temperature 1 --num_samples 8)
		[ $kind = hand ] && options=(--tasks tasks/hand --split '')
		[ "$arm" != start ] && options+=(--compare "$dir/start-$kind.jsonl")
		echo "== seed $seed, $arm, $kind"
		"$hone" eval "${model[@]}" "${prompts[@]}" "${options[@]}" --out "$dir/$arm-$kind.jsonl"
	done
}

case $part in
start) start ;;
rl) "${rl[@]}" --max_seconds "${4:-400}" --output_dir "$dir/rl" ;;
rejection) "${rl[@]}" --advantage raw --max_seconds "${4:-400}" --output_dir "$dir/rejection" ;;
sft) "${sft[@]}" --model "$dir/start/final" --learning_rate 5e-4 --max_seconds "${4:-400}" --output_dir "$dir/sft" ;;
eval) evaluate "${4?eval needs an arm}" ;;
*) sed -n '4,6s/^# //p' "$0" >&2; exit 2 ;;
esac
