#!/bin/bash
# The studies of docs/training.md: one arm with one seed is one process that trains for a stated
# wall time and is then evaluated. What is stopped goes on with the same command, so a study can be
# run piece by piece over machines; recipes/study/STUDY-ARM.yaml has an arm's settings.
#
# usage: bench/learning/study.sh DIR STUDY start
#            what the arms of a study share: tasks, pairs, the model they start from (DIR/STUDY)
#        bench/learning/study.sh DIR STUDY ARM SEED SECONDS
#            trains (seconds of earlier starts count) and evaluates: DIR/STUDY/ARM-SEED
#        bench/learning/study.sh DIR STUDY table
#            all arms against the start and each other
# Studies, and their arms:
# s2: does reinforcement learning beat fitting its samples?
#     today online expert sft top young refit exfit rl expert2 reject keep exkeep
#     top_pairs pairs
#     - top, young: answers sampled at rate 0 for a share of the time (SHARE), then fitted: on top
#       of the start, or with the pairs from the untrained model
#     - refit, exfit: online or expert for a share of the time, then its own genuine answers fitted
#       on top of where it ended
#     - rl, expert2, reject: refit, exfit and top with broader samples, and supervised updates that
#       begin later and are smaller
#     - keep, exkeep, top_pairs: refit, exfit and top with the start's verified pairs beside the
#       genuine answers wherever those are fitted; pairs: the verified pairs alone, all of the time
# s1: what is learnt to pass a stock check?       stock genuine
# s4: does a reward for the plan's speed help?    c uniform sum hrd01 hrd1
# Environment: HONE (build/release/hone), THREADS (2), SPLIT (test; dev to choose by), SHARE (0.5),
# CHEATS (0.34 of s1's pairs in the end), STEPS and TASKS of s4's start (1500 steps; 500 training
# tasks that it has pairs of), MORE (a file of further verified pairs that s4's start learns too),
# DEVICE (where starts are fitted, cpu), ARMS_DEVICE (where arms compute, cpu), MEMORY (of
# ARMS_DEVICE for each arm, 6GiB), TRAIN_ONLY (no evaluation), PYTHON (build/venv/bin/python)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
hone=${HONE:-build/release/hone} threads=${THREADS:-2} split=${SPLIT:-test} share=${SHARE:-0.5} cheats=${CHEATS:-0.34} python=${PYTHON:-build/venv/bin/python}
dir=$1/$2 study=$2 arm=$3 seed=${4:-} seconds=${5:-}
data=recipes/demo recipes=recipes/study
prompts=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
cores=(--threads "$threads" --verify_threads "$threads")
[ "${ARMS_DEVICE:-cpu}" = cpu ] || cores+=(--device "$ARMS_DEVICE" --memory "${MEMORY:-6GiB}")
tasks=$dir/tasks.jsonl.gz start=$dir/start pairs=$dir/pairs.jsonl
out=$dir/$arm-$seed

# ---- what the arms of a study share ----

# Chains of element-wise operators as the demo's; of dev and test one task a structure, so that 500
# tasks are 500 structures.
chains() {
	"$hone" tasks synth --seed 1 --count_train 6000 --count_dev 1200 --count_test 2400 --level_min 1 --level_max 1 --operators_min 2 \
		--operators "$(tools/demo_pairs.sh operators)" --out "$dir/all.jsonl.gz"
	zcat "$dir/all.jsonl.gz" | awk '/"split": ?"train"/ || match($0, /"structure": ?"[^"]*"/) && !seen[substr($0, RSTART, RLENGTH)]++' | gzip -n >"$tasks"
}
# supervise MODEL PAIRS STEPS OPTIONS...: the start by supervised training on pairs
# alone, learning rate to 0
supervise() {
	local model=$1 data=$2 steps=$3; shift 3
	"$hone" sft --recipe $recipes/start.yaml --threads "$threads" --device "${DEVICE:-cpu}" --model "$model" --data "$data" --max_steps "$steps" --output_dir "$dir/start-run" "$@"
	mv "$dir/start-run/final" "$start"
}
untrained() { "$hone" init --recipe $data/model.yaml --text "$@" --out "$dir/untrained"; }

start_s2() { # the demo's own start, and its pairs: those that it was trained on, and the verified ones among them
	chains
	zcat $data/pairs.jsonl.gz $data/unverified.jsonl.gz >"$pairs"
	zcat $data/pairs.jsonl.gz >"$dir/verified.jsonl"
	untrained $data/pairs.jsonl.gz $data/midend-few.jsonl.gz
	cp -r $data/start "$start"
}
start_s1() { # the demo's start, with cheats among its pairs: few for long, then a third of them, so that torch's operators are copied without mistakes
	zcat $data/pairs.jsonl.gz $data/unverified.jsonl.gz >"$dir/honest.jsonl"
	cp $data/tasks.jsonl.gz "$tasks"
	for share in 0.12 "$cheats"; do
		"$python" bench/learning/study_cheats.py --pairs "$dir/honest.jsonl" --share "$share" --out "$dir/mixed.jsonl"
		zcat $data/midend-few.jsonl.gz | cat - "$dir/mixed.jsonl" >"$pairs"
		if [ ! -d "$dir/first" ]; then
			supervise $data/start "$pairs" 2400 --learning_rate 1.5e-3
			mv "$start" "$dir/first" && rm -rf "$dir/start-run"
		else
			supervise "$dir/first" "$pairs" 600 --learning_rate 1e-3
		fi
	done
}
# Row tasks whose sizes decide between answers; every choice of each task is learnt, so that the
# reward alone tells them apart. Columns up to 4,096: a longer row in one block takes ptxas seconds,
# and sometimes all of its time.
start_s4() {
	"$hone" tasks synth --seed 1 --rungs T2 --count_train 6000 --count_dev 600 --count_test 3600 --out "$dir/all.jsonl.gz"
	zcat "$dir/all.jsonl.gz" | grep -E '"structure": ?"(row_softmax|row_norm|row_reduce|arg_rows|pair_rows|kl_rows):' |
		awk 'match($0, /= [0-9]+(\\n)+class/) && substr($0, RSTART + 2) + 0 <= 4096' | gzip -n >"$dir/rows.jsonl.gz"
	# Pairs for the first training tasks, and for all of dev and test, so that regret is known for
	# each: of a structure two there, since a few plain ones would be half of them.
	zcat "$dir/rows.jsonl.gz" | awk '
		/"split": ?"train"/ { print; next }
		match($0, /"structure": ?"[^"]*"/) && seen[substr($0, RSTART, RLENGTH)]++ < 2 { if (/"split": ?"dev"/ ? ++d <= 40 : ++t <= 200) print }
	' | gzip -n >"$tasks"
	zcat "$tasks" | awk -v tasks="${TASKS:-500}" '/"split": ?"train"/ && ++n <= tasks || /"split": ?"(dev|test)"/' | gzip -n >"$dir/some.jsonl.gz"
	[ -e "$dir/pairs.jsonl.gz" ] || "$hone" pairs synth --tasks "$dir/some.jsonl.gz" "${prompts[@]}" --choices 4 --cost_size stock \
		--num_correct_trials 4 --verify_threads "$threads" --out "$dir/pairs.jsonl.gz"
	zcat "$dir/pairs.jsonl.gz" ${MORE:+"$MORE"} >"$pairs"
	untrained "$pairs"
	# Some twenty passes: the answers are long, and the sampler has no use for one with a mistake.
	supervise "$dir/untrained" "$pairs" "${STEPS:-1500}" --max_tokens 8192
}

# ---- arms ----

reinforce() { # RECIPE SECONDS FOLDER OPTIONS...
	local recipe=$1 time=$2 folder=$3; shift 3
	[ -d "$folder/final" ] || "$hone" rl --recipe $recipes/common.yaml --recipe "$recipes/$recipe.yaml" --seed "$seed" "${cores[@]}" --model "$start" \
		--tasks "$tasks" --max_seconds "$time" --output_dir "$folder" "$@"
}
fit() { # MODEL SECONDS FOLDER COMMAND OPTIONS...: the rate of a fit that begins at the untrained model is the start's
	local model=$1 time=$2 folder=$3 command=$4; shift 4
	[ "$model" != "$dir/untrained" ] || set -- "$@" --learning_rate 2e-3
	[ -d "$folder/final" ] || "$hone" "$command" --recipe $recipes/s2-fit.yaml --seed "$seed" --threads "$threads" --model "$model" --max_seconds "$time" \
		--output_dir "$folder" "$@"
}
fit_samples() { # RECIPE MODEL [PAIRS [OPTIONS...]]: half of the time, or SHARE of it, samples (with OPTIONS); the rest fits what was genuine
	local recipe=$1 model=$2 pairs=${3:-} first second
	shift $(($# < 3 ? $# : 3))
	first=$(awk "BEGIN {print $seconds * $share}") second=$(awk "BEGIN {print $seconds * (1 - $share)}")
	reinforce "$recipe" "$first" "$out/samples" "$@"
	fit "$model" "$second" "$out/run" distill --from "$out/samples" --tasks "$tasks" "${prompts[@]}" ${pairs:+--pairs "$pairs"}
}
train() {
	mkdir -p "$out"
	case $study-$arm in
	s2-sft) fit "$start" "$seconds" "$out/run" sft --data "$pairs" ;;
	s2-top) fit_samples s2-sample "$start" ;;
	s2-young) fit_samples s2-sample "$dir/untrained" "$dir/verified.jsonl" ;;
	s2-keep) fit_samples "${RECIPE:-s2-online}" "$out/samples/final" "$dir/verified.jsonl" --replay_pairs "$dir/verified.jsonl" ;;
	s2-exkeep) fit_samples s2-expert "$out/samples/final" "$dir/verified.jsonl" --replay_pairs "$dir/verified.jsonl" ;;
	s2-top_pairs) fit_samples s2-sample "$start" "$dir/verified.jsonl" ;;
	s2-pairs) fit "$start" "$seconds" "$out/run" sft --data "$dir/verified.jsonl" ;;
	s2-refit) fit_samples "${RECIPE:-s2-online}" "$out/samples/final" ;;
	s2-exfit) fit_samples s2-expert "$out/samples/final" ;;
	s2-rl) fit_samples s2-rl "$out/samples/final" ;;
	s2-expert2) fit_samples s2-rl-expert "$out/samples/final" ;;
	s2-reject) fit_samples s2-reject "$start" ;;
	s4-*) reinforce "$study-$arm" "$seconds" "$out/run" --cost_size stock --max_completion_length 900 ;;
	*) reinforce "$study-$arm" "$seconds" "$out/run" ;;
	esac
}
evaluate() { # MODEL FILE OPTIONS...: greedy
	local model=$1 file=$2; shift 2
	local more=()
	[ "$study" = s4 ] && more=(--cost_size stock)
	[ -e "$file" ] || "$hone" eval --model "$model" "${prompts[@]}" --max_completion_length $([ "$study" = s4 ] && echo 900 || echo 300) \
		--num_correct_trials 4 "${cores[@]}" --tasks "$tasks" --split "$split" --limit "${LIMIT:-0}" "${more[@]}" --out "$file" "$@"
}

case $arm in
start)
	mkdir -p "$dir"
	[ -d "$start" ] || "start_$study"
	evaluate "$start" "$dir/start-$split.jsonl"
	;;
table) "$python" bench/learning/study_table.py "$dir" "$split" ;;
*)
	[ -n "$seconds" ] && [[ -e $recipes/$study-$arm.yaml || $study-$arm =~ ^s2-(sft|top|young|refit|exfit|rl|expert2|reject|keep|exkeep|top_pairs|pairs)$ ]] || usage
	train
	[ -z "${TRAIN_ONLY:-}" ] || exit 0
	compare=()
	[ ! -e "$dir/start-$split.jsonl" ] || compare=(--compare "$dir/start-$split.jsonl")
	evaluate "$out/run/final" "$out/$split.jsonl" "${compare[@]}"
	;;
esac
