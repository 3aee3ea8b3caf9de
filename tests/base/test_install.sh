#!/bin/bash
# make install: hone runs from PREFIX/bin, from another folder, down to a verdict of a sandboxed
# candidate; make uninstall leaves nothing. timeout: 600
set -uo pipefail
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi; }

echo 1..6
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
chmod o+rx "$prefix"   # candidates run as nobody
make -s install PREFIX="$prefix/hone" BUILD="${BUILD:-build/release}" >"$prefix/log" 2>&1
check $? "make install PREFIX="
hone=$prefix/hone/bin/hone
mkdir "$prefix/elsewhere" && cd "$prefix/elsewhere" || exit 1
[ "$("$hone" --version)" = "$("$OLDPWD/${BUILD:-build/release}/hone" --version)" ]; check $? "the installed program says the same version"

# The README's task and candidate, as printed there.
sed -n '/^<!-- test -->$/,/^hone verify/p' "$OLDPWD/README.md" | sed -n '/^mkdir/,/^END$/p;/^cat >work\/candidate/,/^END$/p' >example.sh
bash example.sh
"$hone" verify --task work/task.py --candidate work/candidate.py --json >verdict.json 2>errors
[ "$(grep -o '"verdict": "[a-z]*"' verdict.json)" = '"verdict": "genuine"' ] || { cat verdict.json errors; false; }
check $? "a verdict from another folder"
"$hone" tasks synth --seed 1 --count_train 2 --count_dev 1 --count_test 0 --out tasks.jsonl >/dev/null 2>&1; check $? "tasks from another folder"
"$hone" init --recipe recipes/demo/model.yaml --num_hidden_layers 1 --text tasks.jsonl --out init >said 2>&1 || { cat said; false; }
check $? "a recipe by its path in the checkout, from another folder"

cd "$OLDPWD" || exit 1
make -s uninstall PREFIX="$prefix/hone" && [ -z "$(find "$prefix/hone" -type f -o -type l)" ]; check $? "make uninstall"
