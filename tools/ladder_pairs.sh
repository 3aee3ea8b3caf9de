#!/bin/bash
# Writes verified pairs of all rungs of the ladder: tasks of seed 1, one answer each (the best choice for the task's sizes), in parts, so that a run that
# was stopped goes on where it was. Parts of a rung are drawn with different seeds; what the verifier does not call genuine is left out.
#
# usage: tools/ladder_pairs.sh [--out FILE] [--each N] [--part P] [--dir DIR] [--jobs J] [-- OPTIONS OF hone pairs synth]
#   FILE  ladder-pairs.jsonl.gz     N  tasks a rung (4100: 20,500 answers, of which 20,000 and more are to be admitted)     DIR  where parts lie
#   P     tasks of a part (250; another number is another set of tasks)
#   J     parts at once, each with its share of the cores (half the cores): a part begins with seconds on one core
set -euo pipefail
cd "$(dirname "$0")/.."
cores=$(nproc)
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} out=ladder-pairs.jsonl.gz each=4100 dir=build/ladder part=250 jobs=$(((cores + 1) / 2))
while [ $# -gt 0 ]; do
	case $1 in
	--out) out=$2 ;; --each) each=$2 ;; --dir) dir=$2 ;; --jobs) jobs=$2 ;; --part) part=$2 ;;
	--) shift; break ;;
	*) sed -n '5,8s/^# //p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
threads=$(((cores + jobs - 1) / jobs))

# make_part RUNG NUMBER COUNT FILE OPTIONS...
make_part() {
	local rung=$1 number=$2 count=$3 file=$4 tasks=${4%.jsonl.gz}.tasks.jsonl.gz store=${4%.jsonl.gz}.db; shift 4
	# The seed is part of a task's name, so that parts can be joined.
	"$hone" tasks synth --seed "$number" --rungs "$rung" --count_train "$count" --count_dev 0 --count_test 0 --out "$tasks"
	"$hone" pairs synth --tasks "$tasks" --prompt_template recipes/prompts/small-frontend.txt --chat_template plain --cost_size stock \
		--store "$store" --verify_threads "$threads" --out "$file" "$@"
	rm -f "$store"*   # verdicts of a part that was stopped are found again; of a whole one nobody asks
}

mkdir -p "$dir"
trap wait EXIT
parts=() running=0
# Rungs in turn, so that what a stopped run leaves is of all rungs.
for ((done = 0, number = 1; done < each; done += part, number++)); do
	for rung in T0 T1 T2 T3 T4; do
		count=$((each - done < part ? each - done : part))
		file=$dir/$rung-$number-$count.jsonl.gz
		parts+=("$file")
		[ -e "$file" ] && continue
		if [ "$running" -ge "$jobs" ]; then
			wait -n   # a part that fails ends the command; the others' parts are whole or not there
			running=$((running - 1))
		fi
		make_part "$rung" "$number" "$count" "$file" "$@" &
		running=$((running + 1))
	done
done
while [ "$running" -gt 0 ]; do
	wait -n
	running=$((running - 1))
done
cat "${parts[@]}" >"$out.tmp"   # gzip members simply follow one another
mv "$out.tmp" "$out"
"$python" tools/ladder_count.py "$out"
