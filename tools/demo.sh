#!/bin/bash
# The whole of hone on a machine without a GPU, in at most twelve minutes on two cores: supervised start on verified pairs, reinforcement learning of the
# frontend with the real verifier, a short one of the mid-end, held-out results before and after each, a report.
#
# usage: tools/demo.sh [--dir DIR] [--sft S] [--rl S] [--midend S] [--tasks N]   (seconds of training; tasks per evaluation)
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${HONE:-build/release/hone} dir=build/demo sft=270 rl=150 midend=60 tasks=60
while [ $# -gt 0 ]; do
	case $1 in
	--dir) dir=$2 ;; --sft) sft=$2 ;; --rl) rl=$2 ;; --midend) midend=$2 ;; --tasks) tasks=$2 ;;
	*) sed -n '5s/^# //p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
data=recipes/demo start=$SECONDS
front=(--stage frontend --tasks $data/tasks.jsonl.gz --prompt_template recipes/prompts/small-frontend.txt)
mid=(--stage midend --tasks $data/midend.jsonl.gz --prompt_template recipes/prompts/small-midend.txt)
say() { printf '\n== %s (%d s since the start)\n' "$1" $((SECONDS - start)); }
# evaluate NAME STAGE-ARGS... : greedy, and 4 samples at temperature 1 on a quarter of the tasks
evaluate() {
	local name=$1; shift
	local eval=("$hone" eval --model "$dir/sft/final" --chat_template plain --split test --max_completion_length 400 --num_correct_trials 4 --json)
	"${eval[@]}" --limit "$tasks" --out "$dir/$name-greedy.jsonl" "$@" >"$dir/$name-greedy.json"
	"${eval[@]}" --limit $((tasks / 4)) --num_samples 4 --temperature 1 --out "$dir/$name-sampled.jsonl" "$@" >"$dir/$name-sampled.json"
}
# reinforce STAGE TASKS SECONDS
reinforce() {
	$hone rl --recipe "$data/rl-$1.yaml" --model "$dir/sft/final" --tasks "$data/$2.jsonl.gz" --output_dir "$dir/rl-$1" --store "$dir/hone.db" \
		--max_steps 0 --max_seconds "$3"
}

rm -rf "$dir"
mkdir -p "$dir"
say "pairs: a random 5 % is verified again"
$hone pairs check --pairs $data/pairs.jsonl.gz --fraction 0.05 --num_correct_trials 4
say "supervised start, $sft s"
$hone init --recipe $data/model.yaml --text $data/pairs.jsonl.gz $data/midend.jsonl.gz --out "$dir/init"
cat $data/pairs.jsonl.gz $data/midend.jsonl.gz >"$dir/sft.jsonl.gz"   # gzip members simply follow one another
$hone sft --recipe $data/sft.yaml --model "$dir/init" --data "$dir/sft.jsonl.gz" --output_dir "$dir/sft" --max_seconds "$sft"
say "frontend, before"
evaluate frontend-sft "${front[@]}"
say "frontend, reinforcement learning, $rl s"
reinforce frontend tasks "$rl"
say "frontend, after"
evaluate frontend-rl "${front[@]}" --adapter "$dir/rl-frontend/final"
say "mid-end, before"
evaluate midend-sft "${mid[@]}"
say "mid-end, reinforcement learning, $midend s"
reinforce midend midend "$midend"
say "mid-end, after"
evaluate midend-rl "${mid[@]}" --adapter "$dir/rl-midend/final"

say "results on held-out tasks (operator combinations never seen in training)"
tools/demo_table.sh "$dir" frontend-sft frontend-rl midend-sft midend-rl
$hone report --store "$dir/hone.db" --tables "$dir/tables.json" --title "hone demo" --out "$dir/report.html"
printf 'demo: %d s\n' $((SECONDS - start))
