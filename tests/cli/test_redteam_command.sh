#!/bin/bash
# hone redteam --against: exit status 0 accepts, any other refuses, and who crashes or does
# not end has said nothing.
set -uo pipefail
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi; }

echo 1..9
hone=$PWD/${BUILD:-build/release}/hone top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
cd "$top" || exit 1
cat >check.sh <<'END'
#!/bin/sh
[ -s "$1" ] && [ -s "$2" ] && [ "$MARK" = seen ] || exit 0
case $2 in *0.py) exit 0;; *1.py) kill -9 $$;; *2.py) sleep 60;; esac
exit 1
END
chmod +x check.sh
MARK=seen "$hone" redteam --count 10 --out files --against ./check.sh --timeout_s 1 >table 2>errors
check $(($? != 1)) "exit status 1 when something was accepted"
grep -Eq '^all +10 +1 +2 ' table || { cat table errors; false; }
check $? "one accepted, two without an answer"
awk '$2 ~ /^[0-9]+$/ && $1 != "all" { for (i = 2; i <= 4; i++) sum[i] += $i; rows++ }
	$1 == "all" { for (i = 2; i <= 4; i++) bad += sum[i] != $i } END { exit bad || rows < 2 }' table || { cat table; false; }
check $? "each candidate counts in its family's row"
grep -q '^not judged .*SIGKILL' table && grep -q '^not judged .*longer than 1 s' table || { cat table; false; }
check $? "why there is no answer"
[ "$(grep -c '^accepted ' table)" = 1 ] && [ "$(grep -c '^not judged ' table)" = 2 ] || { cat table; false; }
check $? "who was refused is not listed"
[ "$(wc -l <files/redteam.jsonl)" = 10 ]; check $? "the list names all files"
"$hone" redteam --count 2 --out files --against ./absent >none 2>&1
[ $? = 1 ] && grep -q 'absent: cannot be run' none || { cat none; false; }
check $? "a command that is not there is no verifier that refuses all"
# Without a Python the verifier fails at each candidate, which is no refusal of it.
HONE_PYTHON=/bin/false "$hone" redteam --count 2 >broken 2>&1
status=$?
grep -Eq '^all +2 +0 +2 ' broken || { cat broken; false; }
check $? "what the verifier itself fails at is not judged"
[ $status = 1 ] && grep -q '2 of 2 candidates were not judged; .hone doctor. says' broken || { cat broken; false; }
check $? "and then the command fails: nothing is known of them"
