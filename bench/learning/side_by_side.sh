#!/bin/bash
# All arms of the studies s5 (chain.sh), s6 (levels.sh) and after (midend_after.sh), and three
# seeds of midend.sh, side by side on a machine with many cores: 323 minutes of one core, some 25
# minutes of wall clock with fourteen arms at once, 5 of them for what the arms start from.
#
# usage: bench/learning/side_by_side.sh DIR SECONDS [ARMS]
#            runs what is missing, ARMS (14) at once, and ends after SECONDS at the latest. What is
#            there is not made again: the same command goes on. The order is seed by seed, so that
#            an early end leaves whole tables of fewer seeds
#        bench/learning/side_by_side.sh DIR tables
#            judges what waits for its verdicts, and prints all tables
# Seconds of training of an arm: T5 (s5, 300), T6 (s6, 240), TA (after, 120), TM (midend.sh, 300);
# the same in all calls. Other settings: HONE, PYTHON and DEVICE, as in these scripts. Logs:
# DIR/logs.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 2 ] || { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$1 limit=$2 arms=${3:-14}
mkdir -p "$dir/logs"

starts() { # three chains of starts beside one another, a third of the cores each
	local third=$(((arms + 2) / 3))
	(for s in few half; do THREADS=$third bench/learning/chain.sh "$dir/s5" $s start || exit 1; done) >>"$dir/logs/start-s5.log" 2>&1 &
	(for n in 50 500; do THREADS=$third bench/learning/levels.sh "$dir/s6" $n start || exit 1; done) >>"$dir/logs/start-s6.log" 2>&1 &
	(THREADS=$third bench/learning/midend_after.sh "$dir/after" start && bench/learning/midend.sh "$dir/midend" data) >>"$dir/logs/start-after.log" 2>&1 &
	wait
	ls -d "$dir"/s5/{few,half}/start/final "$dir"/s6/{50,500}/start/final "$dir/after/start/final" >"$dir/logs/starts" && touch "$dir/started"
}
jobs_of_all() {
	for seed in 1 2 3; do
		for arm in two one single none; do echo "chain.sh $dir/s5 few $arm $seed ${T5:-300}"; done
		for pairs in 50 500; do for arm in level1 level2 both; do echo "levels.sh $dir/s6 $pairs $arm $seed ${T6:-240}"; done; done
		for arm in demo pairs broad new fit; do echo "midend_after.sh $dir/after $arm $seed ${TA:-120}"; done
		[ $seed = 3 ] || for arm in two one single none; do echo "chain.sh $dir/s5 half $arm $seed ${T5:-300}"; done
	done
	for seed in 1 2 3; do echo "midend.sh $dir/midend $seed ${TM:-300}"; done
}
one() { # a job, on one thread; its log ends with the seconds that it took
	local log begin=$SECONDS rc
	log=$dir/logs/$(tr ' /' '__' <<<"${1//"$dir"/}").log
	[ ! -e "$log.done" ] || return 0
	# shellcheck disable=SC2086
	THREADS=1 bench/learning/$1 >>"$log" 2>&1
	rc=$?
	echo "job $1 rc $rc $((SECONDS - begin)) s" | tee -a "$log"
	[ $rc != 0 ] || touch "$log.done"
}
tables() {
	for pairs in 50 500; do bench/learning/levels.sh "$dir/s6" $pairs judge >"$dir/logs/judge-$pairs.log" 2>&1; done
	for share in few half; do echo "== s5 $share"; bench/learning/chain.sh "$dir/s5" $share table; done
	for pairs in 50 500; do echo "== s6 $pairs"; bench/learning/levels.sh "$dir/s6" $pairs table; done
	echo "== after"
	bench/learning/midend_after.sh "$dir/after" table
}

case $limit in
tables) tables ;;
inside) # within the time that the outer call gives
	[ -e "$dir/started" ] || starts
	[ -e "$dir/started" ] || { tail -n 3 "$dir"/logs/start-*.log; exit 1; }
	export -f one
	export dir
	jobs_of_all | xargs -P "$arms" -I{} bash -c 'one "{}"'
	;;
*)
	timeout -k 5 "$limit" bench/learning/side_by_side.sh "$dir" inside "$arms"
	echo "$(find "$dir/logs" -name '*.done' | wc -l) of $(jobs_of_all | wc -l) jobs are done"
	;;
esac
