#!/bin/bash
# Study s6: from which levels should reinforcement learning draw its prompts, when few or many pairs
# of the harder level are known? recipes/study/s6.yaml has the protocol.
#
# usage: bench/learning/levels.sh DIR PAIRS start
#            tasks, pairs and the model that the arms share; PAIRS of level 2: 50, 500
#        bench/learning/levels.sh DIR PAIRS ARM SEED SECONDS
#            trains for SECONDS and writes greedy answers: DIR/PAIRS/said
#        bench/learning/levels.sh DIR PAIRS judge
#            verdicts on the answers of all arms that are there, equal ones once
#        bench/learning/levels.sh DIR PAIRS table
#            all arms against the start and each other, on either level
# Arms: level1, level2 (the prompts of this level alone), both (half of the draws each).
# What is there from an earlier start is not made again, and training that was stopped goes on.
# Environment: HONE (build/release/hone), PYTHON (build/venv/bin/python), THREADS (of start and
# judge, 1), DEVICE (where the start's fit runs, cpu), FIT (its steps, 900), LIMIT (test tasks of a
# level, 160)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] && [[ $2 =~ ^(50|500)$ ]] || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} threads=${THREADS:-1} limit=${LIMIT:-160}
data=$1/tasks dir=$1/$2 pairs=$2 arm=$3 seed=${4:-} seconds=${5:-}
out=$dir/$arm-$seed start=$dir/start/final said=$dir/said
prompts=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)

# Level 1 is the demo's; level 2 has its operators and those that take rows and several inputs.
# Tasks that have pairs are no prompts; of test one task a structure.
data() {
	[ -e "$data/all.jsonl" ] || "$hone" tasks synth --seed 6 --count_train 1000 --count_dev 0 --count_test 200 --level_min 2 --level_max 2 \
		--operators_min 2 --operators "$(tools/demo_pairs.sh operators),add,mul,sum,mean,amax,softmax" --out "$data/all.jsonl"
	grep '"split": *"train"' "$data/all.jsonl" >"$data/train.jsonl"
	head -550 "$data/train.jsonl" >"$data/some.jsonl"
	zcat recipes/demo/pairs.jsonl.gz | cat - "$data/some.jsonl" | grep '"split": *"train"' | grep -o '"source": *"\([^"\\]\|\\.\)*"' >"$data/fitted"
	cat "$data/train.jsonl" <(zcat recipes/demo/tasks.jsonl.gz | grep '"split": *"train"') | grep -vFf "$data/fitted" >"$data/rl.jsonl"
	cat "$data/all.jsonl" <(zcat recipes/demo/tasks.jsonl.gz) | grep '"split": *"test"' |
		awk 'match($0, /"structure": *"[^"]*"/) && !seen[substr($0, RSTART, RLENGTH)]++' >"$data/test.jsonl"
	"$hone" pairs synth --tasks "$data/some.jsonl" "${prompts[@]}" --style 0 --num_correct_trials 4 --verify_threads "$threads" --out "$data/new.jsonl"
	mv "$data/new.jsonl" "$data/pairs.jsonl"
}
start() {
	[ -e "$data/pairs.jsonl" ] || data
	head -"$pairs" "$data/pairs.jsonl" | cat - <(zcat recipes/demo/pairs.jsonl.gz | grep '"split": *"train"') >"$dir/pairs.jsonl"
	[ -d "$start" ] || "$hone" sft --recipe recipes/study/s2-fit.yaml --learning_rate 1e-3 --seed 1 --threads "$threads" --device "${DEVICE:-cpu}" \
		--model recipes/demo/start --data "$dir/pairs.jsonl" --max_steps "${FIT:-900}" --output_dir "$dir/start"
}
train() {
	local levels
	case $arm in
	level1) levels=1:1 ;;
	level2) levels=2:1 ;;
	both) levels=1:0.5,2:0.5 ;;
	esac
	[ -d "$out/final" ] || "$hone" rl --recipe recipes/study/s6.yaml --level_weights "$levels" --seed "$seed" --threads 1 --verify_threads 1 --model "$start" \
		--tasks "$data/rl.jsonl" --max_seconds "$seconds" --output_dir "$out"
}
answer() { # MODEL NAME
	local level
	for level in 1 2; do
		[ -e "$said/$2.level$level.jsonl" ] || "$hone" eval --model "$1" "${prompts[@]}" --tasks "$data/test.jsonl" --level $level --limit "$limit" \
			--max_completion_length 640 --threads 1 --no-judge --out "$said/$2.level$level.jsonl"
	done
}
judge() { # start-LEVEL.jsonl and ARM-SEED/LEVEL.jsonl, as study_table.py reads them
	"$python" bench/learning/study_judge.py "$data/test.jsonl" "$dir/judged" "$said"/*.jsonl -- "$hone" eval --num_correct_trials 4 \
		--verify_threads "$threads" --store "$data/verdicts.db"
	local file name
	for file in "$dir"/judged/*.level?.jsonl; do
		name=$(basename "$file" .jsonl)
		if [ "${name%.*}" = start ]; then
			cp "$file" "$dir/start-${name#*.}.jsonl"
		else
			mkdir -p "$dir/${name%.*}"
			cp "$file" "$dir/${name%.*}/${name#*.}.jsonl"
		fi
	done
}

case $arm in
start)
	mkdir -p "$said" "$data"
	start
	answer "$start" start
	;;
judge) judge ;;
table)
	for level in 1 2; do
		printf 'level %d\n' $level
		"$python" bench/learning/study_table.py "$dir" level$level
	done
	;;
level1 | level2 | both)
	[ -n "$seconds" ] || usage
	train
	answer "$out/final" "$arm-$seed"
	;;
*) usage ;;
esac
