#!/bin/bash
# A small table of evaluations, for people and (tables.json) for the report.
# usage: tools/demo_table.sh DIR NAME...
# It reads DIR/NAME.json as `hone eval --json` prints it (one flat line; the few numbers wanted are
# cut out with sed).
set -euo pipefail
dir=$1; shift
# the first number of that name: counts of tasks by k come later under the same names
number() { { grep -o "\"$2\": *[-0-9.e]*" "$1" || true; } | head -n 1 | sed 's/.*: *//'; }
printf '%-20s %13s %6s %10s  %-20s %s\n' model 'greedy pass@1' tasks speedup difference 'to, 95 % interval over structures'
rows=
for name in "$@"; do
	file=$dir/$name.json
	cells=("$(number "$file" pass@1)" "$(number "$file" tasks)" "$(number "$file" speedup_geomean)")
	difference=$(number "$file" difference) to=
	[ -z "$difference" ] || to=$(grep -o '"to": *"[^"]*"' "$file" | sed 's/.*\///; s/\.jsonl"//')
	[ -z "$difference" ] || difference=$(printf '%+.3f [%+.3f, %+.3f]' "$difference" "$(number "$file" low)" "$(number "$file" high)")
	printf '%-20s %13.3f %6d %10.3f  %s %s\n' "$name" "${cells[@]}" "$difference" "$to"
	rows+=${rows:+,}"[\"$name\",${cells[0]},${cells[1]},${cells[2]},\"$difference${to:+ to }$to\"]"
done
columns='"model","greedy pass@1","tasks","speedup of genuine (geomean)","difference, 95 % interval over structures"'
printf '[{"title":"Held-out tasks","columns":[%s],"rows":[%s]}]\n' "$columns" "$rows" >"$dir/tables.json"
