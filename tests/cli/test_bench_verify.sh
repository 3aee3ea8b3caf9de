#!/bin/bash
# hone bench verify: usage. What it measures is tests/verify's; its numbers are in docs/results.md.
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
echo "1..$n"
