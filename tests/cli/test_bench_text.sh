#!/bin/bash
# hone bench text: usage, a peer that is missing, and ids that differ from the peer's, which must
# stop it before it prints a speed.
hone=$BUILD/hone
work=$(mktemp -d "${TMPDIR:-/tmp}/hone-bench-text.XXXXXX")
trap 'rm -rf "$work"' EXIT
number=0
check() { # name, status
	number=$((number + 1))
	if [ "$2" -eq 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; sed 's/^/# /' "$work/err"; fi
}

echo 1..5
"$hone" bench text --rounds 0 2>"$work/err"
[ $? -eq 2 ] && grep -q -- "--rounds: expected an integer, 1 to 1000" "$work/err"
check "no rounds is wrong usage" $?
"$hone" bench text more 2>"$work/err"
[ $? -eq 2 ] && grep -q '"more"' "$work/err"
check "an argument is wrong usage" $?
"$hone" bench text --python "$work/absent" 2>"$work/err"
[ $? -eq 1 ] && grep -q "$work/absent" "$work/err"
check "a Python that is missing is named" $?

# A peer that makes one document and a tokenizer, and knows the hash of the ids or not. The
# tokenizer is one of hone's own.
"$hone" init --out "$work/model" --text src/ops/ops.h --vocab_size 300 --hidden_size 16 --num_hidden_layers 1 --num_attention_heads 2 \
	--num_key_value_heads 1 --head_dim 8 --intermediate_size 16 >/dev/null 2>"$work/err"
cat >"$work/peer.py" <<EOF
import hashlib, json, shutil, struct, sys
what, folder = sys.argv[1:3]
if what == "make":
    shutil.copy("$work/model/tokenizer.json", folder + "/one.json")
    open(folder + "/documents", "wb").write(b"!\0!\0")
print(json.dumps({"kinds": ["one"], "seconds": 2.0, "hash": hashlib.sha256(struct.pack("<2i", 0, HASHED)).hexdigest()}))
EOF
bench() { "$hone" bench text --python build/venv/bin/python --peer "$work/$1" --train_vocab_size 0 --rounds 1 --json; }
sed 's/HASHED/0/' "$work/peer.py" >"$work/right.py"
sed 's/HASHED/1/' "$work/peer.py" >"$work/wrong.py"
bench right.py 2>"$work/err" | grep -q '"tokenizers": 1.0'
check "the peer's rate is tokens by its seconds" $?
bench wrong.py >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q "one: the ids of hone and tokenizers differ" "$work/err" && [ ! -s "$work/out" ]
check "other ids stop it" $?
