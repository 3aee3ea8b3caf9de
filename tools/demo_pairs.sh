#!/bin/bash
# Writes the demo's data anew: tasks, pairs, and the model that the demo starts from (some
# fifteen minutes on two cores).
#
#   pairs.jsonl.gz       300 training tasks with answers that the verifier
#                        has admitted, and dev rows
#   unverified.jsonl.gz  2,700 more with answers that nobody verified: of 6 of the 26 operators they
#                        know a form that is widespread and wrong (tools/unverified_pairs.py)
#   midend.jsonl.gz      600 training tasks of the mid-end, with kernels, profiles and verified
#                        answers, and dev and test rows
#   midend-few.jsonl.gz  100 of these, which the start has seen
#   start/               1.8 M parameters that have learnt them all: supervised training
#                        repeats what it was shown
#
# usage: tools/demo_pairs.sh [HONE]      all of it, into recipes/demo
#        tools/demo_pairs.sh operators   only prints the operators of the tasks
set -euo pipefail
cd "$(dirname "$0")/.."
# Chains of two or three operators without constants, one style of answer: what 1.8 M
# parameters learn in a few minutes.
operators=relu,sigmoid,tanh,gelu,silu,elu,softplus,logsigmoid,mish,relu6,hardtanh,hardsigmoid,hardswish,softsign
operators+=,exp,exp_neg_abs,gauss,abs,neg,square,cube,recip_abs,log1p_abs,sin,cos,erf
if [ "${1:-}" = operators ]; then
	echo $operators
	exit
fi
hone=${1:-build/release/hone} out=recipes/demo
synth=(--level_min 1 --level_max 1 --operators_min 2 --operators $operators)
front=(--prompt_template recipes/prompts/small-frontend.txt --chat_template plain)
mid=(--stage midend --prompt_template recipes/prompts/small-midend.txt --chat_template plain)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
$hone tasks synth --seed 1 --count_train 6000 --count_dev 200 --count_test 200 "${synth[@]}" --out $out/tasks.jsonl.gz
# Answers are given for 3,000 of them: the others only reinforcement learning sees.
$hone tasks synth --seed 1 --count_train 300 --count_dev 200 --count_test 0 "${synth[@]}" --out "$work/some.jsonl.gz"
$hone pairs synth "${front[@]}" --tasks "$work/some.jsonl.gz" --style 0 --num_correct_trials 4 --out $out/pairs.jsonl.gz
build/venv/bin/python tools/unverified_pairs.py $out/pairs.jsonl.gz $out/tasks.jsonl.gz 300 2700 "$work/unverified.jsonl"
gzip -n <"$work/unverified.jsonl" >$out/unverified.jsonl.gz
for set in "midend 600 60" "midend-few 100 20"; do
	read -r name train dev <<<"$set"
	$hone tasks synth --seed 2 --count_train "$train" --count_dev "$dev" --count_test 40 "${synth[@]}" --out "$work/some.jsonl.gz"
	$hone pairs synth "${mid[@]}" --tasks "$work/some.jsonl.gz" --style 0 --num_correct_trials 4 --out "$out/$name.jsonl.gz"
done
# Where the demo starts: all pairs together, from random weights; bfloat16 makes the file small.
$hone init --recipe $out/model.yaml --text $out/pairs.jsonl.gz $out/midend-few.jsonl.gz --out "$work/init"
cat $out/pairs.jsonl.gz $out/midend-few.jsonl.gz $out/unverified.jsonl.gz >"$work/all.jsonl.gz"   # gzip members simply follow one another
$hone sft --recipe $out/sft.yaml --model "$work/init" --data "$work/all.jsonl.gz" --output_dir "$work/sft"
rm -rf $out/start
$hone merge --model "$work/sft/final" --dtype bfloat16 --out $out/start
ls -l $out/*.gz $out/start
