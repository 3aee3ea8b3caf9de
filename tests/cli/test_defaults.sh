#!/bin/sh
# The options of every command with their bounds and defaults, as `--help` states them and as the
# table beside this file has them (defaults.txt). Who changes one changes its line there too, so
# that no default moves by accident: what a run does without being told is a promise.
# `tests/cli/test_defaults.sh --print` prints the table anew.
set -u
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
{
	"$HONE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'
	for kind in text rl gpu verify; do echo "bench $kind"; done
} >"$WORK/commands"
# Of an option's line its name and kind, bounds or choices, and the default behind its words.
while read -r command; do
	# shellcheck disable=SC2086  # a command is one word or two
	"$HONE" $command --help 2>/dev/null | awk -v command="$command" '/^  --/ {
		kind = $2 ~ /^(N|X|TEXT)$/ ? " " $2 : ""
		bounds = preset = ""
		if (match($0, / \[[^]]*\]$/)) { preset = substr($0, RSTART); $0 = substr($0, 1, RSTART - 1) }
		if (match($0, / \([^()]*\)$/) && substr($0, RSTART) ~ /\|| to | or more/) bounds = substr($0, RSTART)
		print command " " $1 kind bounds preset
	}'
done <"$WORK/commands" | LC_ALL=C sort >"$WORK/found"
[ "${1:-}" = --print ] && { cat "$WORK/found"; exit; }
echo 1..1
if diff tests/cli/defaults.txt "$WORK/found" >"$WORK/diff"; then echo "ok 1 - options, bounds and defaults are those of the table"; else
	sed 's/^/# /' "$WORK/diff"
	echo "not ok 1 - options, bounds and defaults are those of the table"
	exit 1
fi
