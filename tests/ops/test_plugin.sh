#!/bin/bash
# libhone_cuda.so without a GPU: what it shows, for which cards it holds code, and that no kernel of
# either code keeps registers in memory or asks for more fixed shared memory than a block has
# unasked; and that weights are asked for while the kernel before still runs. The tools are Triton's
# own copies of NVIDIA's. (Tiles that grow with the card are held to it by static_assert where they
# are chosen, and at each launch.)
set -uo pipefail
number=0
check() { number=$((number + 1)); if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi; }
plugin=$BUILD/libhone_cuda.so
dump=$(ls build/venv/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump 2>/dev/null | head -1)
if [ ! -e "$plugin" ] || [ -z "$dump" ]; then echo "1..0 # SKIP no $plugin (built where there is an nvcc), or no cuobjdump"; exit 0; fi
echo 1..7
shows=$(nm -D --defined-only "$plugin" | awk '{print $3}')
[ "$shows" = hone_cuda_open ] || { echo "# $shows"; false; }; check $? "it shows one function"

# ARCHITECTURE KERNEL STACK STATIC_SHARED, a line each.
kernels=$("$dump" --dump-resource-usage "$plugin" 2>/dev/null |
	awk '/^arch =/ {arch = $3} / Function / {name = $2} /REG:/ {match($0, /STACK:[0-9]+/); stack = substr($0, RSTART + 6, RLENGTH - 6); match($0, /SHARED:[0-9]+/)
		print arch, name, stack, substr($0, RSTART + 7, RLENGTH - 7)}')
of() { awk -v arch="$1" '$1 == arch {print $2}' <<<"$kernels" | sort; }
[ "$(awk '{print $1}' <<<"$kernels" | sort -u | tr '\n' ' ')" = "sm_80 sm_90a " ]; check $? "it holds code for Hopper and for cards from 8.0 on"
"$dump" -lptx "$plugin" 2>/dev/null | grep 'sm_80.*ptx' >/dev/null; check $? "and a text that later cards translate"
[ -n "$(of sm_80)" ] && diff <(of sm_80) <(of sm_90a) >/dev/null; check $? "every kernel is in both"
spilt=$(awk '$3 > 0 {print "# " $1, $2, $3 " bytes of stack"}' <<<"$kernels")
[ -n "$kernels" ] && [ -z "$spilt" ] || { echo "$spilt"; false; }; check $? "no kernel keeps registers in memory"
large=$(awk '$4 > 48 * 1024 {print "# " $1, $2, $4 " bytes"}' <<<"$kernels")
[ -z "$large" ] || { echo "$large"; false; }; check $? "fixed shared memory is what every card gives"

# Weights asked for behind the wait for the kernel before (ACQBULK) would come too late: ptxas moves
# some loads past it.
late=$(for kernel in $(of sm_90a | grep gemv_kernel | tr -d :); do
	"$dump" -sass -arch sm_90a -fun "$kernel" "$plugin" 2>/dev/null | awk -v name="$kernel" '/LDG.*128/ {loads++} /ACQBULK/ {waits++; exit}
		END {if (!loads || !waits) print "# " name}'
done)
[ -n "$(of sm_90a | grep gemv_kernel)" ] && [ -z "$late" ] || { echo "$late"; false; }; check $? "matrix-vector kernels ask for weights before they wait"
