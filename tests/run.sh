#!/bin/bash
# The test runner. Finds the C programs of $BUILD/tests (one for each tests/<room>/test_<name>.c),
# and the scripts tests/<room>/test_*.sh and .py; runs each from the repository root in a session of
# its own, two at a time, and reads their TAP. A program counts one more failure for each of: a
# crash or a bad exit status without `not ok`, the timeout, no plan, another number of results than
# planned, a source that was not built. Logs stay in $BUILD/test-logs. The last line is `N passed, N
# failed, N skipped`; the exit status is 1 on any failure or when nothing ran.
#
# usage: tests/run.sh [--list] [--filter PATTERN] [--test NAME] [--timeout S] [--programs]
#   --filter PATTERN   only tests whose name (room/test_name) contains the glob PATTERN
#   --test NAME        only the test of this very name
#   --timeout S        seconds for one program (300); a script or source with `timeout: S` in its
#                      first five lines may take longer
#   --programs         C programs only
set -uo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build/release}
python=build/venv/bin/python
filter='' only='' list=no limit=300 scripts=yes jobs_max=2
logs=$BUILD/test-logs

usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

while [ $# -gt 0 ]; do
	case $1 in
	--list) list=yes ;;
	--filter) filter=${2?--filter needs a pattern}; shift ;;
	--test) only=${2?--test needs a name}; shift ;;
	--timeout) limit=${2?--timeout needs seconds}; shift ;;
	--programs) scripts=no ;;
	*) usage ;;
	esac
	shift
done
[[ $limit =~ ^[0-9]+$ ]] || usage

# name<TAB>source, in byte order
find_tests() {
	local source name
	for source in tests/*/test_*.c; do
		[ -e "$source" ] && name=${source#tests/} && printf '%s\t%s\n' "${name%.c}" "$source"
	done
	[ $scripts = yes ] && for source in tests/*/test_*.sh tests/*/test_*.py; do
		[ -e "$source" ] && printf '%s\t%s\n' "${source#tests/}" "$source"
	done
	return 0
}

seconds_for() {
	local own
	own=$(sed -n '1,5s/.*timeout: \([0-9][0-9]*\).*/\1/p' "$1" | head -n 1)
	[ -n "$own" ] && [ "$own" -gt "$limit" ] && echo "$own" || echo "$limit"
}

# Runs one test; leaves NAME.out, NAME.err and NAME.end ("exit status" or "timeout S" or "unbuilt").
run_one() {
	local name=$1 source=$2 log=$logs/${1//\//.} seconds pid status start=$SECONDS
	local -a command
	case $source in
	*.c) command=("$BUILD/tests/$name") ;;
	*.py) command=("$python" "$source") ;;
	*) command=("$source") ;;
	esac
	: >"$log.out"; : >"$log.err"
	if [ ! -x "${command[0]}" ]; then echo "cannot run ${command[0]}: not built, or not executable" >"$log.end"; return; fi
	seconds=$(seconds_for "$source")
	# timeout(1) leads the session: it sends TERM and then KILL to the whole group, and what a test
	# leaves behind is killed after it.
	setsid timeout --kill-after=5 "$seconds" "${command[@]}" >"$log.out" 2>"$log.err" </dev/null &
	pid=$!
	trap 'kill -KILL -- -$pid 2>/dev/null; exit 1' TERM
	wait "$pid"; status=$?
	kill -KILL -- "-$pid" 2>/dev/null
	echo $((SECONDS - start)) >"$log.seconds"
	if [ $status -eq 124 ] || { [ $status -eq 137 ] && [ $((SECONDS - start)) -ge "$seconds" ]; }; then echo "timeout after $seconds s" >"$log.end"
	elif [ $status -gt 128 ]; then echo "killed by signal $((status - 128)) ($(kill -l $((status - 128)) 2>/dev/null))" >"$log.end"
	else echo "$status" >"$log.end"; fi
}

# Reads one TAP stream: prints "pass", "fail TEXT" or "skip TEXT" lines. $1
# is how the program ended.
read_tap() {
	awk -v end="$1" '
	/^1\.\.[0-9]+/ {
		plans++; n = substr($1, 4) + 0; planned += n
		if (n == 0) { reason = $0; sub(/^1\.\.0[ #]*/, "", reason); print "skip whole program: " (reason == "" ? "no reason given" : reason) }
		next
	}
	/^(not )?ok([ \t]|$)/ {
		seen++
		text = $0; sub(/^(not )?ok[ \t]*[0-9]*[ \t]*(- )?/, "", text)
		if (tolower($0) ~ /# *skip/) print "skip " text
		else if ($0 ~ /^ok/) print "pass"
		else { print "fail " text; failed++ }
		next
	}
	/^Bail out!/ { print "fail " $0; failed++ }
	END {
		if (end !~ /^[0-9]+$/) print "fail " end
		if (end ~ /^cannot run/) exit
		if (end ~ /^[1-9]/ && !failed) print "fail exit status " end " although no test failed"
		if (!plans) print "fail printed no plan (1..N)"
		else if (seen != planned) print "fail planned " planned " results, printed " seen + 0
	}' "$2"
}

passed=0 failed=0 skipped=0 failures=() skips=()

# Adds one finished test to the totals.
account() {
	local name=$1 log=$logs/${1//\//.} kind text good=0 bad=0 end seconds
	seconds=$(cat "$log.seconds" 2>/dev/null)
	end=$(cat "$log.end" 2>/dev/null || echo 'the runner lost it')
	while read -r kind text; do
		case $kind in
		pass) good=$((good + 1)) ;;
		skip) skipped=$((skipped + 1)); skips+=("$name: $text") ;;
		fail) bad=$((bad + 1)); failures+=("$name: $text") ;;
		esac
	done < <(read_tap "$end" "$log.out")
	passed=$((passed + good)); failed=$((failed + bad))
	[ $bad -eq 0 ] && { echo "ok   $name ($good, $seconds s)"; return; }
	echo "FAIL $name ($good passed, $bad failed, $seconds s)"
	grep -A 12 -E '^not ok|^Bail out' "$log.out" | head -n 60 | sed 's/^/     | /'
	{ tail -n 12 "$log.out"; tail -n 40 "$log.err"; } | sed 's/^/     > /'
}

mapfile -t tests < <(find_tests | LC_ALL=C sort)
mkdir -p "$logs"
names=()
running=()
trap 'for p in "${running[@]}"; do kill -TERM "$p" 2>/dev/null; done; exit 130' INT TERM
for row in "${tests[@]}"; do
	name=${row%%$'\t'*} source=${row#*$'\t'}
	# shellcheck disable=SC2053  # the pattern is meant to be a glob
	[[ $name == *$filter* ]] && [[ -z $only || $name == "$only" ]] || continue
	if [ $list = yes ]; then echo "$name"; continue; fi
	names+=("$name")
	rm -f "$logs/${name//\//.}".*
	while [ "$(jobs -rp | wc -l)" -ge $jobs_max ]; do wait -n; done
	run_one "$name" "$source" &
	running+=($!)
done
[ $list = yes ] && exit 0
wait
for name in "${names[@]}"; do account "$name"; done

[ ${#skips[@]} -gt 0 ] && { echo; echo 'skipped:'; printf '  %s\n' "${skips[@]}"; }
[ ${#failures[@]} -gt 0 ] && { echo; echo 'failed:'; printf '  %s\n' "${failures[@]}"; }
[ ${#names[@]} -eq 0 ] && echo "no test matches '$filter$only'"
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
