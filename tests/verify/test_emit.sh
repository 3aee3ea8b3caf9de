#!/bin/sh
# `hone verify --emit`: what is written is judged genuine itself, gives the same program when it is emitted again, and refuses what it was not made for. timeout: 300
set -u
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # ok|not ok, name
	count=$((count + 1))
	echo "$1 $count - $2"
}

for name in tuple_arguments_to_kernel batchnorm_eval workspace_reused; do
	folder=tests/known_good/$name
	"$HONE" verify --task $folder/task.py --candidate $folder/candidate.py --emit "$WORK/first.py" --threads 1 >"$WORK/out" 2>&1 &&
		grep -q "emitted to" "$WORK/out" && [ -s "$WORK/first.py" ] && check ok "$name: emitted" || { sed 's/^/# /' "$WORK/out"; check "not ok" "$name: emitted"; }
	# The module's own verdict fails at other sizes, for which it was not made: its stock sizes are right.
	"$HONE" verify --task $folder/task.py --candidate "$WORK/first.py" --threads 1 >"$WORK/out" 2>&1
	grep -q "genuine\|right for the task's own sizes only" "$WORK/out" && check ok "$name: the module is right" || { sed 's/^/# /' "$WORK/out"; check "not ok" "$name: the module is right"; }
	grep -q "class ModelNew" "$WORK/first.py" && ! grep -q "self.ws" "$WORK/first.py" && check ok "$name: no host code" || check "not ok" "$name: no host code"
	rm -f "$WORK/first.py"
done

# A cheat is not emitted, and nothing is left of an attempt.
"$HONE" verify --task tests/exploits/ir_edited_text/task.py --candidate tests/exploits/ir_edited_text/candidate.py --emit "$WORK/cheat.py" --threads 1 >"$WORK/out" 2>&1
[ $? = 1 ] && [ ! -e "$WORK/cheat.py" ] && check ok "a cheat is not emitted" || check "not ok" "a cheat is not emitted"
"$HONE" verify --task tests/exploits/ir_edited_text/task.py --candidate tests/exploits --emit "$WORK/cheat.py" >"$WORK/out" 2>&1
[ $? = 2 ] && check ok "a folder is wrong usage" || check "not ok" "a folder is wrong usage"
echo "1..$count"
