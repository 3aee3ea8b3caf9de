#!/bin/bash
# Writes verified pairs of all rungs of the ladder: tasks of seed 1, one answer each (the best choice for the task's sizes), in parts of 250 tasks, so that
# a run that was stopped goes on where it was. Parts of a rung are drawn with different seeds; what the verifier does not call genuine is left out.
#
# usage: tools/ladder_pairs.sh [--out FILE] [--each N] [--dir DIR] [-- OPTIONS OF hone pairs synth]
#   FILE   ladder-pairs.jsonl.gz     N  tasks a rung (4100: 20,500 answers, of which 20,000 and more are to be admitted)     DIR  where parts lie
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${HONE:-build/release/hone} out=ladder-pairs.jsonl.gz each=4100 dir=build/ladder part=250
while [ $# -gt 0 ]; do
	case $1 in
	--out) out=$2 ;; --each) each=$2 ;; --styles) styles=$2 ;; --dir) dir=$2 ;;
	--) shift; break ;;
	*) sed -n '5,6s/^# //p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
mkdir -p "$dir"
parts=()
for rung in T0 T1 T2 T3 T4; do
	for ((done = 0, number = 1; done < each; done += part, number++)); do
		count=$((each - done < part ? each - done : part))
		name=$dir/$rung-$number-$count
		parts+=("$name.jsonl.gz")
		[ -e "$name.jsonl.gz" ] && continue
		# The seed is part of a task's name, so that parts can be joined.
		$hone tasks synth --seed "$number" --rungs $rung --count_train "$count" --count_dev 0 --count_test 0 --out "$name.tasks.jsonl.gz"
		$hone pairs synth --tasks "$name.tasks.jsonl.gz" --prompt_template recipes/prompts/small-frontend.txt --chat_template plain \
			--cost_size stock --store "$dir/cache.db" --out "$name.jsonl.gz" "$@"
	done
done
cat "${parts[@]}" >"$out.tmp"   # gzip members simply follow one another
mv "$out.tmp" "$out"
build/venv/bin/python tools/ladder_count.py "$out"
