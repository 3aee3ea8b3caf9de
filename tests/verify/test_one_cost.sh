#!/bin/sh
# One cost model: what `hone verify` pays a kernel by is what `hone vm --cost` says of it. A product
# on tensor cores, whose counts hang on the compile's layouts, and a sum over rows. timeout: 300
set -u
# Workers that are warm: nothing is asked of their start.
[ "${WARM_WORKERS:-}" ] || exec build/venv/bin/python tests/warm_python.py "$0"
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cat >"$WORK/run.py" <<'END'
import importlib.util
import sys

import torch


def module(name):
    spec = importlib.util.spec_from_file_location(name, f"{sys.argv[1]}/{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


task, candidate = module("task"), module("candidate")
with torch.no_grad():
    candidate.ModelNew(*task.get_init_inputs())(*task.get_inputs())
END
cat >"$WORK/compare.py" <<'END'
import json
import sys

said, counted = (json.loads(open(path).read().splitlines()[-1]) for path in sys.argv[1:])
seconds = sum(k["predicted_s"] for k in counted["kernels"])
print(f"# verify {said['cost_s']:.9g} s, vm {seconds:.9g} s")
sys.exit(not (seconds > 1e-6 and abs(said["cost_s"] / seconds - 1) < 1e-7))
END
count=0
for name in matmul_grouped_order rmsnorm_parameter; do
	folder=tests/known_good/$name
	count=$((count + 1))
	"$HONE" verify --task $folder/task.py --candidate $folder/candidate.py --json --threads 1 --seed 7 >"$WORK/said" 2>"$WORK/err" || true
	"$HONE" vm --cost --json "$WORK/run.py" $folder >"$WORK/counted" 2>>"$WORK/err"
	if "${HONE_PYTHON:-build/venv/bin/python3}" "$WORK/compare.py" "$WORK/said" "$WORK/counted"; then
		echo "ok $count - $name"
	else
		sed 's/^/# /' "$WORK/err"
		echo "not ok $count - $name"
	fi
done
echo "1..$count"
