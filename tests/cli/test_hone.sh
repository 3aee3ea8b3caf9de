#!/bin/bash
# hone's front door: the command table, exit codes, which stream gets what, and doctor.
set -uo pipefail
hone=$BUILD/hone
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' "$dir/out" "$dir/err"; fi; }
run() { "$@" >"$dir/out" 2>"$dir/err"; status=$?; }

echo 1..24
run "$hone"; [ $status -eq 2 ] && [ ! -s "$dir/out" ] && grep -q 'usage: hone' "$dir/err"; check $? "no command: usage on stderr, exit 2"
run "$hone" --help; [ $status -eq 0 ] && [ ! -s "$dir/err" ] && grep -q '^  doctor ' "$dir/out" && grep -q 'hone COMMAND --help' "$dir/out"; check $? "--help: commands on stdout"
missing=0
for file in src/cli/cmd_*.c; do name=${file#src/cli/cmd_}; grep -q "^  ${name%.c} " "$dir/out" || { echo "# ${name%.c} is not in the table"; missing=1; }; done
check $missing "every src/cli/cmd_*.c is in the table"
# Each command, and each of their own commands, says what it can be told and what it cannot.
commands=$(sed -n 's/^  \([a-z]\+\) .*/\1/p' "$dir/out" | sed -E 's/^tasks$/tasks list\ntasks show\ntasks synth\ntasks import\ntasks audit/; s/^pairs$/pairs synth\npairs check/; s/^bench$/bench\nbench text\nbench rl\nbench gpu\nbench verify/')
bad=0 wrong=0
while read -ra words; do
	run "$hone" "${words[@]}" --help
	[ $status -eq 0 ] && [ ! -s "$dir/err" ] && grep -q '^options' "$dir/out" && [ "$(wc -l <"$dir/out")" -ge 5 ] || { echo "# ${words[*]} --help: $status"; bad=1; }
	run "$hone" "${words[@]}" --no_such_option 1 </dev/null
	[ $status -eq 2 ] && [ ! -s "$dir/out" ] && grep -q -- "--no_such_option: unknown option" "$dir/err" || { echo "# ${words[*]} --no_such_option: $status"; wrong=1; }
done <<<"$commands"
check $bad "every command has --help: its options on stdout, exit 0"
check $wrong "every command refuses an unknown option by name, exit 2"
run "$hone" --version; [ $status -eq 0 ] && grep -qE '^hone [0-9]+\.[0-9]+\.[0-9]+$' "$dir/out"; check $? "--version"
run "$hone" docter; [ $status -eq 2 ] && grep -q 'did you mean "doctor"' "$dir/err"; check $? "an unknown command names the nearest"
run "$hone" zzzzzzzz; [ $status -eq 2 ] && grep -q 'hone --help' "$dir/err"; check $? "an unknown command without a neighbour points at --help"
run "$hone" help doctor; [ $status -eq 0 ] && grep -q -- '--json' "$dir/out"; check $? "help COMMAND lists its options"
run "$hone" doctor --jsom; [ $status -eq 2 ] && grep -q -- 'did you mean --json' "$dir/err"; check $? "an unknown option names the nearest"
run "$hone" doctor extra; [ $status -eq 2 ]; check $? "an unexpected word is wrong usage"
run "$hone" doctor; [ $status -le 1 ] && grep -q ' cpu ' "$dir/out" && grep -q ' triton ' "$dir/out"; check $? "doctor prints its rows"
grep -q 'driver 580 or later' "$dir/out" || grep -q ' gpu engine ' "$dir/out"; check $? "doctor names the driver that a GPU needs, or says how --device cuda stands"
# A driver that is too old, made for this test: what is found, what is needed, and the step to take;
# no fault of the machine's.
mkdir "$dir/driver"
for lib in libcuda libnvidia-ml; do gcc -shared -fPIC -o "$dir/driver/$lib.so.1" tests/cli/fake_driver.c; done
run env LD_LIBRARY_PATH="$dir/driver" FAKE_CUDA=12040 "$hone" doctor
grep -q 'NVIDIA A100-SXM4-80GB, compute capability 8.0, 80 GiB, driver for CUDA 12.4' "$dir/out" &&
	grep -q 'the driver 550.54.15 serves CUDA 12.4; --device cuda:0 needs one that serves CUDA 13.0' "$dir/out" &&
	grep -A1 'gpu engine' "$dir/out" | grep -q "fix: install NVIDIA's driver 580 or later"
check $? "doctor names an old driver, the one that is needed and what to do"
# Every card that the engine knows needs the same one: it is made with CUDA 13.
for card in "80:NVIDIA A100-SXM4-80GB" "89:NVIDIA GeForce RTX 4090" "89:NVIDIA L40S" "90:NVIDIA H200"; do
	run env LD_LIBRARY_PATH="$dir/driver" FAKE_CUDA=12080 FAKE_CAPABILITY="${card%%:*}" FAKE_GPU="${card#*:}" "$hone" doctor
	grep -q "${card#*:}, compute capability ${card:0:1}.${card:1:1}," "$dir/out" && grep -q 'serves CUDA 12.8; --device cuda:0 needs one that serves CUDA 13.0' "$dir/out" &&
		grep -A1 'gpu engine' "$dir/out" | grep -q "fix: install NVIDIA's driver 580 or later"
	check $? "and of an ${card#*:}"
done
run "$hone" doctor --json
build/venv/bin/python - "$dir/out" $status <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
rows = {row["name"]: row for row in report["rows"]}
assert report["ok"] == (sys.argv[2] == "0") == all(row["state"] != "missing" for row in report["rows"])
assert {"cpu", "cores", "memory", "gemm", "gpu", "sandbox", "runner", "sandbox library", "python", "torch", "triton", "numpy"} <= set(rows)
import torch, triton, numpy
assert rows["torch"]["value"].split("+")[0] == torch.__version__.split("+")[0], rows["torch"]
assert rows["triton"]["value"] == triton.__version__ and rows["numpy"]["value"] == numpy.__version__
PY
check $? "doctor --json is true: versions are those that Python imports"
# What HONE_PYTHON names is looked at itself, not only the packages that would lie beside it.
for named in /nonexistent/python /usr/bin python-of-nowhere; do
	run env HONE_PYTHON=$named "$hone" doctor
	[ $status -eq 1 ] && grep "^MISSING  python  *$named is no program that can be started" "$dir/out" >/dev/null && ! grep -q '^ok *python' "$dir/out"
	check $? "doctor says that HONE_PYTHON=$named is missing"
done
# A folder of mktemp is closed to others, as root's home is.
if [ "$(id -u)" -eq 0 ]; then
	ln -s "$PWD/build/venv" "$dir/venv"
	run env HONE_PYTHON="$dir/venv/bin/python" "$hone" doctor
	[ $status -eq 1 ] && grep "^MISSING  python .*others may not pass $dir\$" "$dir/out" >/dev/null && grep -q 'chmod o+x' "$dir/out"
	check $? "doctor names the folder that keeps candidates from Python"
else
	number=$((number + 1)); echo "ok $number - doctor names the folder that keeps candidates from Python # SKIP not root"
fi
"$hone" --help >/dev/full 2>"$dir/err"; [ $? -eq 1 ] && grep -q stdout "$dir/err"; check $? "results that cannot be written are a failure"
