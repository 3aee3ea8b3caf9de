#!/bin/bash
# Set-up (tools/setup.sh): where everything is installed it says and does nothing; what the stamps
# promise is there, and nothing compiles before it; a user who is not root is told the
# command, and root what to open.
set -uo pipefail
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi; }

echo 1..7
before=$(stat -c %i build/venv/setup.stamp build/deps/setup.stamp)
out=$(tools/setup.sh 2>&1); status=$?
[ $status -eq 0 ] && [ -z "$out" ]; check $? "a second call is silent and succeeds"
[ "$before" = "$(stat -c %i build/venv/setup.stamp build/deps/setup.stamp)" ]; check $? "the stamps stay"
make -q setup; check $? "make has nothing to do for setup"
# make's own list of rules: what compiles a source of ours says behind a bar what it waits for.
rules=$(make -pn programs tests benches 2>/dev/null | grep -E "^${BUILD:-build/release}/obj/(src|tests|bench)/[^ ]*\.o: [^ ]*\.(c|cu) ")
early=$(grep -vE '\|.*build/venv/setup.stamp' <<<"$rules" | cut -d: -f1)
[ "$(wc -l <<<"$rules")" -gt 100 ] && [ -z "$early" ]; check $? "no source is compiled before set-up is done"
[ -z "$early" ] || head -5 <<<"$early" | sed 's/^/# /'
[ -f build/deps/tree-sitter/lib/include/tree_sitter/api.h ] && [ -f build/deps/tree-sitter-python/src/scanner.c ]; check $? "tree-sitter's sources are unpacked"

# A copy whose folder has no stamps, run by nobody with a dpkg-query that knows no package.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/tools" "$root/bin"
cp tools/setup.sh "$root/tools/"
printf '#!/bin/sh\nexit 1\n' >"$root/bin/dpkg-query"
printf '#!/bin/sh\necho 65534\n' >"$root/bin/id"
chmod +x "$root/bin/"*
out=$(PATH="$root/bin:$PATH" "$root/tools/setup.sh" 2>&1); status=$?
[ $status -eq 1 ] && grep -q '^sudo apt-get install .*libjansson-dev' <<<"$out" && [ ! -e "$root/build/venv" ]
check $? "without root the one command to run is printed"

# mktemp's folder is closed for others.
if [ "$(id -u)" -eq 0 ]; then
	out=$("$root/tools/setup.sh" 2>&1); status=$?
	[ $status -eq 1 ] && grep -qx "chmod o+x $root" <<<"$out" && [ ! -e "$root/build/venv" ]
	check $? "root is told which folder nobody can pass, before anything is installed"
else
	number=$((number + 1)); echo "ok $number - root is told which folder nobody can pass # SKIP not root"
fi
