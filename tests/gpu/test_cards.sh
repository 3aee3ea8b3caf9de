#!/bin/bash
# timeout: 600
# The paths for other cards, on a Hopper GPU that is held to what they have. The engine's:
# multiprocessors, shared memory, memory and kernels, from compute_80's code (make cuda-cards) and
# from the code of the plugin that ships: stages, parity with transformers and peft, an 8B that
# generates in a card's memory and whose training is planned or refused with the sum. The
# verifier's: kernels compiled for the card (--gpu), run where they fit, refused by the card's name
# where they do not. What it cannot show: other clocks and caches, cuBLASLt's own kernels (it takes
# Hopper's here), and the code that the assembler makes for 8.0 of the same PTX.
#
# usage: BUILD=build/release tests/gpu/test_cards.sh [CARD...]     default: rtx4090 a100
# Takes $BUILD (hone, tests/ops/test_stages_*, tests/gpu/parity, tests/gpu/corpus,
# libhone_cuda.so) and build/cards/libhone_cuda.so, or $CARDS; PARTS="stages parity memory verify"
# and CODES="cards ships" are all of it. Without a GPU it is skipped, and counted.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build/release} CARDS=${CARDS:-build/cards} PARTS=${PARTS:-stages parity memory verify}
PROGRAMS=$(cd "$BUILD/tests/ops" 2>/dev/null && ls -d test_stages_* | grep -v "\.")
PYTHON=${HONE_PYTHON:-build/venv/bin/python}
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! nvidia-smi -L >/dev/null 2>&1; then echo "1..0 # SKIP no GPU"; exit 0; fi
[ -n "$PROGRAMS" ] || { echo "Bail out! $BUILD/tests/ops has no test_stages_* (make test-cards builds them)"; exit 1; }
export HONE_REQUIRE_GPU=1
n=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case_end() { # RC NAME LOG SECONDS
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2 ($4 s)"; return; fi
	failed=$((failed + 1))
	echo "not ok $n - $2 ($4 s, status $1)"
	grep -v '^ok' "$3" | tail -n 20 | sed 's/^/# /'
}
case_run() { # NAME COMMAND...: one at a time; its output stays in $log
	local name=$1 start=$SECONDS
	shift
	log=$work/log
	"$@" >"$log" 2>&1
	case_end $? "$name" "$log" $((SECONDS - start))
}
has_part() { [[ " $PARTS " == *" $1 "* ]]; }

# All programs on all cards side by side, since most of their time is the processor's.
stages_begin() { # CODE CARD
	local p log
	for p in $PROGRAMS; do
		log=$work/$1.$2.$p
		(start=$SECONDS; HONE_CUDA_CARD=$2 timeout -k 2 300 "$work/$1/tests/$p"; rc=$?; echo "$rc $((SECONDS - start))" >"$log.end"; exit $rc) >"$log" 2>&1 &
	done
}
stages_end() { # CODE CARD; behind a wait for all
	local p log rc seconds
	for p in $PROGRAMS; do
		log=$work/$1.$2.$p
		read -r rc seconds <"$log.end"
		case_end "$rc" "$1 as $2: $p, $(grep -c '^ok' "$log") of $(sed -n 's/^1\.\.//p' "$log" | tail -n 1)" "$log" "$seconds"
	done
}

parity() { # CODE CARD
	HONE_CUDA_CARD=$2 "$PYTHON" tests/gpu/parity.py "$work/$1/tests/parity" --device cuda --cases 0.6b,wide,odd
}

# An 8B of random weights: it generates within the card's memory; a training step of 16k packed
# tokens runs there, or is refused by what it would need.
bench_8b() { # CARD PART MORE...
	local card=$1 part=$2
	shift 2
	timeout -k 2 100 "$work/cards/hone" bench gpu --shapes 8b --parts "$part" --cuda_card "$card" ${HONE_CUDA_LIBS:+--cuda_libs "$HONE_CUDA_LIBS"} --repeats 8 "$@"
}
generates() { bench_8b "$1" decode --batches 32 && grep -E 'decode.* 32.* tok/s' "$work/log" >/dev/null; } # CARD
trains() { bench_8b "$1" train && grep -E 'GRPO step.* tok/s' "$work/log" >/dev/null; } # CARD
refuses() { ! bench_8b "$1" train && grep -E 'MiB' "$work/log" >/dev/null; } # CARD

# Honest kernels for the card are genuine on the device too, or refused by the card's name.
verify() { # CARD FOLDER
	"$BUILD/tests/gpu/corpus" "${HONE_GPU_DEVICE:-cuda:0}" full "$2" "$work/corpus.jsonl" 0 untimed "$1"
}

for c in "${@:-rtx4090 a100}"; do cards+=" $c"; done
# A plugin is looked for beside the program and above it: each code has a folder of its own.
for code in ${CODES:-cards ships}; do
	mkdir -p "$work/$code/tests"
	plugin=$BUILD/libhone_cuda.so; [ $code = cards ] && plugin=$CARDS/libhone_cuda.so
	if [ ! -e "$plugin" ]; then echo "ok $((n += 1)) - $code # SKIP $plugin is missing (make cuda-cards)"; continue; fi
	cp "$plugin" "$work/$code/libhone_cuda.so"
	cp "$BUILD/hone" "$work/$code/"
	for p in $PROGRAMS; do cp "$BUILD/tests/ops/$p" "$work/$code/tests/"; done
	cp "$BUILD/tests/gpu/parity" "$work/$code/tests/"
	for card in $cards; do has_part stages && stages_begin $code "$card"; done
done
if has_part stages; then
	wait
	for code in cards ships; do for card in $cards; do [ ! -e "$work/$code/libhone_cuda.so" ] || stages_end $code "$card"; done; done
fi
for card in $cards; do
	has_part memory && [ -e "$work/cards/libhone_cuda.so" ] || continue
	case_run "an 8B as $card generates" generates "$card"
	grep -E 'tok/s' "$log" | sed 's/^/# /'
	# 24 GiB hold the weights and 32 sequences, not a training step of this size; 80 GiB hold both.
	if [ "$card" = rtx4090 ]; then case_run "its training is refused with the sum" refuses "$card"
	else case_run "and trains" trains "$card"; fi
	grep -E 'tok/s|MiB' "$log" | sed 's/^/# /'
done
if has_part verify; then
	case_run "hone verify --gpu: shared memory and numbers that a card lacks are refused by its name" env HONE_GPU_DEVICE="${HONE_GPU_DEVICE:-cuda:0}" "$PYTHON" tests/verify/test_cards.py
fi
for card in $cards; do
	if has_part verify; then
		case_run "honest kernels for an $card are genuine there, or refused by its name" verify "$card" tests/known_good
		grep '^#' "$log" | sed 's/^#/##/' | cut -c1-300 | tail -n 30
	fi
done
for card in $cards; do
	if has_part parity; then
		case_run "parity as $card, compute_80's code" parity cards "$card"
		grep -c '^ok' "$log" | sed 's/$/ of its cases ok/; s/^/# /'
	fi
done
echo "1..$n"
[ $failed = 0 ]
