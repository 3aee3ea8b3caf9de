#!/bin/bash
# Checks the arrows between rooms: every `#include "room/..."` under src must be allowed by src/rooms.mk, *_internal.h stays inside its room, and
# no two source files share a name (objects, archives and error messages speak of base names). Prints each breach; ends with 1 when there is one.
# usage: tools/arrows.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
export LC_ALL=C

find src -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort | awk '
function breach(text) { print text; breaches++ }
BEGIN {
	while ((getline line < "src/rooms.mk") > 0) {
		if (line !~ /^[A-Za-z_]+[ \t]*:=/) continue
		name = line; sub(/[ \t]*:=.*/, "", name)
		sub(/^[^=]*=/, "", line)
		n = split(line, words, /[ \t]+/)
		for (i = 1; i <= n; i++) {
			if (words[i] == "") continue
			if (name == "ROOMS") is_room[words[i]] = 1
			else if (name ~ /^USES_/) allowed[substr(name, 6) " " words[i]] = 1
		}
	}
	close("src/rooms.mk")
}
{
	path = $0
	n = split(path, part, "/")
	room = part[2]; base = part[n]
	if (base in first) breach(path ": has the same name as " first[base] "; rename one of them")
	else first[base] = path
	files++
	if (n < 3 || !(room in is_room)) { breach(path ": " (n < 3 ? "lies outside the rooms" : room " is not a room of src/rooms.mk")); next }
	number = 0
	while ((getline line < path) > 0) {
		number++
		if (line !~ /^[ \t]*#[ \t]*include[ \t]*"[^"]*\//) continue
		header = line; sub(/^[^"]*"/, "", header); sub(/".*/, "", header)
		to = header; sub(/\/.*/, "", to)
		where = path ":" number ": #include \"" header "\": "
		if (to == room) continue
		if (!(to in is_room)) breach(where to " is not a room of src/rooms.mk")
		else if (!((room " " to) in allowed)) breach(where "the arrow " room " -> " to " is not allowed by src/rooms.mk")
		else if (header ~ /_internal\.h$/) breach(where "this header is private to " to)
	}
	close(path)
}
END {
	if (!files) { print "no source files under src"; exit 1 }
	if (breaches) { print breaches " breaches of src/rooms.mk"; exit 1 }
	print files " files keep to src/rooms.mk"
}'
