#!/bin/bash
# compute-sanitizer's place in tests/ops/test_sanitize.py: runs nothing, prints what the tool
# prints of a case of that name.
# usage: fake_sanitizer.sh --tool TOOL ... PROGRAM CASE
tool=$2 case=${*: -1}
report() { printf '========= %s\n=========     at %s+0x1190\n=========     by thread (31,0,0) in block (1,0,0)\n========= \n' "$1" "$2"; }
echo '========= COMPUTE-SANITIZER'
[ "$case" = lost ] && exit 0
# our kernels alone for one tool, all kernels for the others; small sizes for
# two; scratch of NaN for one
case $tool in
synccheck) [[ $* == *'--kernel-name kns=_kernel'* ]] || exit 3 ;;
*) [[ $* == *kns=* ]] && exit 3 ;;
esac
case $tool in initcheck) [ "$HONE_STAGES_POISON" = 1 ] || exit 3 ;; *) [ -z "${HONE_STAGES_POISON+set}" ] || exit 3 ;; esac
case $tool in racecheck | initcheck) [ "$HONE_STAGES_SMALL" = 1 ] || exit 3 ;; *) [ "$HONE_STAGES_SMALL" = 0 ] || exit 3 ;; esac
echo "ok 1 - $case"
case $tool:$case in
initcheck:library | initcheck:both)
	report 'Uninitialized __global__ memory read of size 4 bytes' 'void cublasLt::splitKreduce_kernel<(int)32>(int)'
	[ "$case" = both ] && report 'Uninitialized __global__ memory read of size 2 bytes' 'norm_kernel(int)'
	echo "========= ERROR SUMMARY: $([ "$case" = both ] && echo 2 || echo 1) errors"
	exit 9
	;;
racecheck:race)
	report 'Error: Race reported between Write access at norm_kernel(int)+0x10 in rows.cu:3' 'norm_kernel(int)'
	echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'
	exit 9
	;;
memcheck:unread) echo '========= ERROR SUMMARY: 3 errors'; exit 9 ;;
memcheck:slow) sleep 5 ;;
esac
echo '========= ERROR SUMMARY: 0 errors'
