#!/bin/bash
# timeout: 900
# The verifier on this machine's GPU: all honest kernels are genuine there too, no exploit is. `make test-gpu` runs it in its bundle, where a machine
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
python=${PYTHON:-python3}
[ -e build/venv ] || ln -s "$("$python" -c 'import sys; print(sys.prefix)')" build/venv
device=${HONE_GPU_DEVICE:-cuda:0} failed=0

# The strongest sandbox in which the GPU answers.
sandbox=
for level in full lsm none; do
	if ./hone verify --task tests/known_good/softmax_rows/task.py --candidate tests/known_good/softmax_rows/candidate.py --threads 1 \
		--device "$device" --sandbox $level --allow_unsandboxed >"$out/level-$level" 2>&1; then
		sandbox=${sandbox:-$level}
		break
	fi
	sed "s/^/# sandbox $level: /" "$out/level-$level"
done
[ -n "$sandbox" ] || { echo 'Bail out! no verdict from the GPU'; exit 1; }
sed 's/^/# /' "$out/level-$sandbox"
for folder in known_good exploits; do
	./corpus "$device" $sandbox tests/$folder "$out/$folder.jsonl" >"$out/$folder.tap" 2>"$out/$folder.err" || failed=1
	sed 's/^/# /' "$out/$folder.err" | tail -n 20
	grep -A1 '^not ok\|^Bail' "$out/$folder.tap" | head -n 60
	grep '^#' "$out/$folder.tap" | tail -n 2 | sed "s/^# /# $folder: /"
done
[ $failed = 0 ] && echo "ok 1 - the corpora on $device, sandbox $sandbox" || echo "not ok 1 - the corpora on $device, sandbox $sandbox"
echo 1..1
exit $failed
