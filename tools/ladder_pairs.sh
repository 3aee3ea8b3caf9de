#!/bin/bash
# Writes verified pairs of all rungs of the ladder: one answer to each task (the best choice for its
# sizes), in parts, so that a run that was stopped goes on where it was. A part has as many tasks of
# every rung, drawn with a seed of its own; what the verifier does not call genuine is left out. All
# parts share one store: a kernel that two answers have in common is compiled once, and verdicts of
# a part that was stopped are found again.
#
# usage: tools/ladder_pairs.sh [--out FILE] [--each N] [--part P] [--dir DIR] [--jobs J]
#                              [--rungs RUNGS] [-- OPTIONS OF hone pairs synth]
#   FILE  ladder-pairs.jsonl.gz
#   N     tasks a rung (4100: 20,500 answers, of which 20,000 and more are to be admitted)
#   P     tasks of a rung in a part (100; another number is another set of tasks). A part begins
#         with nine seconds of one core
#   DIR   where parts lie
#   J     parts at once, each with its share of the cores (half the cores)
#   RUNGS T0,T1,T2,T3,T4
# With --count it makes nothing: it joins the parts that are there into FILE and counts them.
set -euo pipefail
cd "$(dirname "$0")/.."
cores=$(nproc)
hone=${HONE:-build/release/hone} python=${PYTHON:-build/venv/bin/python} out=ladder-pairs.jsonl.gz each=4100 dir=build/ladder part=100 count=
jobs=$(((cores + 1) / 2)) rungs=T0,T1,T2,T3,T4
while [ $# -gt 0 ]; do
	case $1 in
	--out) out=$2 ;; --each) each=$2 ;; --dir) dir=$2 ;; --jobs) jobs=$2 ;; --part) part=$2 ;; --rungs) rungs=$2 ;;
	--count) count=yes; shift; continue ;;
	--) shift; break ;;
	*) sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
threads=$(((cores + jobs - 1) / jobs))
commas=${rungs//[^,]/} nrungs=$((${#commas} + 1))

# make_part NUMBER TASKS_OF_A_RUNG FILE OPTIONS...
make_part() {
	local number=$1 count=$2 file=$3 tasks=${3%.jsonl.gz}.tasks.jsonl.gz; shift 3
	# The seed is part of a task's name, so that parts can be joined.
	"$hone" tasks synth --seed "$number" --rungs $rungs --count_train $((nrungs * count)) --count_dev 0 --count_test 0 --out "$tasks"
	"$hone" pairs synth --tasks "$tasks" --prompt_template recipes/prompts/small-frontend.txt --chat_template plain --cost_size stock \
		--store "$dir/verdicts.db" --verify_threads "$threads" --out "$file" "$@"
}

mkdir -p "$dir"
trap wait EXIT
parts=() running=0
for ((done = 0, number = 1; done < each; done += part, number++)); do
	tasks=$((each - done < part ? each - done : part))
	file=$dir/part-$number-$tasks.jsonl.gz
	parts+=("$file")
	[ -z "$count" ] && [ ! -e "$file" ] || continue
	if [ "$running" -ge "$jobs" ]; then
		wait -n   # a part that fails ends the command; the others' parts are whole or not there
		running=$((running - 1))
	fi
	make_part "$number" "$tasks" "$file" "$@" &
	running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
	wait -n
	running=$((running - 1))
done
there=()
for file in "${parts[@]}"; do [ ! -e "$file" ] || there+=("$file"); done
cat "${there[@]}" >"$out.tmp"   # gzip members simply follow one another
mv "$out.tmp" "$out"
"$python" tools/ladder_count.py "$out"
[ -n "$count" ] || rm -f "$dir/verdicts.db"*   # of a whole set nobody asks again
