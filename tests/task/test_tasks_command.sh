#!/bin/bash
# hone tasks from the outside: verbs, exit status, forms that convert into each other, and that the
# same options give the same bytes.
hone=${BUILD:-build/release}/hone
tmp=$(mktemp -d /tmp/hone-test-tasks-XXXXXX)
trap 'rm -rf "$tmp"' EXIT
n=0
check() { # name, command...: passes when the command succeeds
	local name=$1; shift; n=$((n + 1))
	if "$@" >"$tmp/out" 2>"$tmp/err"; then echo "ok $n - $name"; else echo "not ok $n - $name"; sed 's/^/# /' "$tmp/err" "$tmp/out"; fi
}
status() { # expected status, text in stderr, command...
	local want=$1 text=$2; shift 2
	"$@" >/dev/null 2>"$tmp/said"; local got=$?
	[ $got = "$want" ] && grep -q -- "$text" "$tmp/said" || { echo "status $got, expected $want with \"$text\"" >&2; cat "$tmp/said" >&2; return 1; }
}
synth() { "$hone" tasks synth --seed "$1" --count_train 40 --count_dev 4 --count_test 8 --level_min 1 --level_max 3 --out "$2"; }
count() { [ "$("$hone" tasks list "$@" --json | grep -c '"name"')" = "$want" ]; }
folder_is_whole() {
	"$hone" tasks import "$tmp/a.jsonl" --out "$tmp/tree" && "$hone" tasks import "$tmp/tree" --out "$tmp/c.jsonl" && cmp "$tmp/a.jsonl" "$tmp/c.jsonl"
}
rungs_are_whole() {
	"$hone" tasks synth --seed 5 --rungs T0,T2,T4 --count_train 9 --count_dev 0 --count_test 0 --out "$tmp/r.jsonl" &&
	"$hone" tasks import "$tmp/r.jsonl" --out "$tmp/rtree" && "$hone" tasks import "$tmp/rtree" --out "$tmp/r2.jsonl" && cmp "$tmp/r.jsonl" "$tmp/r2.jsonl" &&
	[ "$(grep -c '"rung":"T2"' "$tmp/r.jsonl")" = 3 ] && "$hone" tasks show "$tmp/r2.jsonl" synth-T4-5-000006 --answer --choice 0 | grep -q 'class ModelNew' &&
	status 1 "choice 9: expected 0 to" "$hone" tasks show "$tmp/r2.jsonl" synth-T4-5-000006 --answer --choice 9
}
duplicates_go() {
	local two=$tmp/two/level1
	mkdir -p "$two" && cp tasks/hand/level1/05_softmax_rows.py "$two/a.py" && sed 's/^N/N/; $a # a comment' "$two/a.py" >"$two/b.py" &&
	"$hone" tasks import "$tmp/two" --out "$tmp/two.jsonl" | grep -q '1 task .*1 duplicate '
}
answer_is_python() {
	local name
	name=$("$hone" tasks list "$tmp/a.jsonl" --level 2 | head -1 | cut -d' ' -f1)
	"$hone" tasks show "$tmp/a.jsonl" "$name" --answer --style 3 --slow | grep -q 'class ModelNew'
}
audit_says_ok() { "$hone" tasks audit "$tmp/two/level1/a.py" | grep -q ' ok  *stock$'; }
audit_says_useless() {
	cat >"$tmp/zero.py" <<-END
		import torch
		import torch.nn as nn
		N = 64
		class Model(nn.Module):
		    def forward(self, x):
		        return x * 0.0
		def get_inputs():
		    return [torch.randn(N)]
		def get_init_inputs():
		    return []
	END
	status 1 'tell nothing' "$hone" tasks audit "$tmp/zero.py"
}

echo 1..15
check "synth writes a set" synth 5 "$tmp/a.jsonl"
check "the same options give the same bytes" eval 'synth 5 "$tmp/b.jsonl" && cmp "$tmp/a.jsonl" "$tmp/b.jsonl"'
check "another seed gives another set" eval 'synth 6 "$tmp/b.jsonl" && ! cmp -s "$tmp/a.jsonl" "$tmp/b.jsonl"'
want=8 check "list chooses by split" count "$tmp/a.jsonl" --split test
want=17 check "list chooses by level" count "$tmp/a.jsonl" --level 2
check "a folder holds all that the file holds" folder_is_whole
check "tasks of rungs keep their rung in every form, and have answers" rungs_are_whole
check "a rung that there is not is status 2" status 2 'expected T0 to T4' "$hone" tasks synth --rungs T7 --out "$tmp/x.jsonl"
check "import leaves duplicates out" duplicates_go
check "show prints an answer" answer_is_python
check "wrong usage is status 2" eval 'status 2 "expected list" "$hone" tasks frob && status 2 "--out" "$hone" tasks synth &&
	status 2 "level_max.*1 to 3" "$hone" tasks synth --level_max 4 --out "$tmp/x"'
check "a missing set is status 1" status 1 'no such file' "$hone" tasks list "$tmp/none"
check "an unknown name is status 1" status 1 'no task named' "$hone" tasks show "$tmp/a.jsonl" nobody
check "audit passes a task that tells right from wrong" audit_says_ok
check "audit fails a task that zeros pass" audit_says_useless
