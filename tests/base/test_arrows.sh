#!/bin/bash
# The tree keeps to its arrows (tools/arrows.sh), and each kind of breach, planted in a small copy,
# is seen and named.
set -uo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' "$root/out"; fi; }

# Three rooms, base <- tape <- vm; vm has two folders, exec above core.
fresh() {
	rm -rf "$root/src"
	mkdir -p "$root/src"/{base,tape,vm/core,vm/exec}
	cat >"$root/src/rooms.mk" <<-'END'
		ROOMS := base tape vm
		USES_base :=
		USES_tape := base
		USES_vm   := base tape
		USES_vm/core :=
		USES_vm/exec := vm/core
	END
	cat >"$root/src/base/base.h" <<-'END'
		#ifndef HONE_BASE_H
		#define HONE_BASE_H
		#define COUNT 3
		#define TABLE(X) X(FIRST, 1) X(SECOND, 2)
		#define X(id, n) id,
		enum number { TABLE(X) NUMBER_COUNT };
		struct err { int code; };
		typedef int (*base_fn)(int x);
		int err_set(struct err *e, int code);
		static inline int twice(int x) { int hidden = 2; return hidden * x; }
		#endif
	END
	printf '#include "base/base.h"\nstruct tape { struct err *err; };\nint tape_read(struct tape *t);\n' >"$root/src/tape/tape.h"
	printf '#include "tape/tape.h"\nint tape_read(struct tape *t) { return 0; }\n' >"$root/src/tape/read.c"
	printf 'int core_step(int n);\n' >"$root/src/vm/core/core.h"
	printf '#include <stdio.h>\n/* err_set( */\n#include "tape/tape.h"\n#include "vm/core/core.h"\nint run(struct tape *t)\n{\n\tputs("err_set");\n\treturn core_step(tape_read(t));\n}\n' >"$root/src/vm/exec/exec.c"
	printf '#include "base/base.h"\n#include "generated.h"\nint main(void) { return twice(COUNT); }\n' >"$root/src/vm/vm.c"
}
passes() { tools/arrows.sh "$root" >"$root/out" 2>&1; check $? "$1"; }
# breach NAME TEXT...: the texts must stand in the output, it must be the only breach,
# and the status must be 1
breach() {
	local name=$1; shift
	tools/arrows.sh "$root" >"$root/out" 2>&1
	local status=$? missing=0
	for text in "$@" '1 breaches'; do grep -qF -- "$text" "$root/out" || { missing=1; echo "# not in the output: $text"; }; done
	[ $status -eq 1 ] && [ $missing -eq 0 ]
	check $? "$name"
}

echo 1..24
tools/arrows.sh >"$root/out" 2>&1; check $? "this tree keeps to src/rooms.mk"
fresh; passes "a clean tree passes"
fresh; printf 'int vm_run(void);\n' >"$root/src/vm/vm.h"; printf '\n  #  include "vm/vm.h"\nint f(void) { return vm_run(); }\n' >>"$root/src/tape/read.c"
breach "a forbidden arrow" 'src/tape/read.c:4: #include "vm/vm.h"' 'tape -> vm is not allowed'
fresh; printf '#include "tape/tape.h"\nint f(struct tape *t);\n' >"$root/src/base/a.h"
breach "base stands on nothing" 'src/base/a.h:1' 'base -> tape'
fresh; echo '#include "nowhere/x.h"' >"$root/src/vm/x.c"
breach "an unknown room" 'src/vm/x.c:1' 'nowhere is not a room'
fresh; echo >"$root/src/vm/exec/read.c"
breach "two files of one name" 'src/vm/exec/read.c' 'src/tape/read.c'
fresh; echo 'int secret(void);' >"$root/src/tape/x_internal.h"; printf '#include "tape/x_internal.h"\nint f(void) { return secret(); }\n' >"$root/src/vm/x.c"
breach "a private header" 'src/vm/x.c:1' 'private to tape'
fresh; mkdir "$root/src/tape/in"; echo 'int inner(void);' >"$root/src/tape/in/in.h"; printf '#include "tape/in/in.h"\nint f(void) { return inner(); }\n' >"$root/src/vm/x.c"
breach "a header of another room's folder" 'src/vm/x.c:1' 'private to tape'
fresh; mkdir "$root/src/attic"; echo >"$root/src/attic/old.c"
breach "a folder that is no room" 'attic is not a room'
fresh; echo 'int exec_step(void);' >"$root/src/vm/exec/exec.h"; printf '#include "vm/exec/exec.h"\nint f(void) { return exec_step(); }\n' >"$root/src/vm/core/x.c"
breach "a forbidden arrow between folders" 'src/vm/core/x.c:1' 'vm/core -> vm/exec is not allowed'

# Arrows that nobody needs, and circles.
fresh; sed -i '/include "base/d; s/struct err \*err/int n/' "$root/src/tape/tape.h"
breach "an arrow that no file uses" 'src/rooms.mk: the arrow tape -> base is used by no file'
fresh; sed -i '/vm\/core/d; s/core_step//' "$root/src/vm/exec/exec.c"
breach "an arrow between folders that no file uses" 'the arrow vm/exec -> vm/core is used by no file'
fresh; sed -i 's/^USES_tape := base/USES_tape := base vm/' "$root/src/rooms.mk"; echo 'int vm_run(void);' >"$root/src/vm/vm.h"
printf '#include "vm/vm.h"\nint f(void) { return vm_run(); }\n' >"$root/src/tape/x.c"; tools/arrows.sh "$root" >"$root/out" 2>&1
[ $? -eq 1 ] && grep -q 'a circle: .*tape -> vm -> tape\|a circle: .*vm -> tape -> vm' "$root/out"; check $? "a circle"

# Names that come by way of another header, each kind of them.
indirect() { fresh; printf '#include "tape/tape.h"\nint x(struct tape *t) { %s }\n' "$2" >"$root/src/vm/x.c"; breach "an indirect include: $1" 'src/vm/x.c:2: uses' "$3 of \"base/base.h\" without including it"; }
indirect "a function" 'return err_set(0, 1);' err_set
indirect "a macro" 'return COUNT;' COUNT
indirect "a tag" 'return sizeof(struct err);' err
indirect "a constant of a table" 'return SECOND;' SECOND
indirect "a constant" 'return NUMBER_COUNT;' NUMBER_COUNT
indirect "a type" 'base_fn f = 0; return !f;' base_fn
indirect "an inline function" 'return twice(2);' twice
fresh; printf '#include "tape/tape.h"\n#define N COUNT\nint x(struct tape *t) { return 0; }\n' >"$root/src/vm/x.c"
breach "an indirect include: in a macro" 'src/vm/x.c:2: uses COUNT of "base/base.h"'
fresh; printf '#include "tape/tape.h"\nint x(struct tape *t) { int hidden = 1; /* COUNT */ return t->COUNT + hidden + sizeof "err_set"; } // twice\n' >"$root/src/vm/x.c"
passes "members, locals, comments and strings are no uses"
fresh; sed -i 's/twice(COUNT)/0/' "$root/src/vm/vm.c"
tools/arrows.sh "$root" >"$root/out" 2>&1
[ $? -eq 1 ] && grep -qF 'src/vm/vm.c:1: #include "base/base.h": no name of it is used' "$root/out"; check $? "an include of which no name is used"
fresh; printf '#include "base/base.h"\nint x(void) { return FIRST; }\n' >"$root/src/vm/x.c"; passes "a direct include passes"
