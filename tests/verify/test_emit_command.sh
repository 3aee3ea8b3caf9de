#!/bin/sh
# `hone verify --emit`, the command: it writes the module and says so, and what it does not write it
# refuses. What is written: test_emit.c.
set -u
# Workers that are warm: nothing is asked of their start.
[ "${WARM_WORKERS:-}" ] || exec build/venv/bin/python tests/warm_python.py "$0"
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # ok|not ok, name
	count=$((count + 1))
	echo "$1 $count - $2"
}

# Under secrets 6 and 11 one size of this task has one trial, in which all programs find the same
# maximum of a few block maxima: no condition that it hides.
folder=tests/exploits/workspace_kept
"$HONE" verify --task $folder/task.py --candidate $folder/twin.py --emit "$WORK/module.py" --threads 1 --seed 6 >"$WORK/out" 2>&1 &&
	grep -q "emitted to $WORK/module.py" "$WORK/out" && grep -q "class ModelNew" "$WORK/module.py" && check ok "a module is written" || { sed 's/^/# /' "$WORK/out"; check "not ok" "a module is written"; }
"$HONE" verify --task $folder/task.py --candidate tests/exploits --emit "$WORK/other.py" >"$WORK/out" 2>&1
[ $? = 2 ] && [ ! -e "$WORK/other.py" ] && check ok "a folder is wrong usage" || check "not ok" "a folder is wrong usage"
mkfifo "$WORK/pipe"
"$HONE" verify --task $folder/task.py --candidate $folder/twin.py --emit "$WORK/pipe" >"$WORK/out" 2>&1
[ $? = 2 ] && [ -p "$WORK/pipe" ] && check ok "a pipe stays one" || check "not ok" "a pipe stays one"
# A name that leaves no room for the file beside it: it cannot be written, as on a full disk.
name=$(printf '%0250d' 0)
"$HONE" verify --task $folder/task.py --candidate $folder/twin.py --emit "$WORK/$name" --threads 1 --seed 11 >"$WORK/out" 2>&1
[ $? = 2 ] && grep -q "genuine" "$WORK/out" && grep -q "not emitted" "$WORK/out" && check ok "what was not written is no success" || { sed 's/^/# /' "$WORK/out"; check "not ok" "what was not written is no success"; }
echo "1..$count"
