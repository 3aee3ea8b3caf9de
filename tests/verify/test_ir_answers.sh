#!/bin/sh
# Answers in IR: what a genuine module is emitted as is genuine itself, at all sizes; what is wrong
# in one is found with the answer's own line. timeout: 600
set -u
# Workers that are warm: nothing is asked of their start.
[ "${WARM_WORKERS:-}" ] || exec build/venv/bin/python tests/warm_python.py "$0"
HONE=${BUILD:-build/release}/hone
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
check() { # ok|not ok, name
	count=$((count + 1))
	echo "$1 $count - $2"
}
says() { # name, file with what was said, words in it
	if grep -q -- "$3" "$2"; then check ok "$1"; else
		sed 's/^/# /' "$2"
		check "not ok" "$1"
	fi
}

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
says "a module of two kernels is emitted in IR" "$WORK/out" "emitted to .*good.ttir"
grep -q '^// launch add_relu\[cdiv(M \* N, 1024)\](x0, x1, t[0-9], M \* N)$' "$WORK/good.ttir" &&
	grep -q '^// launch scale_rows\[M\](t[0-9], p[0-9], y[0-9], N) warps=2$' "$WORK/good.ttir" &&
	check ok "grids and arguments are expressions of the sizes" || {
	sed 's/^/# /' "$WORK/good.ttir"
	check "not ok" "grids and arguments are expressions of the sizes"
}

# One line changed each; an answer is known by its text, whatever its file is called. All are judged
# by one process, which says whose verdict begins where.
mkdir "$WORK/answers"
answer() { sed "$2" "$WORK/good.ttir" >"$WORK/answers/$1.py"; }
cp "$WORK/good.ttir" "$WORK/answers/good.py"
load=$(grep -n "tt.load" "$WORK/good.ttir" | head -1 | cut -d: -f1)
answer unmasked "${load}s/tt.load \(%[a-z_0-9]*\), %[a-z_0-9]* :/tt.load \1 :/"
answer other 's/arith.maxnumf/arith.minnumf/'
answer fixed 's/M \* N)$/12000)/'
answer small '/^\/\//{s/\bM\b/24/g;s/\bN\b/500/g}'
answer sizes 's/^\/\/ input x0 f32\[M, N\]/\/\/ input x0 f32[M, 301]/'
answer words 's/^\/\/ output/\/\/ result/'
answer types 's/arith.addi \(%[a-z_0-9]*\), \(%[a-z_0-9]*\) : tensor<1024xi32>/arith.addi \1, \2 : tensor<512xi32>/'
# One argument more, an f32 that nothing reads, and what the head gives for it.
answer kind 's/\(@add_relu(.*%n: i32\))/\1, %b: f32)/;s/\(t[0-9], M \* N\))$/\1, 5)/'
answer kind_twin 's/\(@add_relu(.*%n: i32\))/\1, %b: f32)/;s/\(t[0-9], M \* N\))$/\1, 5.0)/'
types=$(grep -n "tensor<512xi32>" "$WORK/answers/types.py" | head -1 | cut -d: -f1)
"$HONE" verify --task "$WORK/task.py" --candidate "$WORK/answers" --threads 1 --seed 7 >"$WORK/out" 2>&1
awk -v folder="$WORK/answers/" 'index($0, folder) == 1 {
	name = substr($0, length(folder) + 1); sub(/[.]py: .*/, "", name); sub(/^.*[.]py: /, "") }
	name { print >(folder name ".said") }' "$WORK/out"
said() { says "$1" "$WORK/answers/$2.said" "$3"; }

said "it is genuine itself" good "^genuine$"
said "at other sizes too" good "trials agree (an answer in IR);"
# The line of a fault is the answer's own.
said "a load without its mask" unmasked "^wrong (out-of-bounds"
said "is found at line $load of the answer" unmasked "unmasked.py:$load:"
said "another operation" other "^wrong (mismatch"
said "a number in place of an expression is right for one size alone" fixed "^wrong (fragile"
said "an answer for one size is genuine" small "^genuine$"
said "and that it is judged there alone is said" small "judged at one size"
said "an answer for other sizes" sizes "^invalid (other-sizes"
said "a line that is none of the head's" words "^invalid (bad-ir"
said "types that do not fit, with the line" types "kernel.ttir\":$types:"
said "and the line's text" types "^ *$types | .*tensor<512xi32>"
said "a whole number in place of a float" kind "^invalid (bad-argument"
said "is named" kind "argument 4 is a whole number, and the kernel takes f32 there"
said "a float in its place is genuine" kind_twin "^genuine$"
# A file of another name is the module, as before.
"$HONE" verify --task "$WORK/task.py" --candidate "$WORK/good.ttir" --threads 1 --emit "$WORK/again.py" >"$WORK/out" 2>&1
[ ! -e "$WORK/again.py" ] && check ok "an answer in IR has no module" || check "not ok" "an answer in IR has no module"
echo "1..$count"
