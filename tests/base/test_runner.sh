#!/bin/bash
# The runner, tests/run.sh, on a folder of programs that pass, fail, skip, crash, hang, lie about
# their plan and leave processes behind.
# What it must say and its exit status are spelled out here; this script does not use it on itself.
set -uo pipefail
home=$PWD
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' "$root/out"; fi; }

mkdir -p "$root/tests/a" "$root/build/x/tests/a" "$root/build/venv/bin"
cp tests/run.sh "$root/tests/"
ln -s "$home/build/venv/bin/python" "$root/build/venv/bin/python"
# script NAME BODY
script() { printf '#!/bin/bash\n%s\n' "$2" >"$root/tests/a/$1"; chmod +x "$root/tests/a/$1"; }
run() { (cd /; BUILD=build/x "$root/tests/run.sh" "$@") >"$root/out" 2>&1; status=$?; last=$(tail -n 1 "$root/out"); }
clean() { rm -rf "$root/tests/a" "$root/build/x"; mkdir -p "$root/tests/a" "$root/build/x/tests/a"; }
said() { grep -qF -- "$1" "$root/out"; }

echo 1..17
run; [ $status -eq 1 ] && [ "$last" = "0 passed, 0 failed, 0 skipped" ]; check $? "no test at all is a failure"

script test_good.sh 'echo 1..2; echo "ok 1 - x"; echo "# note"; echo ok'
cat >"$root/tests/a/test_py.py" <<'END'
import os
print("1..1")
print("ok 1 - py" if os.environ["BUILD"] == "build/x" and os.path.isdir("tests/a") else "not ok 1")
END
printf '/* a C test */\n' >"$root/tests/a/test_c.c"; cp "$root/tests/a/test_good.sh" "$root/build/x/tests/a/test_c"
run; [ $status -eq 0 ] && [ "$last" = "5 passed, 0 failed, 0 skipped" ]; check $? "scripts, Python and programs pass, from any folder"
run --list; [ $status -eq 0 ] && [ "$(cat "$root/out")" = $'a/test_c\na/test_good.sh\na/test_py.py' ]; check $? "--list"
run --filter 'test_[gp]'; [ "$last" = "3 passed, 0 failed, 0 skipped" ]; check $? "--filter takes a glob"
run --filter nothing; [ $status -eq 1 ] && said "no test matches"; check $? "a filter that matches nothing is a failure"
run --programs; [ "$last" = "2 passed, 0 failed, 0 skipped" ]; check $? "--programs"
rm "$root/build/x/tests/a/test_c"
run; [ $status -eq 1 ] && [ "$last" = "3 passed, 1 failed, 0 skipped" ] && said "not built"; check $? "a program that was not built is a failure"
run --nonsense; [ $status -eq 2 ]; check $? "wrong usage"

one() { clean; script test_one.sh "$1"; shift; run "$@"; }
one 'echo 1..3; echo "ok 1 - x"; echo "not ok 2 - y"; echo "# why"; echo "ok 3 - z # SKIP no GPU"; exit 1'
[ $status -eq 1 ] && [ "$last" = "1 passed, 1 failed, 1 skipped" ] && said "a/test_one.sh: y" && said "z # SKIP no GPU" && said "# why"
check $? "failures and skips are counted and shown"
one 'echo 1..2; echo ok 1; echo "not ok 2 - y"; exit 0'
[ $status -eq 1 ] && [ "$last" = "1 passed, 1 failed, 0 skipped" ]; check $? "not ok with exit status 0 still fails"
one 'echo 1..1; echo ok 1; exit 3'; [ $status -eq 1 ] && said "exit status 3 although no test failed"; check $? "a bad exit status without not ok fails"
one 'echo 1..2; echo ok 1; echo last words >&2; kill -SEGV $$'
[ "$last" = "1 passed, 2 failed, 0 skipped" ] && said "killed by signal 11 (SEGV)" && said "planned 2 results, printed 1" && said "last words"
check $? "a crash and the missing results are two failures, with the log"
one 'echo ok 1'; [ "$last" = "1 passed, 1 failed, 0 skipped" ] && said "no plan"; check $? "no plan is a failure"
one 'echo 1..1; echo ok 1; echo ok 2'; [ $status -eq 1 ] && said "planned 1 results, printed 2"; check $? "more results than planned are a failure"
one 'echo "1..0 # SKIP needs a GPU"'
[ $status -eq 1 ] && [ "$last" = "0 passed, 0 failed, 1 skipped" ] && said "needs a GPU"; check $? "skips alone are no success"

# The hanging test ignores TERM and has a child that holds a file name we can look for.
marker="sleep 987$$"
one "trap '' TERM; echo 1..1; $marker & while :; do sleep 1; done" --timeout 1
[ $status -eq 1 ] && said "timeout after 1 s" && ! pgrep -fx "$marker" >/dev/null; check $? "a hanging test and its children are killed"
one "# timeout: 9
(trap '' HUP TERM; exec $marker) & sleep 2; echo 1..1; echo ok 1" --timeout 1
[ $status -eq 0 ] && ! pgrep -fx "$marker" >/dev/null; check $? "a declared timeout is honoured, and what a test leaves behind is killed"
