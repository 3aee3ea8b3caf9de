#!/bin/bash
# Writes the demo's data anew: tasks, and the pairs that the verifier admits. usage: tools/demo_pairs.sh [HONE]
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${1:-build/release/hone}
out=recipes/demo
front=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
mid=(--stage midend --prompt_template recipes/prompts/small-midend.txt --chat_template plain)
$hone tasks synth --seed 1 --count_train 4000 --count_heldout 220 --level_min 1 --level_max 1 --out $out/tasks.jsonl.gz
$hone pairs synth "${front[@]}" --tasks $out/tasks.jsonl.gz --styles 1 --num_correct_trials 4 --out $out/pairs.jsonl.gz
midend_tasks=$(mktemp --suffix=.jsonl.gz)
trap 'rm -f "$midend_tasks"' EXIT
$hone tasks synth --seed 2 --count_train 360 --count_heldout 60 --level_min 1 --level_max 1 --out "$midend_tasks"
$hone pairs synth "${mid[@]}" --tasks "$midend_tasks" --styles 1 --num_correct_trials 4 --out $out/midend.jsonl.gz
ls -l $out/*.gz
