#!/bin/bash
# The written form of the sources. C has that of .clang-format by the pinned clang-format. No line
# is over 120 columns (tabs count 4), macros included, which clang-format leaves alone, and no prose
# over 100 (tools/prose.py), that of Markdown, shell and make included. Every function of 25 lines
# and more in src, worker, tests and the benches' C tells its steps (tools/steps.py). Names
# in Python mean something (tools/names.py). Candidates (tests/known_good, tests/exploits
# and those of tests/gpu) are left as they are: they stand for what strangers write, and
# verdicts name their lines.
# usage: tools/format.sh          writes the form of the C sources, and breaks wide prose
#        tools/format.sh --check  changes nothing, names what differs, ends
#                                 with 1 when something does
set -euo pipefail
cd "$(dirname "$0")/.."
clang_format=build/venv/bin/clang-format python=build/venv/bin/python
mapfile -t files < <(find src tests worker bench \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -type f | LC_ALL=C sort)
mapfile -t scripts < <(find tests worker bench tools -name '*.py' -type f \
	! -path 'tests/known_good/*' ! -path 'tests/exploits/*' ! -path 'tests/gpu/exploits/*' | LC_ALL=C sort)
mapfile -t shells < <(find . \( -path './build*' -o -path ./.git \) -prune -o \
	\( -name Makefile -o -path ./.ci/run -o -name '*.sh' -o -name '*.mk' \) -type f -printf '%P\n' | LC_ALL=C sort)
mapfile -t pages < <(find ./*.md docs bench tests -name '*.md' -type f | LC_ALL=C sort)
if [ "${1:-}" != --check ]; then
	"$python" tools/prose.py "${files[@]}" "${scripts[@]}" "${shells[@]}" "${pages[@]}"
	"$clang_format" -i "${files[@]}"
	exit
fi
breaches=0
for file in "${files[@]}"; do
	"$clang_format" "$file" | cmp -s - "$file" || { echo "$file: not in the form of .clang-format (make format)"; breaches=$((breaches + 1)); }
done
while read -r place; do
	echo "$place: over 120 columns"
	breaches=$((breaches + 1))
done < <(for file in "${files[@]}" "${scripts[@]}"; do
	expand -t 4 "$file" | LC_ALL=C.UTF-8 grep -nE '^.{121}' | sed "s|:.*||; s|^|$file:|" || true
done)
while read -r place; do
	echo "$place: prose over 100 columns (make format, or by hand where a line has columns of its own)"
	breaches=$((breaches + 1))
done < <("$python" tools/prose.py --check "${files[@]}" "${scripts[@]}" "${shells[@]}" "${pages[@]}")
mapfile -t told < <(printf '%s\n' "${files[@]}" "${scripts[@]}" | grep -E '^(src|worker|tests)/|^bench/.*\.(c|cu|h)$')
while read -r place; do
	echo "$place: a function of 25 lines or more that says nothing of its steps inside"
	breaches=$((breaches + 1))
done < <("$python" tools/steps.py "${told[@]}")
while read -r place; do
	echo "$place"
	breaches=$((breaches + 1))
done < <("$python" tools/names.py "${scripts[@]}")
[ $breaches -eq 0 ] || { echo "$breaches breaches of the written form in ${#files[@]} files and ${#scripts[@]} scripts"; exit 1; }
echo "${#files[@]} files are in the form of .clang-format; with ${#scripts[@]} scripts they are within 120 columns," \
	"with ${#shells[@]} of shell and make and ${#pages[@]} pages within 100 columns of prose"
