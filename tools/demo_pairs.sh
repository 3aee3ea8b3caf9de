#!/bin/bash
# Writes the demo's data anew: tasks, and the pairs that the verifier admits. usage: tools/demo_pairs.sh [HONE]
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${1:-build/release/hone}
out=recipes/demo
# Chains of two or three operators without constants, one style of answer: what 1.8 M parameters learn in a few minutes.
operators=relu,sigmoid,tanh,gelu,silu,elu,softplus,logsigmoid,mish,relu6,hardtanh,hardsigmoid,hardswish,softsign
operators+=,exp,exp_neg_abs,gauss,abs,neg,square,cube,recip_abs,log1p_abs,sin,cos,erf
synth=(--level_min 1 --level_max 1 --operators_min 2 --operators $operators)
front=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
mid=(--stage midend --prompt_template recipes/prompts/small-midend.txt --chat_template plain)
$hone tasks synth --seed 1 --count_train 3000 --count_dev 70 --count_test 150 "${synth[@]}" --out $out/tasks.jsonl.gz
# Answers are given for few of them: the others only reinforcement learning sees.
some=$(mktemp --suffix=.jsonl.gz)
trap 'rm -f "$some"' EXIT
$hone tasks synth --seed 1 --count_train 600 --count_dev 70 --count_test 150 "${synth[@]}" --out "$some"
$hone pairs synth "${front[@]}" --tasks "$some" --style 0 --num_correct_trials 4 --out $out/pairs.jsonl.gz
$hone tasks synth --seed 2 --count_train 100 --count_dev 20 --count_test 40 "${synth[@]}" --out "$some"
$hone pairs synth "${mid[@]}" --tasks "$some" --style 0 --num_correct_trials 4 --out $out/midend.jsonl.gz
ls -l $out/*.gz
