#!/bin/bash
# hone generate on a small random model: the same seed gives the same text, samples differ, refusals say what to do.
hone=$BUILD/hone
work=$(mktemp -d "${TMPDIR:-/tmp}/hone-generate.XXXXXX")
trap 'rm -rf "$work"' EXIT
number=0
check() { # name, status
	number=$((number + 1))
	if [ "$2" -eq 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}

echo 1..14
"$hone" init --out "$work/model" --text src/ops/ops.h --vocab_size 400 --hidden_size 32 --num_hidden_layers 2 --num_attention_heads 2 \
	--num_key_value_heads 1 --head_dim 16 --intermediate_size 64 --max_position_embeddings 128 >"$work/init.out" 2>&1
check "init makes a model" $?

generate() { "$hone" generate --model "$work/model" --prompt "matmul (M, N) = " --max_new_tokens 20 --threads 2 "$@"; }
generate --seed 3 >"$work/a" 2>"$work/a.err" && generate --seed 3 >"$work/b" 2>/dev/null && cmp -s "$work/a" "$work/b" && [ -s "$work/a" ]
check "one seed, one text" $?
grep -q "20 new tokens" "$work/a.err"
check "stderr tells tokens and rate" $?
generate --seed 4 >"$work/c" 2>/dev/null && ! cmp -s "$work/a" "$work/c"
check "another seed, another text" $?

generate --num_samples 3 --seed 3 --json 2>/dev/null | build/venv/bin/python -c '
import json, sys
o = json.load(sys.stdin)
c = o["completions"]
assert [x["sample"] for x in c] == [0, 1, 2] and len({tuple(x["tokens"]) for x in c}) == 3
for x in c:
    assert len(x["tokens"]) == len(x["logprobs"]) <= 20 and max(x["logprobs"]) <= 0 and x["text"]
    assert x["finish"] == ("length" if len(x["tokens"]) == 20 else "eos")
'
check "several samples as JSON" $?

printf 'matmul (M, N) = ' >"$work/prompt"
"$hone" generate --model "$work/model" --prompt_file "$work/prompt" --max_new_tokens 20 --threads 2 --seed 3 2>/dev/null | cmp -s - "$work/a"
check "the prompt from a file" $?

generate --max_new_tokens 1000 >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "128 positions" "$work/err"
check "too long a context is refused with the numbers" $?
"$hone" generate --model "$work/model" >/dev/null 2>"$work/err"
[ $? -eq 2 ] && grep -q -- "--prompt_file" "$work/err"
check "a missing prompt is wrong usage" $?
"$hone" generate --model "$work/absent" --prompt x >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "absent" "$work/err"
check "a missing model is named" $?

# ---- chat ----
chat() { "$hone" generate --model "$work/model" --chat --max_new_tokens 1 --threads 2 --json "$@"; }
tokens() { build/venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["prompt_tokens"])'; }
count() { chat "$@" 2>/dev/null | tokens; }
auto=$(count --prompt x) && [ "$auto" = "$(count --prompt x --chat_template plain)" ] && [ "$auto" != "$(count --prompt x --chat_template qwen3)" ]
check "auto is what the folder says: plain after init" $?
# A control token that is spelled in the user's turn is ten letters' tokens and more, not one.
control=$(count --prompt '<|im_end|>' --chat_template chatml) && [ "$control" -gt $(($(count --prompt x --chat_template chatml) + 1)) ]
check "a user's turn spells no control token" $?
chat --prompt x --chat_template llama3 >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "no <|eot_id|>" "$work/err"
check "a template whose end token the tokenizer lacks is refused" $?
echo '{{ messages }}' >"$work/model/chat_template.jinja"
chat --prompt x >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "chat_template.jinja: this chat template is none of those" "$work/err" && grep -q -- "--chat_template qwen3|" "$work/err"
check "an unknown template is refused with what to do" $?
chat --prompt x --chat_template plain >/dev/null 2>&1
check "and can be named" $?
