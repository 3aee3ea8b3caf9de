#!/bin/bash
# A small table of evaluations, for people and (tables.json) for the report. usage: tools/demo_table.sh DIR NAME...
# reads DIR/NAME-greedy.json and DIR/NAME-sampled.json as `hone eval --json` prints them (one flat line; the few numbers wanted are cut out with sed).
set -euo pipefail
dir=$1; shift
# the first number of that name: counts of tasks by k come later under the same names
number() { grep -o "\"$2\": *[-0-9.e]*" "$1" | head -n 1 | sed 's/.*: *//'; }
printf '%-14s %14s %15s %15s %10s %12s\n' model 'greedy pass@1' 'sampled pass@1' 'sampled pass@4' tasks 'speedup'
rows=
for name in "$@"; do
	g=$dir/$name-greedy.json s=$dir/$name-sampled.json
	cells=("$(number "$g" pass@1)" "$(number "$s" pass@1)" "$(number "$s" pass@4)" "$(number "$g" tasks)" "$(number "$g" speedup_geomean)")
	printf '%-14s %14.3f %15.3f %15.3f %10d %12.3f\n' "$name" "${cells[@]}"
	rows+=${rows:+,}"[\"$name\",${cells[0]},${cells[1]},${cells[2]},${cells[3]},${cells[4]}]"
done
columns='"model","greedy pass@1","sampled pass@1","sampled pass@4","tasks (greedy)","speedup of genuine (geomean)"'
printf '[{"title":"Held-out tasks","columns":[%s],"rows":[%s]}]\n' "$columns" "$rows" >"$dir/tables.json"
