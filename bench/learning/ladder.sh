#!/bin/bash
# What a small model that has learnt pairs of T1 and T2 can do beyond them (docs/results.md):
# structures, operators and a family that it has not seen, and tasks that people wrote.
# recipes/study/ladder.yaml has the protocol, recipes/study/ladder-handwritten.txt the tasks.
#
# usage: bench/learning/ladder.sh DIR SEED SECONDS
#            fits a model of that seed for SECONDS and writes its answers: DIR/SEED. Seeds may run
#            side by side
#        bench/learning/ladder.sh DIR judge
#            judges the answers that are there: of hand-written tasks first, then seed by seed
#        bench/learning/ladder.sh DIR table
#            all seeds, with intervals over structures
# What is there from an earlier start is not made again: a fit goes on at its last checkpoint, and
# answers are judged once. Tasks and pairs are the same for all seeds.
# Environment: PAIRS (ladder-pairs.jsonl.gz), DEVICE (cpu; cuda: fits and answers there), THREADS
# (1, of a seed on the CPU), VERIFY_THREADS (cores), LIMIT (test structures, 100; of
# each of what is held out two fifths as many), HONE
# (build/release/hone), HONE_CUDA_LIBS (folder with CUDA's libraries), PYTHON
# (build/venv/bin/python), MODEL (recipes/study/ladder-model.yaml)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# = 3 ] || { [ $# = 2 ] && [[ $2 = judge || $2 = table ]]; } || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} pairs=${PAIRS:-ladder-pairs.jsonl.gz} model=${MODEL:-recipes/study/ladder-model.yaml}
dir=$1 seed=$2 seconds=${3:-} out=$1/$2 limit=${LIMIT:-100}
prompts=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
device=(--device "${DEVICE:-cpu}" --threads "${THREADS:-1}")
[ -z "${HONE_CUDA_LIBS:-}" ] || device+=(--cuda_libs "$HONE_CUDA_LIBS")

data() { # tasks of test structures, and the hand-written ones; the pairs to learn
	"$hone" tasks synth --seed 900 --rungs T1,T2 --count_train 0 --count_dev 0 --count_test 8000 --out "$dir/all.jsonl"
	"$python" bench/learning/ladder_data.py "$pairs" "$dir/all.jsonl" recipes/study/ladder-handwritten.txt "$limit" "$dir"
	rm "$dir/all.jsonl"
}
answer() { # SET FILE OPTIONS...: answers without verdicts
	local set=$1 file=$2; shift 2
	[ -e "$file" ] || "$hone" eval --no-judge --model "$out/run/final" "${prompts[@]}" "${device[@]}" --tasks "$dir/$set.jsonl" --split "" \
		--max_completion_length 900 --seed "$seed" --out "$file" "$@"
}
judge() { # SET FILE...: those without verdicts, equal answers once
	local set=$1 file files=(); shift
	for file; do [ -e "$dir/judged/$(basename "$file")" ] || files+=("$file"); done
	[ ${#files[@]} = 0 ] || "$python" bench/learning/study_judge.py "$dir/$set.jsonl" "$dir/judged" "${files[@]}" -- "$hone" eval --num_correct_trials 4 \
		--verify_threads "${VERIFY_THREADS:-$(nproc)}" --store "$dir/verdicts.db"
}

case $seed in
judge)
	shopt -s nullglob
	judge hand "$dir"/[0-9]*/hand-*.jsonl
	for folder in "$dir"/[0-9]*/; do judge tasks "$folder"tasks-*.jsonl; done
	;;
table) "$python" bench/learning/ladder_table.py "$dir" ;;
*)
	[[ $seed =~ ^[0-9]+$ ]] || usage
	mkdir -p "$out"
	# The first seed makes what all share, the others wait for it.
	(flock 9; [ -e "$dir/pairs.jsonl" ] || data) 9>"$dir/lock"
	[ -d "$out/untrained" ] || "$hone" init --recipe "$model" --seed "$seed" --text "$dir/text.jsonl" --out "$out/untrained"
	[ -d "$out/run/final" ] || "$hone" sft --recipe recipes/study/ladder.yaml --seed "$seed" "${device[@]}" --model "$out/untrained" \
		--data "$dir/pairs.jsonl" --max_seconds "$seconds" --output_dir "$out/run"
	answer hand "$out/hand-greedy-$seed.jsonl"
	answer hand "$out/hand-samples-$seed.jsonl" --num_samples 8 --temperature 0.8
	answer tasks "$out/tasks-greedy-$seed.jsonl"
	answer tasks "$out/tasks-samples-$seed.jsonl" --num_samples 8 --temperature 0.8
	;;
esac
