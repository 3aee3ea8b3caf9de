#!/bin/bash
# make bundle: the folder runs with its own libraries and a machine's Python, carries their terms
# and nothing of NVIDIA's, and refuses an older C library. timeout: 600
set -uo pipefail
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi; }

echo 1..7
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
chmod o+rx "$top"   # candidates run as nobody
repository=$PWD home=$top/bundle/lib/hone
make -s bundle BUNDLE="$top/bundle" BUILD="${BUILD:-build/release}" >"$top/log" 2>&1 || { cat "$top/log"; false; }
check $? "make bundle BUNDLE="

# Each library that a program or library names comes out of the bundle, or is a part of glibc.
strangers=$(for f in "$home"/hone "$home"/hone-runner "$home"/libhone*.so; do ldd "$f"; done | awk -v home="$home/" '$2 == "=>" && index($3, home) != 1 {print $1}' |
	grep -vE '^(libc|libm|libdl|libpthread|librt)\.so\.' | sort -u)
[ -z "$strangers" ] || { echo "# from elsewhere: $strangers"; false; }
check $? "libraries are the bundle's own"
! find "$top/bundle" -name 'libcu*' -o -name 'libnv*' -o -name 'libnccl*' | grep .; check $? "nothing of NVIDIA's"
libraries=$(find "$home" -name '*.so.*' | wc -l) terms=$(find "$home/licenses" -type f -size +0 | wc -l)
[ "$libraries" -gt 0 ] && [ "$libraries" = "$terms" ] || { echo "# $libraries libraries, $terms texts"; false; }
check $? "terms of every library"

# The README's task and candidate, as printed there, from another folder and
# with hardly any environment.
mkdir "$top/elsewhere" && cd "$top/elsewhere" || exit 1
sed -n '/^<!-- test -->$/,/^hone verify/p' "$repository/README.md" | sed -n '/^mkdir/,/^END$/p;/^cat >work\/candidate/,/^END$/p' >example.sh
bash example.sh
run() { env -i PATH="$PATH" HONE_PYTHON="$repository/build/venv/bin/python" "$top/bundle/hone" "$@"; }
run verify --task work/task.py --candidate work/candidate.py --json >verdict.json 2>errors
[ "$(grep -o '"verdict": "[a-z]*"' verdict.json)" = '"verdict": "genuine"' ] || { cat verdict.json errors; false; }
check $? "a verdict with the machine's Python"
env -i PATH="$PATH" "$top/bundle/hone" verify --task work/task.py --candidate work/candidate.py >without 2>&1
grep -q HONE_PYTHON without || { cat without; false; }
check $? "without a Python it says what to set"

mkdir old && printf '#!/bin/sh\necho glibc 2.17\n' >old/getconf && chmod +x old/getconf
env -i PATH="$PWD/old:$PATH" "$top/bundle/hone" --version >refused 2>&1
[ $? = 1 ] && grep -q "glibc $(cat "$home/glibc") or newer, this machine has 2.17" refused || { cat refused; false; }
check $? "an older C library is refused by both numbers"
