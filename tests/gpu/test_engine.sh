#!/bin/bash
# timeout: 900
# The engine on this machine's GPU: every stage against its formula, the plan against what the
# device counts, the engine's own promises, and logits, gradients, objectives and ten steps
# against transformers and peft, with planted errors. `make test-gpu` runs it in its bundle before
# the verifier's part (test_gpu.sh), where a machine without a GPU is a failure; within `make
# test` it is one counted skip.
#
# usage: tests/gpu/test_engine.sh [OUT]
# OUT: folder for logs (build/gpu-logs); PARTS="stages parity parity-8b": what is run.
set -uo pipefail
if [ -z "${HONE_GPU_TESTS:-}" ]; then
	echo '1..0 # SKIP needs a GPU: make test-gpu'
	exit 0
fi
cd "$(dirname "$0")/../.."
out=${1:-build/gpu-logs}
mkdir -p "$out"
export HONE_REQUIRE_GPU=1 BUILD=engine
python=${HONE_PYTHON:-build/venv/bin/python}
count=0 failed=0

tell() { # STATUS NAME LOG SECONDS
	count=$((count + 1))
	local cases
	cases=$(grep -c '^ok ' "$3")
	if [ "$1" = 0 ] && [ "$cases" -gt 0 ]; then echo "ok $count - $2 ($cases, $4 s)"; return; fi
	failed=1
	echo "not ok $count - $2 ($cases ok, exit status $1, $4 s)"
	grep -A 3 '^not ok\|ERROR\|Bail' "$3" | head -n 24 | sed 's/^/# /'
}
begun() { # NAME COMMAND...: in the background; its log, status and seconds are files
	local name=$1 start=$SECONDS
	shift
	rm -f "$out/$name.status" # of an earlier run
	{ "$@" >"$out/$name.tap" 2>&1; echo "$? $((SECONDS - start))" >"$out/$name.status"; } &
}
ended() { # NAME...
	local name status seconds
	wait
	for name in "$@"; do
		read -r status seconds <"$out/$name.status"
		tell "$status" "$name" "$out/$name.tap" "$seconds"
	done
}

for part in ${PARTS:-stages parity parity-8b}; do
	case $part in
	stages)
		# beside each other: most of their time is the formulas' on the CPU
		names=$(cd engine && ls -d test_*)
		mkdir -p engine/ref/sft
		for name in $names; do
			case $name in
			test_plan) ;;
			test_resume) begun $name engine/$name test_killed_on_gpu ;;
			*) begun $name engine/$name ;;
			esac
		done
		ended $(grep -vx test_plan <<<"$names")
		# alone: it compares the device's own count of free memory
		begun test_plan engine/test_plan
		ended test_plan
		;;
	parity) begun parity "$python" tests/gpu/parity.py engine/parity --cases 0.6b --plants; ended parity ;;
	parity-8b) begun parity-8b "$python" tests/gpu/parity.py engine/parity --cases 8b; ended parity-8b ;;
	esac
done
echo "1..$count"
exit $failed
