#!/bin/sh
# Answers in IR: what a genuine module is emitted as is genuine itself, at all sizes; what is wrong
# in one is found with the answer's own line. timeout: 600
set -u
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # ok|not ok, name
	count=$((count + 1))
	echo "$1 $count - $2"
}
says() { # name, expected exit status, words of the output
	status=$?
	if [ $status = "$2" ] && grep -q -- "$3" "$WORK/out"; then check ok "$1"; else
		sed 's/^/# /' "$WORK/out"
		echo "# exit $status"
		check "not ok" "$1"
	fi
}
verify() { "$HONE" verify --task "$1" --candidate "$2" --threads 1 --seed 7 >"$WORK/out" 2>&1; }

cat >"$WORK/task.py" <<'TASK'
import torch
import torch.nn as nn

ROWS = 24
COLS = 500

class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(cols))

    def forward(self, x, y):
        return torch.relu(x + y) * self.scale

def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]

def get_init_inputs():
    return [COLS]
TASK
cat >"$WORK/candidate.py" <<'CANDIDATE'
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_relu(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.maximum(v, 0.0), mask=i < n)

@triton.jit
def scale_rows(x_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + row * cols + i, mask=i < cols)
    tl.store(out_ptr + row * cols + i, v * tl.load(scale_ptr + i, mask=i < cols), mask=i < cols)

class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(cols))

    def forward(self, x, y):
        between, out = torch.empty_like(x), torch.empty_like(x)
        add_relu[(triton.cdiv(x.numel(), 1024),)](x, y, between, x.numel(), BLOCK=1024)
        scale_rows[(x.shape[0],)](between, self.scale, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=2)
        return out
CANDIDATE
"$HONE" verify --task "$WORK/task.py" --candidate "$WORK/candidate.py" --threads 1 --seed 7 --emit "$WORK/good.ttir" >"$WORK/out" 2>&1
says "a module of two kernels is emitted in IR" 0 "emitted to .*good.ttir"
grep -q '^// launch add_relu\[cdiv(M \* N, 1024)\](x0, x1, t[0-9], M \* N)$' "$WORK/good.ttir" &&
	grep -q '^// launch scale_rows\[M\](t[0-9], p[0-9], y[0-9], N) warps=2$' "$WORK/good.ttir" &&
	check ok "grids and arguments are expressions of the sizes" || {
	sed 's/^/# /' "$WORK/good.ttir"
	check "not ok" "grids and arguments are expressions of the sizes"
}
verify "$WORK/task.py" "$WORK/good.ttir"
says "it is genuine itself, at other sizes too" 0 "trials agree (an answer in IR);"

# One line changed each. The line of a fault is the answer's own.
line=$(grep -n "tt.load" "$WORK/good.ttir" | head -1 | cut -d: -f1)
sed "${line}s/tt.load \(%[a-z_0-9]*\), %[a-z_0-9]* :/tt.load \1 :/" "$WORK/good.ttir" >"$WORK/unmasked.ttir"
verify "$WORK/task.py" "$WORK/unmasked.ttir"
says "a load without its mask" 1 "wrong (out-of-bounds"
grep -q "candidate.py:$line:" "$WORK/out" && check ok "is found at line $line of the answer" || { sed 's/^/# /' "$WORK/out"; check "not ok" "is found at line $line of the answer"; }
sed 's/arith.maxnumf/arith.minnumf/' "$WORK/good.ttir" >"$WORK/other.ttir"
verify "$WORK/task.py" "$WORK/other.ttir"
says "another operation" 1 "wrong (mismatch"
sed 's/M \* N)$/12000)/' "$WORK/good.ttir" >"$WORK/fixed.ttir"
verify "$WORK/task.py" "$WORK/fixed.ttir"
says "a number in place of an expression is right for one size alone" 1 "wrong (fragile"
sed '/^\/\//{s/\bM\b/24/g;s/\bN\b/500/g}' "$WORK/good.ttir" >"$WORK/small.ttir"
verify "$WORK/task.py" "$WORK/small.ttir"
says "an answer for one size is judged there alone, and that is said" 0 "judged at one size"
sed 's/^\/\/ input x0 f32\[M, N\]/\/\/ input x0 f32[M, 301]/' "$WORK/good.ttir" >"$WORK/sizes.ttir"
verify "$WORK/task.py" "$WORK/sizes.ttir"
says "an answer for other sizes" 1 "invalid (other-sizes"
sed 's/^\/\/ output/\/\/ result/' "$WORK/good.ttir" >"$WORK/words.ttir"
verify "$WORK/task.py" "$WORK/words.ttir"
says "a line that is none of the head's" 1 "invalid (bad-ir"
sed 's/arith.addi \(%[a-z_0-9]*\), \(%[a-z_0-9]*\) : tensor<1024xi32>/arith.addi \1, \2 : tensor<512xi32>/' "$WORK/good.ttir" >"$WORK/types.ttir"
line=$(grep -n "tensor<512xi32>" "$WORK/types.ttir" | head -1 | cut -d: -f1)
verify "$WORK/task.py" "$WORK/types.ttir"
says "types that do not fit, with the line" 1 "kernel.ttir\":$line:"
grep -q "^ *$line | .*tensor<512xi32>" "$WORK/out" && check ok "and the line's text" || { sed 's/^/# /' "$WORK/out"; check "not ok" "and the line's text"; }
# A file of another name is the module, as before.
"$HONE" verify --task "$WORK/task.py" --candidate "$WORK/good.ttir" --threads 1 --emit "$WORK/again.py" >"$WORK/out" 2>&1
[ ! -e "$WORK/again.py" ] && check ok "an answer in IR has no module" || check "not ok" "an answer in IR has no module"
echo "1..$count"
