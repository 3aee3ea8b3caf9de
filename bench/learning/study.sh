#!/bin/bash
# Does reinforcement learning teach what supervised training on the same few pairs does not? One part of the measurement of docs/results.md at a time; DIR
# collects a seed's parts.
#
# usage: bench/learning/study.sh DIR SEED start             supervised training on 200 pairs: min/ is the minimum of the held-out loss, end/ the end, far behind it
#        bench/learning/study.sh DIR SEED rl [SECONDS]      reinforcement learning of end/ on tasks without pairs, all weights
#        bench/learning/study.sh DIR SEED sft STEPS         end/ trained on the same pairs for longer
#        bench/learning/study.sh DIR SEED rejection STEPS   end/ trained on the genuine answers among the samples of rl
#        bench/learning/study.sh DIR SEED eval PART         PART: min end rl sft rejection; greedy, T = 1 with pass@8, hand-written tasks; each against end
#                                                  (paired bootstrap over structures)
# Environment: HONE (build/release/hone), THREADS (2).
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '5,11s/^# //p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
hone=${HONE:-build/release/hone} threads=${THREADS:-2} dir=$1/$2 seed=$2 part=$3
data=recipes/demo
cores=(--threads "$threads" --verify_threads "$threads")
prompts=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain --max_completion_length 400 --num_correct_trials 4 "${cores[@]}")
sft=("$hone" sft --recipe $data/sft.yaml --seed "$seed" --threads "$threads" --eval_steps 50)

start() {
	mkdir -p "$dir"
	# 200 training rows and 60 dev ones for the loss; never the pairs of the other tasks, which only the verifier may speak of
	zcat $data/pairs.jsonl.gz | grep '"split":"train"' | awk 'NR <= 200' >"$dir/pairs.jsonl"
	zcat $data/pairs.jsonl.gz | grep '"split":"dev"' | awk 'NR <= 60' >>"$dir/pairs.jsonl"
	"$hone" init --recipe $data/model.yaml --seed "$seed" --text $data/pairs.jsonl.gz --out "$dir/init"
	"${sft[@]}" --data "$dir/pairs.jsonl" --model "$dir/init" --max_steps 1400 --stop_at_eval_minimum --patience 1000 --output_dir "$dir/start"
	cp "$dir"/start/final/tokenizer* "$dir/start/checkpoint-1400/"
	mv "$dir/start/final" "$dir/min"
	mv "$dir/start/checkpoint-1400" "$dir/end"
}

reinforce() {
	"$hone" rl --recipe $data/rl-frontend.yaml --seed "$seed" "${cores[@]}" --model "$dir/end" --tasks $data/tasks.jsonl.gz --no-use_peft \
		--learning_rate 1e-4 --lr_scheduler_type constant --temperature 1.3 --generation_batch_size 128 --max_tokens 4096 \
		--max_steps 0 --max_seconds "$1" --output_dir "$dir/rl-run"
	mv "$dir/rl-run/final" "$dir/rl"
}

# The genuine answers of all steps, each once, fitted on top of the start; the dev rows of the start's pairs are watched.
rejection() {
	grep '"split":"dev"' "$dir/pairs.jsonl" >"$dir/dev.jsonl"
	"$hone" distill --recipe $data/sft.yaml --seed "$seed" --threads "$threads" --eval_steps 50 --from "$dir/rl-run" --tasks $data/tasks.jsonl.gz \
		--prompt_template recipes/prompts/small-frontend.txt --chat_template plain --pairs "$dir/dev.jsonl" --model "$dir/end" --learning_rate 5e-4 \
		--max_steps "$1" --output_dir "$dir/rejection-run"
	mv "$dir/rejection-run/final" "$dir/rejection"
}

# more NAME PAIRS STEPS
more() {
	"${sft[@]}" --data "$2" --model "$dir/end" --learning_rate 5e-4 --max_steps "$3" --output_dir "$dir/$1-run"
	mv "$dir/$1-run/final" "$dir/$1"
}

evaluate() {
	local kind options
	for kind in greedy sampled hand; do
		options=(--tasks $data/tasks.jsonl.gz)
		[ $kind = sampled ] && options+=(--temperature 1 --num_samples 8)
		[ $kind = hand ] && options=(--tasks tasks/hand --split '')
		[ "$1" != end ] && options+=(--compare "$dir/end-$kind.jsonl")
		echo "== seed $seed, $1, $kind"
		"$hone" eval --model "$dir/$1" "${prompts[@]}" "${options[@]}" --out "$dir/$1-$kind.jsonl"
	done
}

case $part in
start) start ;;
rl) reinforce "${4:-560}" ;;
sft) more sft "$dir/pairs.jsonl" "${4?sft needs a number of steps}" ;;
rejection) rejection "${4?rejection needs a number of steps}" ;;
eval) evaluate "${4?eval needs a part}" ;;
*) usage ;;
esac
