#!/bin/bash
# Checks the arrows between rooms. Named, each with its file and line:
#   - an #include "room/..." under src that src/rooms.mk does not allow, or of another room's
#     private header (*_internal.h, or one in a folder of the room);
#   - the same between the folders of a room, where rooms.mk gives them arrows (USES_room/folder);
#   - a file that uses a name of another room's header without including that header itself (it has
#     it through another header, which may stop giving it);
#   - an include of which no name is used;
#   - an arrow of rooms.mk that no include needs, and rooms or folders that use each other in a
#     circle;
#   - two source files of one name (objects, archives and error messages speak of base names).
# Ends with 1 when there is any.
# usage: tools/arrows.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
export LC_ALL=C

# One line a fact, read by the second program below:
#   file PATH | include PATH LINE HEADER | declares PATH NAME |
#   forward PATH NAME | uses PATH LINE NAME
# A tag is written "struct:NAME", whatever kind of tag it is (tags have one name
# space), a member "member:NAME".
facts() {
	find src -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort | awk '
# The line without comments and with empty strings; block comments may reach over lines.
function code_of(line,    out, at) {
	out = ""
	while (line != "") {
		if (in_comment) {
			at = index(line, "*/")
			if (!at) return out
			line = substr(line, at + 2); in_comment = 0; out = out " "
		} else if (match(line, /\/\*|\/\/|"|\047/)) {
			out = out substr(line, 1, RSTART - 1)
			if (substr(line, RSTART, 2) == "//") return out
			if (substr(line, RSTART, 2) == "/*") { in_comment = 1; line = substr(line, RSTART + 2) }
			else {
				line = substr(line, RSTART)
				if (!match(line, /^"([^"\\]|\\.)*"|^\047([^\047\\]|\\.)*\047/)) return out   # hone writes no string over two lines
				line = substr(line, RLENGTH + 1); out = out "0"
			}
		} else { out = out line; line = "" }
	}
	return out
}
function declare(name) { if (is_header && name != "" && !((path, name) in declared)) { declared[path, name] = 1; print "declares " path " " name } }
function use(name) { if (!((path, name) in used)) { used[path, name] = 1; print "uses " path " " number " " name } }

# One token of the code outside of preprocessor lines. Follows braces and parentheses far enough to
# see what a header declares at file scope.
function token(t, is_word) {
	if (is_word) {
		if (before ~ /^(struct|union|enum)$/) use("struct:" t)
		else if (before == "." || before == "->") use("member:" t)
		else use(t)
		if (depth == 1 && in_enum && parens == 0 && !after_equals) pending = t
	}
	if (depth == 0 && parens == 0) {
		if (t == "(") {
			if (!named && before ~ /^[A-Za-z_]/ && before != "__attribute__") { named = 1; called = before }
		} else if (t == "{") {
			in_enum = 0
			if (before == "enum" || before2 == "enum") in_enum = 1
			if (before2 ~ /^(struct|union|enum)$/) declare("struct:" before)
		} else if (t == ";" || t == "," || t == "[" || t == "=") {
			if (!named && before2 ~ /^(struct|union|enum)$/ && t == ";" && words == 2) { if (is_header) print "forward " path " struct:" before }
			else if (!named && before ~ /^[A-Za-z_]/) { declare(before); if (t == "[" || t == "=") named = 2 }
			if (t == "," && named == 2) named = 0
		}
	}
	if (called != "" && t != "(") { if (t == "*") named = 3; else declare(called); called = "" }   # typedef int (*name)(...)
	else if (named == 3 && is_word) { named = 1; declare(t) }
	if (in_enum && depth == 1 && parens == 0) {
		if (t == "=") { declare(pending); pending = ""; after_equals = 1 }
		else if (t == "," || t == "}") { declare(pending); pending = ""; after_equals = 0 }
	}
	if (depth && !in_enum && (t == ";" || t == "," || t == "[" || t == ":") && before ~ /^[A-Za-z_]/) declare("member:" before)
	if (t == "(") parens++
	else if (t == ")") { if (parens) parens-- }
	else if (t == "{") { depth++ }
	else if (t == "}") {
		if (depth) depth--
		if (!depth) { in_enum = 0; if (named == 1) { named = 0; words = -1 } }   # the end of a function
	}
	if (t == ";" && depth == 0 && parens == 0) { named = 0; words = -1; before = before2 = "" }
	words++
	before2 = before; before = t
}
function tokens(line,    word) {
	while (match(line, /[A-Za-z_][A-Za-z0-9_]*|->|[^ \t]/)) {
		word = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
		if (word ~ /^[0-9]/ && match(line, /^[A-Za-z0-9_.]+/)) line = substr(line, RLENGTH + 1)   # 0x1f, 1e9f: no names
		token(word, word ~ /^[A-Za-z_]/)
	}
}
# A preprocessor line: a macro declares its name and uses those of its text; X(NAME, ...)
# in a table declares NAME.
function directive(line,    name) {
	if (depth == 0 && parens == 0) { named = words = 0; before = before2 = "" }   # a table that was written out ends here, without a semicolon
	if (line ~ /^[ \t]*#[ \t]*define/) {
		sub(/^[ \t]*#[ \t]*define[ \t]+/, "", line)
		match(line, /^[A-Za-z_][A-Za-z0-9_]*/)
		name = substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
		if (name !~ /^HONE_[A-Z0-9_]*_H$/) declare(name)
		if (line ~ /^[(]/) sub(/^[^)]*[)]/, "", line)   # the parameters are no names of the header
	}
	gsub(/->/, ".", line)
	while (match(line, /[.]?[A-Za-z_][A-Za-z0-9_]*|[(]/)) {
		name = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
		if (name == "(") { if (last_word == "X" && match(line, /^[A-Za-z_][A-Za-z0-9_]*,/)) declare(substr(line, 1, RLENGTH - 1)) }
		else if (name !~ /^[.]/) use(last_word ~ /^(struct|union|enum)$/ ? "struct:" name : name)
		last_word = name
	}
}
{
	path = $0; number = 0; in_comment = depth = parens = named = words = in_enum = after_equals = in_directive = 0
	before = before2 = pending = last_word = called = ""
	is_header = path ~ /\.(h|cuh)$/
	print "file " path
	while ((getline line < path) > 0) {
		number++
		if (!in_comment && !in_directive && line ~ /^[ \t]*#[ \t]*include/) {
			if (line ~ /"[^"]*\/[^"]*"/) { sub(/^[^"]*"/, "", line); sub(/".*/, "", line); print "include " path " " number " " line }
			continue
		}
		text = code_of(line)
		if (in_directive || text ~ /^[ \t]*#/) { in_directive = text ~ /\\$/; directive(text) }
		else tokens(text)
	}
	close(path)
}'
}

facts | awk '
function breach(text) { print text; breaches++ }
function room_of(path,    part) { split(path, part, "/"); return part[2] }
# "vm/exec" of src/vm/exec/exec.h where rooms.mk gives that folder arrows, else the room.
function place_of(path,    part, n) { n = split(path, part, "/"); return n > 3 && (part[2] "/" part[3]) in is_place ? part[2] "/" part[3] : part[2] }
# Whether `path` uses a name of `header`, or of one that it gives within their room: a room may have
# one header that gathers its others.
function gives(path, header,    i, n, list) {
	if (header in is_looked_at) return 0
	is_looked_at[header] = 1
	if ((path, header) in is_used) return 1
	if (crosses(path, header)) return 0
	if (path ~ /\.(h|cuh)$/) return 1
	n = split(includes[header], list, " ")
	for (i = 1; i <= n; i++) if (room_of(list[i]) == room_of(path) && gives(path, list[i])) return 1
	return 0
}
function looked(path, header) { split("", is_looked_at); return gives(path, header) }
# Between rooms, and between folders of one room, what a file uses it includes itself; inside of
# them headers may give each other.
function crosses(a, b) { return room_of(a) != room_of(b) || (place_of(a) != place_of(b) && index(place_of(a), "/") && index(place_of(b), "/")) }
function reach(file, from,    i, n, list) {
	if ((file, from) in reached) return
	reached[file, from] = 1
	n = split(includes[from], list, " ")
	for (i = 1; i <= n; i++) reach(file, list[i])
}
# A circle through `to`, or "": depth first over the arrows.
function circle(to, way, seen,    i, n, list, found) {
	n = split(uses[to], list, " ")
	for (i = 1; i <= n; i++) {
		if (list[i] == seen) return way " -> " list[i]
		if (list[i] in visited) continue
		visited[list[i]] = 1
		if ((found = circle(list[i], way " -> " list[i], seen)) != "") return found
	}
	return ""
}
BEGIN {
	while ((getline line < "src/rooms.mk") > 0) {
		if (line !~ /^[A-Za-z_\/]+[ \t]*:=/) continue
		name = line; sub(/[ \t]*:=.*/, "", name)
		sub(/^[^=]*=/, "", line)
		n = split(line, words, /[ \t]+/)
		if (name ~ /^USES_.*\//) is_place[substr(name, 6)] = 1
		for (i = 1; i <= n; i++) {
			if (words[i] == "") continue
			if (name == "ROOMS") { is_room[words[i]] = 1; is_place[words[i]] = 1 }
			else if (name ~ /^USES_/) { allowed[substr(name, 6) " " words[i]] = 1; uses[substr(name, 6)] = uses[substr(name, 6)] " " words[i] }
		}
	}
	close("src/rooms.mk")
	for (place in is_place) { split("", visited); if ((found = circle(place, place, place)) != "") breach("src/rooms.mk: a circle: " found) }
}
$1 == "file" {
	n = split($2, part, "/"); base = part[n]
	if (base in first) breach($2 ": has the same name as " first[base] "; rename one of them")
	else first[base] = $2
	files++
	is_file[$2] = 1
	if (n < 3 || !(part[2] in is_room)) breach($2 ": " (n < 3 ? "lies outside the rooms" : part[2] " is not a room of src/rooms.mk"))
}
$1 == "include" {
	path = $2; header = $4; to = header; sub(/\/.*/, "", to)
	from = room_of(path)
	where = path ":" $3 ": #include \"" header "\": "
	includes[path] = includes[path] " src/" header
	line_of[path, "src/" header] = $3
	here = place_of(path); there = place_of("src/" header)
	if (!(to in is_room)) { breach(where to " is not a room of src/rooms.mk"); next }
	if (to != from) {
		needed[from " " to] = 1
		if (!((from " " to) in allowed)) breach(where "the arrow " from " -> " to " is not allowed by src/rooms.mk")
		else if (header ~ /_internal\.h$/ || header ~ /\/.*\//) breach(where "this header is private to " to)
	} else if (here != there && index(here, "/") && index(there, "/")) {
		needed[here " " there] = 1
		if (!((here " " there) in allowed)) breach(where "the arrow " here " -> " there " is not allowed by src/rooms.mk")
	}
}
$1 == "declares" { owner[$3] = $3 in owner ? owner[$3] " " $2 : $2 }
$1 == "forward" { forward[$3] = forward[$3] " " $2 }
$1 == "uses" { used[$2] = used[$2] " " $4; use_line[$2, $4] = $3 }
END {
	if (!files) { print "no source files under src"; exit 1 }
	# What a tag stands for may be private: then it belongs to the headers that name it.
	for (tag in forward) owner[tag] = owner[tag] forward[tag]
	for (path in is_file) {
		reach(path, path)
		n = split(used[path], names, " ")
		for (i = 1; i <= n; i++) {
			m = split(owner[names[i]], owners, " ")
			is_direct = names[i] ~ /^member:/   # the type of what it is a member of may be of many headers
			given = ""
			for (j = 1; j <= m; j++) {
				if ((path, owners[j]) in reached) is_used[path, owners[j]] = 1
				if (owners[j] == path || (path, owners[j]) in line_of) is_direct = 1
				else if ((path, owners[j]) in reached) given = owners[j]
			}
			if (!is_direct && given != "" && crosses(path, given) && !((path, given) in missing)) {
				missing[path, given] = 1; shown = names[i]; sub(/^struct:/, "", shown); shown_header = given; sub(/^src\//, "", shown_header)
				breach(path ":" use_line[path, names[i]] ": uses " shown " of \"" shown_header "\" without including it")
			}
		}
		# An include is used by a name of that header or, inside of the room, of a header
		# of the room that it gives.
		n = split(includes[path], direct, " ")
		for (i = 1; i <= n; i++)
			if (direct[i] in is_file && !looked(path, direct[i])) {
				shown_header = direct[i]; sub(/^src\//, "", shown_header)
				breach(path ":" line_of[path, direct[i]] ": #include \"" shown_header "\": no name of it is used")
			}
	}
	for (arrow in allowed) if (!(arrow in needed)) { split(arrow, end, " "); breach("src/rooms.mk: the arrow " end[1] " -> " end[2] " is used by no file") }
	if (breaches) { print breaches " breaches of src/rooms.mk"; exit 1 }
	print files " files keep to src/rooms.mk"
}' | sort -V
exit "${PIPESTATUS[1]}"
