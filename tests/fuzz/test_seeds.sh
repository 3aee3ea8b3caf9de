#!/bin/bash
# Every fuzz entry over its seeds, built by the compiler of everything else: entries keep compiling
# and seeds keep their meaning where there is no clang.
number=0
entries=(tests/fuzz/*/corpus)
echo "1..${#entries[@]}"
for corpus in "${entries[@]}"; do
	name=${corpus#tests/fuzz/} name=${name%/corpus} number=$((number + 1))
	if out=$("$BUILD/tests/fuzz/seeds_$name" "$corpus"/* 2>&1) && [[ ${out##*$'\n'} == "$(ls "$corpus" | wc -l) inputs" ]]; then echo "ok $number - $name"
	else echo "not ok $number - $name"; echo "${out//$'\n'/$'\n'# }" | sed '1s/^/# /'; fi
done
