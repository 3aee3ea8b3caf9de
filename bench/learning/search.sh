#!/bin/bash
# Does a policy find better launch parameters than chance with as many verdicts? (docs/results.md)
# recipes/study/search.yaml has the protocol, search_kernels.py the kernels.
#
# usage: bench/learning/search.sh DIR data
#            kernels, and the times of all points of their spaces: DIR/train, DIR/test
#        bench/learning/search.sh DIR fit SECONDS
#            pairs of those of train, and the policy: DIR/fit
#        bench/learning/search.sh DIR ARM SEED
#            twelve verdicts on each test kernel from the start of this seed: DIR/ARM-SEED; what
#            three and six find is their beginning
#        bench/learning/search.sh DIR table
#            all arms that are there
# Arms: plain (points by chance), policy (the fitted model), untrained (the demo's start), climb (a
# neighbour of the best point so far, by a command).
# What is there from an earlier start is not made again.
# Environment: HONE (build/release/hone), PYTHON (build/venv/bin/python), TRAIN (kernels to fit,
# 22), POINTS (of each of their spaces, 1000: all), JOBS (processes of data, 1), TEST (files of
# kernels to search over, *), DEVICE (where the fit runs, cpu), STEPS (of it; 0: SECONDS alone)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python}
dir=$1 arm=$2 seed=${3:-}
side() { "$python" bench/learning/search_policy.py "$@"; }

tune() { # KERNEL TASK OUT OPTIONS...
	[ -e "$3" ] || "$hone" tune --candidate "$1" --task "$2" --num_correct_trials 1 --store "$dir/cache.db" --json "${@:4}" >"$3.part"
	[ -e "$3" ] || mv "$3.part" "$3"
}
data() {
	[ -d "$dir/test" ] || "$python" bench/learning/search_kernels.py "$dir" "${TRAIN:-22}"
	printf '%s\n' "$dir"/t*/*.kernel.py | xargs -P "${JOBS:-1}" -n 1 bench/learning/search.sh "$dir" space
}
space() { # KERNEL
	local base=${1%.kernel.py} points=1000
	[[ $1 = "$dir"/test/* ]] || points=${POINTS:-1000}
	tune "$1" "$base.task.py" "$base.json" --verdicts "$points"
}
fit() {
	mkdir -p "$dir/fit"
	side pairs "$dir/fit/pairs.jsonl" "$dir"/train/*.json
	[ -d "$dir/fit/final" ] || "$hone" sft --recipe recipes/study/search.yaml --seed 1 --threads 1 --model recipes/demo/start --data "$dir/fit/pairs.jsonl" \
		--device "${DEVICE:-cpu}" --max_seconds "$1" --max_steps "${STEPS:-0}" --output_dir "$dir/fit"
}
model=(--search policy --prompt_template recipes/prompts/small-backend.txt --chat_template plain --threads 1 --max_completion_length 40 --temperature 0.7)
search() { # OPTIONS...
	local kernel name
	mkdir -p "$dir/$arm-$seed"
	for kernel in "$dir"/test/${TEST:-*}.kernel.py; do
		name=$(basename "$kernel" .kernel.py)
		side start "$kernel" "$dir/$arm-$seed/$name.kernel.py" "$seed"
		tune "$dir/$arm-$seed/$name.kernel.py" "${kernel%.kernel.py}.task.py" "$dir/$arm-$seed/$name.json" --verdicts 12 "$@"
	done
}

mkdir -p "$dir"
case $arm in
data) data ;;
space) space "$seed" ;; # of data
fit) fit "${seed:-240}" ;;
plain) search --search plain --seed "$seed" ;;
policy) search "${model[@]}" --model "$dir/fit/final" ;;
untrained) search "${model[@]}" --model recipes/demo/start ;;
climb) search --search policy --policy_command "$python bench/learning/search_policy.py climb" ;;
table) side table "$dir" ;;
*) usage ;;
esac
