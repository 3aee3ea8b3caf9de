#!/bin/bash
# Studies of what an answer looks like (docs/results.md): all arms of one study begin at the same
# model, see the same tasks and train for the same time on one thread, or, with STEPS and SECONDS 0,
# for the same number of steps, each of which is a pack of 2,048 tokens.
#
# usage: bench/learning/forms.sh DIR STUDY start
#            pairs and models that the arms share (DIR/STUDY)
#        bench/learning/forms.sh DIR STUDY ARM SEED SECONDS
#            trains and evaluates: DIR/STUDY/ARM-SEED
#        bench/learning/forms.sh DIR STUDY table
# Studies, their arms, and what an arm is:
# s3: what does a plan help? Arms plan, none, behind, shuffled: the demo's start, fitted on its
#     verified pairs with their plans in these forms.
# ir: is IR as learnable as Python? Arms python, ir: from random weights, on the same tasks' answers
#     in each form.
# turns: is a second turn worth more than a second sample? Arm turns: no training, so that SECONDS
#     is without meaning.
# Environment: HONE (build/release/hone), LIMIT (tasks of an evaluation, 0: all), SAMPLES (4),
# PYTHON (build/venv/bin/python), WORKERS (threads of start), STEPS (of a fit; 0: SECONDS alone),
# DEVICE (where fits run, cpu)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} limit=${LIMIT:-0} samples=${SAMPLES:-4} workers=${WORKERS:-2}
dir=$1/$2 study=$2 arm=$3 seed=${4:-1} seconds=${5:-}
data=recipes/demo front=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
out=$dir/$arm-$seed

synth() { # OUT OPTIONS...: unless it is there from an earlier start
	local file=$1; shift
	[ -e "$file" ] || "$hone" pairs synth --style 0 --num_correct_trials 4 --verify_threads "$workers" --out "$file" "$@"
}
start_s3() {
	for form in plan none behind shuffled; do "$python" bench/learning/plan_forms.py $form $data/pairs.jsonl.gz "$dir/$form.jsonl"; done
}
start_ir() { # one tokenizer, made of both forms
	zcat $data/pairs.jsonl.gz | awk '/"split": ?"train"/ || ++n <= 40' >"$dir/python.jsonl"
	synth "$dir/ir.jsonl" --form ir "${front[@]}" --tasks "$dir/python.jsonl"
	"$hone" init --recipe $data/model.yaml --text "$dir/python.jsonl" "$dir/ir.jsonl" --out "$dir/untrained"
}
start_turns() { :; }

fit() { # MODEL RECIPE DATA SECONDS FOLDER
	[ -d "$5/final" ] || "$hone" sft --recipe recipes/study/$2.yaml --seed "$seed" --threads 1 --model "$1" --data "$3" --max_seconds "$4" \
		--max_steps "${STEPS:-0}" --device "${DEVICE:-cpu}" --output_dir "$5"
}
evaluate() { # MODEL OPTIONS...
	local model=$1; shift
	[ -e "$out/test.jsonl" ] || "$hone" eval --model "$model" "${front[@]}" --num_correct_trials 4 --threads 1 --verify_threads 1 --limit "$limit" \
		--seed "$seed" --out "$out/test.jsonl" "$@" | tee "$out/table"
}

case $study-$arm in
*-start)
	mkdir -p "$dir"
	"start_$study"
	;;
*-table) "$python" bench/learning/study_table.py "$dir" test ;;
s3-plan | s3-none | s3-behind | s3-shuffled)
	mkdir -p "$out"
	fit $data/start s2-fit "$dir/$arm.jsonl" "$seconds" "$out/run"
	evaluate "$out/run/final" --tasks $data/tasks.jsonl.gz --split test --max_completion_length 300
	;;
ir-python | ir-ir)
	mkdir -p "$out"
	fit "$dir/untrained" start "$dir/$arm.jsonl" "$seconds" "$out/run"
	evaluate "$out/run/final" --tasks $data/tasks.jsonl.gz --split test --max_completion_length 1000
	;;
turns-turns)
	mkdir -p "$out"
	evaluate $data/start --tasks $data/tasks.jsonl.gz --split test --max_completion_length 300 --num_turns 2 --num_samples "$samples" --temperature 1 \
		--turn_template recipes/prompts/small-turn.txt --max_feedback_length 150
	;;
*) usage ;;
esac
