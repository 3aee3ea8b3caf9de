#!/bin/bash
# Writes the demo's data anew: tasks, and the pairs that the verifier admits. usage: tools/demo_pairs.sh [HONE]
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${1:-build/release/hone}
out=recipes/demo
$hone tasks synth --seed 1 --count_train 900 --count_heldout 100 --level_min 1 --level_max 1 --out $out/tasks.jsonl.gz
$hone pairs synth --tasks $out/tasks.jsonl.gz --prompt_template recipes/prompts/small-frontend.txt --chat_template plain --styles 2 --out $out/pairs.jsonl.gz
$hone tasks synth --seed 2 --count_train 240 --count_heldout 40 --level_min 1 --level_max 1 --out $out/midend-tasks.jsonl.gz
$hone pairs synth --stage midend --tasks $out/midend-tasks.jsonl.gz --prompt_template recipes/prompts/small-midend.txt --chat_template plain --styles 1 --out $out/midend.jsonl.gz
ls -l $out/*.gz
