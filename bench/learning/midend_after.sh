#!/bin/bash
# What helps a mid-end after its supervised fit? The demo's adapter, fitted on the demo's 600 pairs,
# then SECONDS of each arm on one thread. recipes/study/after.yaml has the protocol.
#
# usage: bench/learning/midend_after.sh DIR start
#            kernels of further structures, and the adapter that the arms begin at
#        bench/learning/midend_after.sh DIR ARM SEED SECONDS
#            trains, and answers the held-out kernels greedily: DIR/ARM-SEED
#        bench/learning/midend_after.sh DIR table
# Arms:
# pairs: the supervised fit goes on
# demo: reinforcement by recipes/demo/rl-midend.yaml, on the kernels that were fitted
# new: the same on kernels of tasks that have no pair
# broad: recipes/study/after.yaml on these: more prompts with fewer answers each, chosen by promise;
#     supervised updates on own answers and pairs
# fit: answers to these at rate 0 for 0.6 of the time, then own genuine answers and pairs are fitted
# What is there from an earlier start is not made again, and training that was stopped goes on.
# Environment: HONE (build/release/hone), PYTHON (build/venv/bin/python), THREADS (of start, 1),
# DEVICE (where its fit runs, cpu), FIT (its steps, 700), LIMIT (test tasks, 0: all)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} threads=${THREADS:-1} limit=${LIMIT:-0}
dir=$1 arm=$2 seed=${3:-} seconds=${4:-}
out=$dir/$arm-$seed adapter=$dir/start/final demo=recipes/demo
prompts=(--stage midend --prompt_template recipes/prompts/small-midend.txt --chat_template plain)

# The demo's mid-end tasks are the first 600 of these for training; of test one task a structure.
data() {
	[ -e "$dir/all.jsonl" ] || "$hone" tasks synth --seed 2 --count_train 1100 --count_dev 60 --count_test 240 --level_min 1 --level_max 1 --operators_min 2 \
		--operators "$(tools/demo_pairs.sh operators)" --out "$dir/all.jsonl"
	grep '"split": *"train"' "$dir/all.jsonl" | tail -n +601 | cat - "$dir/all.jsonl" |
		awk '/"split": *"train"/ && ++n <= 500 || /"split": *"test"/ && match($0, /"structure": *"[^"]*"/) && !seen[substr($0, RSTART, RLENGTH)]++' \
		>"$dir/some.jsonl"
	"$hone" pairs synth "${prompts[@]}" --tasks "$dir/some.jsonl" --style 0 --num_correct_trials 4 --verify_threads "$threads" --out "$dir/new.jsonl"
	mv "$dir/new.jsonl" "$dir/kernels.jsonl"
}
evaluate() { # ADAPTER FILE OPTIONS...
	[ -e "$2" ] || "$hone" eval --model $demo/start --adapter "$1" "${prompts[@]}" --tasks "$dir/kernels.jsonl" --limit "$limit" \
		--max_completion_length 400 --num_correct_trials 4 --threads 1 --verify_threads 1 --out "$2" "${@:3}" | tee "$2.table"
}
start() {
	[ -e "$dir/kernels.jsonl" ] || data
	[ -d "$adapter" ] || "$hone" sft --recipe $demo/sft-midend.yaml --threads "$threads" --device "${DEVICE:-cpu}" --model $demo/start --data $demo/midend.jsonl.gz \
		--max_steps "${FIT:-700}" --output_dir "$dir/start"
	evaluate "$adapter" "$dir/start-test.jsonl"
}
reinforce() { # RECIPE TASKS SECONDS FOLDER OPTIONS...
	[ -d "$4/final" ] || "$hone" rl --recipe "$1" --threads 1 --verify_threads 1 --seed "$seed" --model $demo/start --adapter "$adapter" \
		--tasks "$2" --max_seconds "$3" --save_steps 5 --guard warn --output_dir "$4" "${@:5}"
}
fit() { # COMMAND SECONDS OPTIONS...
	[ -d "$out/run/final" ] || "$hone" "$1" --recipe $demo/sft-midend.yaml --learning_rate 5e-4 --threads 1 --seed "$seed" --model $demo/start \
		--adapter "$adapter" --max_seconds "$2" --save_steps 50 --output_dir "$out/run" "${@:3}"
}
share() { awk "BEGIN {print $seconds * $1}"; }

case $arm in
start)
	mkdir -p "$dir"
	start
	exit
	;;
table)
	"$python" bench/learning/study_table.py "$dir"
	exit
	;;
esac
[ -n "$seconds" ] || usage
mkdir -p "$out"
case $arm in
pairs) fit sft "$seconds" --data $demo/midend.jsonl.gz ;;
demo) reinforce $demo/rl-midend.yaml $demo/midend.jsonl.gz "$seconds" "$out/run" ;;
new) reinforce $demo/rl-midend.yaml "$dir/kernels.jsonl" "$seconds" "$out/run" ;;
broad) reinforce recipes/study/after.yaml "$dir/kernels.jsonl" "$seconds" "$out/run" --replay_pairs $demo/midend.jsonl.gz ;;
fit)
	reinforce recipes/study/after.yaml "$dir/kernels.jsonl" "$(share 0.6)" "$out/samples" --learning_rate 0 --replay_updates 0
	fit distill "$(share 0.4)" --from "$out/samples" --tasks "$dir/kernels.jsonl" "${prompts[@]}" --pairs $demo/midend.jsonl.gz
	;;
*) usage ;;
esac
evaluate "$out/run/final" "$out/test.jsonl" --compare "$dir/start-test.jsonl"
