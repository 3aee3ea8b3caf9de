#!/bin/bash
# timeout: 600
# The engine's paths for other cards, on a Hopper GPU that is held to what they have: their multiprocessors, shared memory, memory and kernels, from
# compute_80's code (make cuda-cards) and from the code of the plugin that ships. What it cannot show: other clocks and caches, cuBLASLt's own kernels (it
# takes Hopper's here), and the code that the assembler makes for 8.0 of the same PTX.
#
# usage: BUILD=build/release tests/gpu/test_cards.sh [CARD...]     default: a100 rtx4090
# Takes $BUILD (tests/ops/*, libhone_cuda.so) and build/cards/libhone_cuda.so, or $CARDS. Without a GPU it is skipped, and counted.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build/release} CARDS=${CARDS:-build/cards}
PROGRAMS="test_stages test_stages_forward test_stages_linear test_stages_paged test_stages_draw test_stages_backward test_stages_attention test_invariance test_follows"
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! nvidia-smi -L >/dev/null 2>&1; then echo "1..0 # SKIP no GPU"; exit 0; fi
export HONE_REQUIRE_GPU=1
n=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case_end() { # RC NAME LOG
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; return; fi
	failed=$((failed + 1))
	echo "not ok $n - $2"
	grep -v '^ok' "$3" | tail -n 20 | sed 's/^/# /'
}
# A plugin is looked for beside the program and above it: each code has a folder of its own.
for code in cards ships; do
	mkdir -p "$work/$code/tests"
	plugin=$BUILD/libhone_cuda.so; [ $code = cards ] && plugin=$CARDS/libhone_cuda.so
	if [ ! -e "$plugin" ]; then echo "ok $((n += 1)) - $code # SKIP $plugin is missing (make cuda-cards)"; continue; fi
	cp "$plugin" "$work/$code/libhone_cuda.so"
	for p in $PROGRAMS; do cp "$BUILD/tests/ops/$p" "$work/$code/tests/"; done
	for card in "${@:-a100 rtx4090}"; do for c in $card; do
		for p in $PROGRAMS; do
			log=$work/$code.$c.$p
			HONE_CUDA_CARD=$c timeout -k 2 100 "$work/$code/tests/$p" >"$log" 2>&1 &
			eval "pid_$p=$!"
		done
		for p in $PROGRAMS; do eval "wait \$pid_$p"; case_end $? "$code as $c: $p" "$work/$code.$c.$p"; done
	done; done
done
echo "1..$n"
[ $failed = 0 ]
