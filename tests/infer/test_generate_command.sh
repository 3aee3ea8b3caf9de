#!/bin/bash
# hone generate on a small random model: the same seed gives the same text, samples differ,
# refusals say what to do.
hone=$BUILD/hone
work=$(mktemp -d "${TMPDIR:-/tmp}/hone-generate.XXXXXX")
trap 'rm -rf "$work"' EXIT
number=0
check() { # name, status
	number=$((number + 1))
	if [ "$2" -eq 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}

echo 1..19
# A text of its own, so that what the model writes changes with the model alone.
for i in {1..400}; do echo "def matmul_$i(a_ptr, b_ptr, M, N): acc = tl.load(a_ptr + $i)"; done >"$work/text.txt"
"$hone" init --out "$work/model" --text "$work/text.txt" --vocab_size 400 --hidden_size 32 --num_hidden_layers 2 --num_attention_heads 2 \
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

"$hone" generate --model "$work/model" --prompt x --max_new_tokens 2 --temperature 1e-39 >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "temperature 1e-39.*expected temperature 0 (greedy) or at least 0.001" "$work/err"
check "a temperature that fp32 cannot divide by is refused by its name" $?

# ---- bytes and text: this model writes whatever bytes; Python's decoder is the oracle ----
same=0
for seed in 1 2 3 4 5 6 7 8; do
	generate --seed $seed >"$work/bytes" 2>/dev/null && generate --seed $seed --json >"$work/text" 2>/dev/null || same=1
	build/venv/bin/python - "$work/bytes" "$work/text" <<-'END' || same=1
		import json, sys
		raw = open(sys.argv[1], "rb").read()[:-1]
		assert json.load(open(sys.argv[2]))["completions"][0]["text"] == raw.decode("utf-8", "replace"), raw
	END
done
check "bytes that are no text become U+FFFD as others write it" $same

# ---- stop strings: the answer is cut behind the first place where one of them ends ----
stop() { # name, texts as Python, the expected end; both from the answer without stop strings
	local -a options
	mapfile -d '' options < <(build/venv/bin/python - "$work" <<-END
		import json, re, sys
		text = json.load(open(sys.argv[1] + "/free"))["completions"][0]["text"]
		plain = [m.group() for m in re.finditer("[ -,.-~]+", text)]   # no part of a character that the model cut
		chosen = $2
		ends = [text.index(s) + len(s) for s in chosen if s in text]
		open(sys.argv[1] + "/expected", "w").write(text[:min(ends)] if ends else text)
		for s in chosen: sys.stdout.write("--stop_strings\0" + s + "\0")
	END
	)
	generate --seed 3 --json "${options[@]}" 2>/dev/null >"$work/stopped"
	build/venv/bin/python - "$work" <<-'END'
		import json, sys
		c = json.load(open(sys.argv[1] + "/stopped"))["completions"][0]
		free = json.load(open(sys.argv[1] + "/free"))["completions"][0]
		expected = open(sys.argv[1] + "/expected").read()
		# The last token may reach beyond the text that ends the answer.
		assert c["text"].startswith(expected) and c["tokens"] == free["tokens"][:len(c["tokens"])], (c, expected)
		assert c["finish"] == "stop" and len(c["tokens"]) < len(free["tokens"]), c
	END
	check "$1" $?
}
generate --seed 3 --json 2>/dev/null >"$work/free"
stop "a stop string inside the answer ends it" '[max(plain[:-1], key=len)]'
stop "the first of several" '["never written", plain[-1], max(plain[:-1], key=len)[:2]]'
"$hone" generate --model "$work/model" --prompt x --stop_strings "" >/dev/null 2>"$work/err"
[ $? -eq 2 ] && grep -q -- '--stop_strings ""' "$work/err"
check "an empty one is wrong usage" $?

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
