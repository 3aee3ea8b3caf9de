#!/bin/sh
# `hone verify --emit`: what is written is judged genuine itself, gives the same program when it is
# emitted again, and refuses what it was not made for. timeout: 600
set -u
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # ok|not ok, name
	count=$((count + 1))
	echo "$1 $count - $2"
}

# Streams with events, a descriptor made on the host, keyword arguments with random draws, a table
# for each size, a name that hides an import.
for name in two_streams_joined_by_events host_tensor_descriptor_matmul keywords_cuda_and_draws lazy_torch_table constexpr_global; do
	folder=tests/known_good/$name
	"$HONE" verify --task $folder/task.py --candidate $folder/candidate.py --emit "$WORK/first.py" --threads 1 --seed 7 >"$WORK/out" 2>&1 &&
		grep -q "emitted to" "$WORK/out" && [ -s "$WORK/first.py" ] && check ok "$name: emitted" || { sed 's/^/# /' "$WORK/out"; check "not ok" "$name: emitted"; }
	# One entry a judged set of inputs: under the same seed the module is genuine at all of
	# them, and emitted itself.
	"$HONE" verify --task $folder/task.py --candidate "$WORK/first.py" --emit "$WORK/second.py" --threads 1 --seed 7 >"$WORK/out" 2>&1
	grep -q "genuine" "$WORK/out" && grep -q "emitted to" "$WORK/out" && check ok "$name: the module is genuine" || { sed 's/^/# /' "$WORK/out"; check "not ok" "$name: the module is genuine"; }
	rm -f "$WORK/first.py" "$WORK/second.py"
done

# Of the host code nothing is left, and other inputs than the judged ones are refused.
"$HONE" verify --task tests/exploits/workspace_kept/task.py --candidate tests/exploits/workspace_kept/twin.py --emit "$WORK/first.py" --threads 1 --seed 7 >"$WORK/out" 2>&1
grep -q "class ModelNew" "$WORK/first.py" && ! grep -q "self.ws" "$WORK/first.py" && check ok "no host code" || check "not ok" "no host code"
"$HONE" verify --task tests/exploits/workspace_kept/task.py --candidate "$WORK/first.py" --threads 1 --seed 8 >"$WORK/out" 2>&1
grep -q "made for the inputs" "$WORK/out" && check ok "other inputs are refused" || { sed 's/^/# /' "$WORK/out"; check "not ok" "other inputs are refused"; }

# A cheat is not emitted, and nothing is left of an attempt.
"$HONE" verify --task tests/exploits/ir_edited_text/task.py --candidate tests/exploits/ir_edited_text/candidate.py --emit "$WORK/cheat.py" --threads 1 >"$WORK/out" 2>&1
[ $? = 1 ] && [ ! -e "$WORK/cheat.py" ] && check ok "a cheat is not emitted" || check "not ok" "a cheat is not emitted"
"$HONE" verify --task tests/exploits/ir_edited_text/task.py --candidate tests/exploits --emit "$WORK/cheat.py" >"$WORK/out" 2>&1
[ $? = 2 ] && check ok "a folder is wrong usage" || check "not ok" "a folder is wrong usage"
echo "1..$count"
