#!/bin/bash
# Does it help to see several kernels of the task with their times? (docs/results.md)
# recipes/study/contrast.yaml has the protocol.
#
# usage: bench/learning/contrast.sh DIR data
#            tasks, verdicts on five kernels of each, what prompts may show and what is learnt:
#            DIR/shown.jsonl, DIR/learnt.jsonl
#        bench/learning/contrast.sh DIR ARM SEED SECONDS [RL]
#            fits for SECONDS (0: the demo's start as it is), trains by reinforcement for RL seconds
#            behind that, and evaluates: DIR/ARM-SEED; contrast behind plain says the difference
#        bench/learning/contrast.sh DIR table
# Arms: plain, contrast.
# What is there from an earlier start is not made again.
# Environment: HONE (build/release/hone), PYTHON (build/venv/bin/python), TRAIN (tasks to fit, 100),
# TEST (tasks of an evaluation, 48), SAMPLES (4), VARIANTS (kernels in a prompt, 3), DEVICE (where
# the fit runs, cpu), STEPS (of the fit; 0: SECONDS alone), WORKERS (threads of data, 1)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python}
dir=$1 arm=$2 seed=${3:-} seconds=${4:-} rl=${5:-0} out=$1/$2-${3:-} pairs=recipes/demo/midend.jsonl.gz
variants=(--variants "${VARIANTS:-3}" --variants_from "$dir/shown.jsonl")
side() { "$python" bench/learning/contrast_rows.py "$@"; }

data() {
	[ -e "$dir/tasks.jsonl" ] || side data $pairs "$dir" "${TRAIN:-100}" "${TEST:-48}"
	[ -e "$dir/judged.jsonl" ] || "$hone" eval --policy_answers "$dir/answers.jsonl" --tasks "$dir/tasks.jsonl" --split "" --num_samples 5 \
		--num_correct_trials 1 --verify_threads "${WORKERS:-1}" --store "$dir/cache.db" --out "$dir/judged.jsonl"
	side choose "$dir"
}
train() { # the last folder of a model is $model
	if [ "$seconds" != 0 ]; then
		[ -e "$out/asked.jsonl" ] || "$hone" eval --policy_command "$python bench/learning/contrast_rows.py record $out/asked.jsonl" "${template[@]}" \
			"${variants[@]}" --tasks "$dir/train.jsonl" --split "" --no-judge --out "$out/none.jsonl"
		side pairs "$dir/learnt.jsonl" "$out/asked.jsonl" "$out/pairs.jsonl"
		[ -d "$out/fit/final" ] || "$hone" sft --recipe recipes/study/contrast.yaml --seed "$seed" --threads 1 --model "$model" --data "$out/pairs.jsonl" \
			--device "${DEVICE:-cpu}" --max_seconds "$seconds" --max_steps "${STEPS:-0}" --output_dir "$out/fit"
		model=$out/fit/final
	fi
	if [ "$rl" != 0 ]; then
		[ -d "$out/rl/final" ] || "$hone" rl --recipe recipes/demo/rl-frontend.yaml "${template[@]}" --chat_template plain "${variants[@]}" \
			--max_completion_length 270 --seed "$seed" --threads 1 --verify_threads 1 --model "$model" --tasks "$dir/train.jsonl" --max_seconds "$rl" \
			--output_dir "$out/rl"
		model=$out/rl/final
	fi
}
evaluate() {
	local more=()
	[ "$arm" = plain ] || [ ! -e "$dir/plain-$seed/test.jsonl" ] || more=(--compare "$dir/plain-$seed/test.jsonl")
	[ -e "$out/test.jsonl" ] || "$hone" eval --model "$model" "${template[@]}" --chat_template plain "${variants[@]}" --tasks "$dir/test.jsonl" \
		--split "" --num_samples "${SAMPLES:-4}" --temperature 1 --max_completion_length 270 --num_correct_trials 1 --threads 1 --verify_threads 1 \
		--seed "$seed" --store "$dir/cache.db" --out "$out/test.jsonl" "${more[@]}" | tee "$out/table"
}

mkdir -p "$dir"
case $arm in
data) data ;;
plain | contrast)
	[ -n "$seconds" ] || usage
	mkdir -p "$out"
	model=recipes/demo/start template=(--prompt_template recipes/prompts/small-contrast.txt)
	[ "$arm" = contrast ] || template=(--prompt_template recipes/prompts/small-frontend.txt)
	train
	evaluate
	;;
table)
	side table "$dir"/*-[0-9]*/test.jsonl
	"$python" bench/learning/study_table.py "$dir" test
	;;
*) usage ;;
esac
