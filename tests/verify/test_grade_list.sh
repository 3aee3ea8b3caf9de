#!/bin/sh
# bench/verify/grade_list: lines that name nothing readable are told, and the others have verdicts.
set -u
LIST=${BUILD:-build/release}/bench/verify/grade_list
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # exit status, name
	count=$((count + 1))
	[ "$1" = 0 ] && echo "ok $count - $2" || { sed 's/^/# /' "$WORK/out"; echo "not ok $count - $2"; }
}

folder=tests/exploits/workspace_kept
printf 'def get_inputs(): pass\n' >"$WORK/bare.py"
cat >"$WORK/list" <<END
{"id": "gone", "task": "$WORK/none.py", "candidate": "$folder/twin.py"}
{"id": "bare", "task": "$WORK/bare.py", "candidate": "$folder/twin.py"}
{"id": "judged", "task": "$folder/task.py", "candidate": "$WORK/bare.py"}
{"id": "no candidate", "task": "$folder/task.py"}
["no object"]
END
"$LIST" 1 6 <"$WORK/list" >"$WORK/out" 2>&1
[ $? = 1 ] && [ "$(grep -c '"error":' "$WORK/out")" = 4 ] && [ "$(grep -c . "$WORK/out")" = 5 ]
check $? "each line is told, and that some had no verdict"
grep '"judged"' "$WORK/out" | grep -q '"verdict":{"verdict":"invalid"'
check $? "one behind those that cannot be read has its verdict"
echo "1..$count"
