#!/bin/bash
# hone bench verify: usage, and where a verdict's time goes. What it measures is tests/verify's; its
# numbers are in docs/results.md.
hone=${BUILD:-build/release}/hone
work=$(mktemp -d "${TMPDIR:-/tmp}/hone-bench-verify.XXXXXX")
trap 'rm -rf "$work"' EXIT
n=0
ok() { n=$((n + 1)); [ "$1" = 0 ] && echo "ok $n - $2" || { echo "not ok $n - $2"; sed 's/^/# /' "$work/err"; }; }

"$hone" bench verify --device cuda:0 --alone 2>"$work/err"
[ $? = 2 ] && grep -q 'several GPUs are compared with one' "$work/err"
ok $? 'one GPU is not compared with itself'
"$hone" bench verify --seconds -1 2>"$work/err"
[ $? = 2 ] && grep -q seconds "$work/err"
ok $? 'a series has no time below zero'
"$hone" bench verify more 2>"$work/err"
[ $? = 2 ] && grep -q 'unexpected argument "more"' "$work/err"
ok $? 'a word that means nothing is refused'
"$hone" bench verify --device cpu --threads 1 --single 1 --many 2 --large 0 --timed 0 --hits 1 --steps >"$work/out" 2>"$work/err"
# Each step once, with milliseconds; the vm's trials take time, a GPU's lock none.
[ $? = 0 ] && [ "$(grep -c ' ms$' "$work/out")" = 10 ] && grep -q '^  trials  *[0-9.]*[1-9][0-9.]* ms$' "$work/out" &&
	grep -q "^  waiting for a GPU's lock  *0.0 ms$" "$work/out" && ! grep -q '6 GiB' "$work/out" || { cat "$work/out" >>"$work/err"; false; }
ok $? '--steps says where the time of a verdict goes, and nothing is said of what was not measured'
echo "1..$n"
