#!/bin/sh
# bench/verify/grade_list goes on behind a line that cannot be judged: it says which, and why.
set -u
# Workers that are warm: nothing is asked of their start.
[ "${WARM_WORKERS:-}" ] || exec build/venv/bin/python tests/warm_python.py "$0"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # what ended with 0 is ok, name
	[ "$1" = 0 ] && state=ok || state="not ok"
	count=$((count + 1))
	echo "$state $count - $2"
	[ "$1" = 0 ] || sed 's/^/# /' "$WORK/out" "$WORK/err"
}

folder=tests/exploits/workspace_kept
# Two good lines between others, the last of which has nothing behind it that could be awaited.
cat >"$WORK/list" <<LIST
{"id": "no task", "task": "$WORK/none.py", "candidate": "$folder/twin.py"}
{"id": "first", "task": "$folder/task.py", "candidate": "$folder/twin.py"}
["no object"]
{"id": broken
{"id": "last", "task": "$folder/task.py", "candidate": "$folder/twin.py"}
{"id": "no candidate", "task": "$folder/task.py", "candidate": "$WORK/none.py"}
{"id": "no fields"}
LIST
"${BUILD:-build/release}/bench/verify/grade_list" 1 6 <"$WORK/list" >"$WORK/out" 2>"$WORK/err"
check $(($? != 1)) "the exit status tells of lines that were not judged"
[ "$(grep -c '"verdict":{"verdict":"genuine"' "$WORK/out")" = 2 ]
check $? "the others are judged"
grep -q '"id":"no task".*"error":".*none.py: no such file' "$WORK/out" &&
	grep -q '"id":"no candidate".*"error":".*none.py: cannot open' "$WORK/out" &&
	grep -q '"id":"no fields","error":".*task' "$WORK/out"
check $? "an object says why it was not judged"
grep -q '^{"line":3,"error":"no object"}' "$WORK/out" && grep -q '^{"line":4,"error":"' "$WORK/out"
check $? "what is no object is known by its number"
[ "$(cat "$WORK/err")" = "grade_list: 5 lines could not be judged" ] && [ "$(wc -l <"$WORK/out")" = 7 ]
check $? "they are counted, and each line has one"
# Only lines that fail: nothing is awaited.
grep 'no task' "$WORK/list" | timeout 120 "${BUILD:-build/release}/bench/verify/grade_list" 1 6 >"$WORK/out" 2>"$WORK/err"
[ $? = 1 ] && [ "$(cat "$WORK/err")" = "grade_list: 1 lines could not be judged" ]
check $? "of such lines alone none is awaited"
echo "1..$count"
