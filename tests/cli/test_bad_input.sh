#!/bin/bash
# Wrong input to rl, eval, pairs and report: the message names the thing and the exit status says
# whose fault it is (2 wrong usage, 1 the world's); nothing crashes, nothing is written.
set -uo pipefail
hone=$BUILD/hone
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
# status, pattern in stderr, command...
expect() {
	local want=$1 text=$2 got; shift 2
	n=$((n + 1))
	timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null; got=$?
	if [ $got -eq "$want" ] && grep -qE -- "$text" "$dir/err" && [ ! -s "$dir/out" ]; then echo "ok $n - ${*:2:2} ...: $text"
	else echo "not ok $n - ${*:2}: exit $got, expected $want and /$text/"; sed 's/^/# /' "$dir/err" "$dir/out" | head -n 20; fi
}

. tests/rl/tiny_policy.sh
policy=$(tiny_policy) || { echo "1..1"; echo "not ok 1 - the policy is made"; exit 1; }
model=$policy/sft/final run=$dir/run
prompts=(--prompt_template "$policy/template.txt" --chat_template plain --max_completion_length 8)
rl=("$hone" rl --model "$model" --tasks "$policy/tasks.jsonl" "${prompts[@]}" --num_generations 2 --generation_batch_size 4 --output_dir "$run")
eval=("$hone" eval --model "$model" --tasks "$policy/tasks.jsonl" "${prompts[@]}" --split train)
mkdir "$dir/empty" "$dir/adapter"
{ head -n 1 "$policy/tasks.jsonl"; echo '{"name": "second", "source": 7}'; } >"$dir/type.jsonl"
{ head -n 1 "$policy/tasks.jsonl"; echo '{"name": "second", '; } >"$dir/syntax.jsonl"
{ head -n 1 "$policy/tasks.jsonl"; head -n 1 "$policy/tasks.jsonl"; } >"$dir/twice.jsonl"
head -c 100 "$policy/tasks.jsonl" | gzip -c | head -c 60 >"$dir/cut.jsonl.gz"
printf 'no hole here\n' >"$dir/no_hole.txt"
printf '{{task}} {{tusk}}\n' >"$dir/unknown_hole.txt"
printf '\377{{task}}\n' >"$dir/bytes.txt"
printf 'this is no database, only text that is long enough to be read as a header of one\n' >"$dir/text.db"
printf '{"title": "t"}\n' >"$dir/tables.json"
"$hone" init --text "$policy/pairs.jsonl" --vocab_size 448 --hidden_size 32 --num_hidden_layers 1 --num_attention_heads 2 --num_key_value_heads 1 \
	--head_dim 16 --intermediate_size 48 --max_position_embeddings 128 --out "$dir/small" >/dev/null 2>&1
# Fails: every pair is longer than its 128 positions.
"$hone" sft --model "$dir/small" --data "$policy/pairs.jsonl" --max_tokens 1024 --max_steps 1 --output_dir "$dir/sft" >/dev/null 2>&1
printf '{"prompt": "a", "completion": "b"}\n' >"$dir/ab.jsonl"
"$hone" sft --model "$dir/small" --data "$dir/ab.jsonl" --max_steps 1 --output_dir "$dir/sft" >/dev/null 2>&1

echo 1..53
# what is missing
expect 2 'model is missing' "$hone" rl
expect 2 'tasks is missing' "$hone" rl --model "$model"
expect 2 'output_dir is missing' "$hone" rl --model "$model" --tasks "$policy/tasks.jsonl"
expect 1 "$dir/none.*" "${rl[@]}" --model "$dir/none"
expect 1 "$dir/empty" "${rl[@]}" --model "$dir/empty"
expect 1 "$dir/none.*no such file" "${rl[@]}" --tasks "$dir/none"
expect 1 "$dir/none.txt" "${rl[@]}" --prompt_template "$dir/none.txt"
expect 1 "$dir/none" "${rl[@]}" --adapter "$dir/none"
expect 1 'adapter' "${rl[@]}" --adapter "$dir/adapter"
# values
expect 2 'reward' "${rl[@]}" --reward speed
expect 2 'advantage' "${rl[@]}" --advantage luck
expect 2 'num_generations: .*"1"' "${rl[@]}" --num_generations 1
expect 2 'generation_batch_size 5.*multiple of num_generations \(2\)' "${rl[@]}" --generation_batch_size 5
expect 2 'temperature: .*"0"' "${rl[@]}" --temperature 0
expect 2 'temperature' "${rl[@]}" --temperature nan
expect 2 'max_completion_length: .*"-1"' "${rl[@]}" --max_completion_length -1
expect 2 'num_iterations: .*"0"' "${rl[@]}" --num_iterations 0
expect 2 'lora_r: .*"0"' "${rl[@]}" --lora_r 0
expect 2 'max_steps' "${rl[@]}" --max_steps 0
expect 2 'exclude each other' "${rl[@]}" --no-use_peft --adapter "$dir/sft/final"
expect 2 'learning_rate' "${rl[@]}" --learnin_rate 1
expect 2 'unexpected argument "word"' "${rl[@]}" word
expect 1 '3 prompts, a step needs 4' "${rl[@]}" --generation_batch_size 8
expect 1 'max_tokens' "${rl[@]}" --max_tokens 20
expect 1 'positions|max_context' "${rl[@]}" --max_completion_length 4000
# tasks, templates, adapters
expect 1 'type.jsonl:2.*source' "${rl[@]}" --tasks "$dir/type.jsonl"
expect 1 'syntax.jsonl:2' "${rl[@]}" --tasks "$dir/syntax.jsonl"
expect 1 'relu' "${rl[@]}" --tasks "$dir/twice.jsonl"
expect 1 'cut.jsonl.gz' "${rl[@]}" --tasks "$dir/cut.jsonl.gz"
expect 1 'no prompt left.*"test"' "${rl[@]}" --split test
expect 1 'no prompt left.*3 longer' "${rl[@]}" --max_prompt_length 3
expect 1 'no_hole.txt.*\{\{task\}\}' "${rl[@]}" --prompt_template "$dir/no_hole.txt"
expect 1 'unknown_hole.txt.*tusk' "${rl[@]}" --prompt_template "$dir/unknown_hole.txt"
expect 1 'UTF-8' "${rl[@]}" --prompt_template "$dir/bytes.txt"
expect 1 'adapter|lora' "${rl[@]}" --adapter "$dir/sft/final"
expect 1 'text.db' "${rl[@]}" --store "$dir/text.db"
n=$((n + 1))
if [ -z "$(find "$run" -name 'checkpoint-*' -o -name final 2>/dev/null)" ]; then echo "ok $n - none of these left a checkpoint"
else echo "not ok $n - a refused run wrote a checkpoint"; fi
expect 1 "expected a folder|cannot create" "${rl[@]}" --output_dir "$dir/text.db"
# eval
expect 2 'num_samples: .*"0"' "${eval[@]}" --num_samples 0
expect 2 'temperature' "${eval[@]}" --num_samples 2
expect 2 'top_p' "${eval[@]}" --top_p 0
expect 1 "$dir/no/rows.jsonl.*folder" "${eval[@]}" --out "$dir/no/rows.jsonl"
expect 1 "$dir/empty.*found a folder" "${eval[@]}" --out "$dir/empty"
expect 1 "$dir/none" "${eval[@]}" --compare "$dir/none"
expect 1 'adapter|lora' "${eval[@]}" --adapter "$dir/sft/final"
# pairs, report
expect 2 'synth' "$hone" pairs
expect 1 "$dir/none.txt" "$hone" pairs synth --tasks "$policy/tasks.jsonl" --out "$dir/p.jsonl" --prompt_template "$dir/none.txt"
expect 1 "$dir/no/p.jsonl.*folder" "$hone" pairs synth --tasks "$policy/tasks.jsonl" --out "$dir/no/p.jsonl" --prompt_template "$policy/template.txt"
expect 1 'text.db: not an SQLite file' "$hone" report --store "$dir/text.db" --out "$dir/r.html"
expect 1 "$dir/none.db" "$hone" report --store "$dir/none.db" --out "$dir/r.html"
expect 1 'tables.json.*columns' "$hone" report --store "$dir/sft/hone.db" --tables "$dir/tables.json" --out "$dir/r.html"
# What a file of a stranger's is cited with moves no cursor.
printf '[\033[31m]' >"$dir/escape.json"
expect 1 "escape.json: column 2: invalid token near '[?]'" "$hone" report --store "$dir/sft/hone.db" --tables "$dir/escape.json" --out "$dir/r.html"
# A table that is one is in the report.
printf '[{"title": "plums", "columns": ["n"], "rows": [["seven"]]}]\n' >"$dir/plums.json"
expect 0 'it is told' sh -c '"$1" report --store "$2/sft/hone.db" --tables "$2/plums.json" --out "$2/r.html" >/dev/null && grep -q seven "$2/r.html" && echo it is told >&2' - "$hone" "$dir"
