#!/bin/bash
# timeout: 900
# The verifier on this machine's GPU: all honest kernels are genuine there too, no exploit is; what
# it says of times holds beside other clocks. `make test-gpu` runs it in its bundle, where a machine
# without a GPU is a failure; within `make test` it is one counted skip.
#
# usage: tests/gpu/test_gpu.sh [OUT]      OUT: folder for logs (build/gpu-logs)
set -uo pipefail
if [ -z "${HONE_GPU_TESTS:-}" ]; then
	echo '1..0 # SKIP needs a GPU: make test-gpu'
	exit 0
fi
cd "$(dirname "$0")/../.."
out=${1:-build/gpu-logs}
mkdir -p "$out" build
# Python is HONE_PYTHON's; without it the one that PYTHON names.
[ -n "${HONE_PYTHON:-}" ] || [ -e build/venv ] || ln -s "$("${PYTHON:-python3}" -c 'import sys; print(sys.prefix)')" build/venv
"${HONE_PYTHON:-build/venv/bin/python}" -c 'import torch, triton' || { echo "Bail out! ${HONE_PYTHON:-build/venv/bin/python} has no torch and triton"; exit 1; }
device=${HONE_GPU_DEVICE:-cuda:0} count=0 failed=0

tell() { # STATUS NAME
	count=$((count + 1))
	[ "$1" = 0 ] && echo "ok $count - $2" || { echo "not ok $count - $2"; failed=1; }
}

# The strongest sandbox in which the GPU answers is the one that the rest runs in; anything but
# the strongest is a failure.
sandbox=
for level in full lsm; do
	./hone verify --task tests/known_good/softmax_rows/task.py --candidate tests/known_good/softmax_rows/candidate.py --threads 1 \
		--device "$device" --sandbox $level --allow_unsandboxed >"$out/level-$level" 2>&1
	status=$?
	sed "s/^/# sandbox $level: /" "$out/level-$level"
	tell $status "a verdict from the GPU in sandbox $level"
	[ $status = 0 ] && sandbox=${sandbox:-$level}
done
[ -n "$sandbox" ] || { echo 'Bail out! no verdict from the GPU'; exit 1; }

# Each way to run the reference is timed beside the candidate, and what its timed
# forward returned is right.
./hone verify --task tests/known_good/layernorm_affine/task.py --candidate tests/known_good/layernorm_affine/candidate.py --threads 1 --device "$device" \
	--sandbox $sandbox --allow_unsandboxed --json >"$out/references.json" 2>"$out/references.err"
"${HONE_PYTHON:-build/venv/bin/python}" - "$out/references.json" >"$out/references.log" 2>&1 <<'EOF'
import json, sys
device = json.load(open(sys.argv[1]))["device"]
wrong = 0
for name in ("eager", "tf32", "compile"):
    r = device["references"].get(name, {})
    ok = r.get("timed") and r.get("agrees") and r.get("gated") and r.get("pairs") and r["speedup"][1] <= r["speedup"][0] <= r["speedup"][2]
    wrong += not ok
    print(name, "ok" if ok else "NOT OK", json.dumps(r))
sys.exit(wrong)
EOF
status=$?
sed 's/^/# /' "$out/references.err" "$out/references.log" | cut -c1-600 | tail -n 12
tell $status 'the reference is timed beside the candidate: eager, tf32, torch.compile'

./clocks "$PWD/hone-runner" $sandbox "$device" fixtures-timed same 50 add_one_262144_1024 chain_16384_128 add_one_33554432_1024 chain_2097152_512 \
	>"$out/same.tap" 2>&1
status=$?
sed 's/^\(not ok\|ok\|Bail\)/# \1/; /^1\.\./d' "$out/same.tap"
tell $status 'kernels timed against themselves'

# All three clocks look at one card: two of a kind differ by more than the bound.
./clocks "$PWD/hone-runner" $sandbox "$device" fixtures-timed times "$out/times.jsonl" >"$out/times.log" 2>&1 &&
	CUDA_VISIBLE_DEVICES=${device#cuda:} "${HONE_PYTHON:-build/venv/bin/python}" tests/gpu/times_beside.py fixtures-timed "$out/times.jsonl" $(command -v ncu) >"$out/beside.tap" 2>&1
status=$?
sed 's/^\(not ok\|ok\|Bail\)/# \1/; /^1\.\./d' "$out/times.log" "$out/beside.tap"
tell $status 'times beside CUDA graphs and Nsight Compute'

./moves "${device#cuda:}" 200 1 >"$out/moves.tap" 2>&1
status=$?
grep -v '^1\.\.' "$out/moves.tap" | sed 's/^\(not ok\|ok\|Bail\)/# \1/' | tail -n 12
tell $status 'rows of movement give the same bytes as on the vm'

./faults "$PWD/hone-runner" $sandbox "$device" fixtures >"$out/faults.tap" 2>"$out/faults.err"
status=$?
sed 's/^/# /' "$out/faults.err" | tail -n 20
sed 's/^\(not ok\|ok\)/# \1/; /^1\.\./d' "$out/faults.tap"
tell $status 'kernels that misbehave end in their own faults, and the GPU is usable at once'

# Those under gpu/ are right on the vm and wrong on a GPU alone, gpu/stock at
# the task's own sizes alone.
for folder in known_good exploits gpu/exploits gpu/stock; do
	log=$out/${folder//\//_}
	./corpus "$device" $sandbox tests/$folder "$log.jsonl" >"$log.tap" 2>"$log.err"
	status=$?
	sed 's/^/# /' "$log.err" | tail -n 20
	grep -A1 '^not ok\|^Bail' "$log.tap" | sed 's/^not ok/# not ok/' | head -n 80
	grep '^#' "$log.tap" | tail -n 3 | sed "s,^# ,# $folder: ,"
	tell $status "$folder on $device, sandbox $sandbox"
done
echo "1..$count"
exit $failed
