#!/bin/bash
# tools/arrows.sh: the tree keeps to its arrows, and each kind of breach, planted in a small copy, is seen and named.
set -uo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' "$root/out"; fi; }

fresh() {
	rm -rf "$root/src"
	mkdir -p "$root/src"/{base,tape,vm}
	printf 'ROOMS := base tape vm\nUSES_base :=\nUSES_tape := base\nUSES_vm   := base tape\n' >"$root/src/rooms.mk"
	printf '#include <stdio.h>\n#include "base/base.h"\n' >"$root/src/tape/tape.c"
	printf '/* x */\n#include "tape/tape.h"\n#include "vm/own_internal.h"\n#include "generated.h"\n' >"$root/src/vm/vm.c"
}
# plant FILE LINE TEXT...: the text must stand in the output, and the status must be 1
breach() {
	local name=$1; shift
	tools/arrows.sh "$root" >"$root/out" 2>&1
	local status=$? missing=0
	for text; do grep -qF -- "$text" "$root/out" || { missing=1; echo "# not in the output: $text"; }; done
	[ $status -eq 1 ] && [ $missing -eq 0 ]
	check $? "$name"
}

echo 1..8
tools/arrows.sh >"$root/out" 2>&1; check $? "this tree keeps to src/rooms.mk"
fresh; tools/arrows.sh "$root" >"$root/out" 2>&1; check $? "a clean tree passes"
fresh; printf '\n  #  include "vm/vm.h"\n' >>"$root/src/tape/tape.c"
breach "a forbidden arrow" 'src/tape/tape.c:4: #include "vm/vm.h"' 'tape -> vm' '1 breaches'
fresh; echo '#include "vm/vm.h"' >"$root/src/base/a.h"
breach "base stands on nothing" 'src/base/a.h:1' 'base -> vm'
fresh; echo '#include "nowhere/x.h"' >"$root/src/vm/x.c"
breach "an unknown room" 'src/vm/x.c:1' 'nowhere is not a room'
fresh; mkdir "$root/src/vm/sub"; echo >"$root/src/vm/sub/tape.c"
breach "two files of one name" 'src/vm/sub/tape.c' 'src/tape/tape.c'
fresh; echo '#include "tape/x_internal.h"' >"$root/src/vm/x.c"
breach "a private header" 'src/vm/x.c:1' 'private to tape'
fresh; mkdir "$root/src/attic"; echo >"$root/src/attic/old.c"
breach "a folder that is no room" 'attic is not a room'
