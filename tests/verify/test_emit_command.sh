#!/bin/sh
# `hone verify --emit`, the command: it writes the module and says so, and what it does not write it
# refuses. What is written: test_emit.c.
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

# Under secrets 6 and 11 one size of this task has one trial, in which all programs find the same
# maximum of a few block maxima: no condition that it hides.
folder=tests/exploits/workspace_kept
"$HONE" verify --task $folder/task.py --candidate $folder/twin.py --emit "$WORK/module.py" --threads 1 --seed 6 >"$WORK/out" 2>&1 &&
	grep -q "emitted to $WORK/module.py" "$WORK/out" && grep -q "class ModelNew" "$WORK/module.py" && check ok "a module is written" || { sed 's/^/# /' "$WORK/out"; check "not ok" "a module is written"; }
"$HONE" verify --task $folder/task.py --candidate tests/exploits --emit "$WORK/other.py" >"$WORK/out" 2>&1
[ $? = 2 ] && [ ! -e "$WORK/other.py" ] && check ok "a folder is wrong usage" || check "not ok" "a folder is wrong usage"
mkfifo "$WORK/pipe"
"$HONE" verify --task $folder/task.py --candidate $folder/twin.py --emit "$WORK/pipe" >"$WORK/out" 2>&1
[ $? = 2 ] && [ -p "$WORK/pipe" ] && check ok "a pipe stays one" || check "not ok" "a pipe stays one"
# A name that leaves no room for the file beside it: it cannot be written, as on a full disk.
name=$(printf '%0250d' 0)
"$HONE" verify --task $folder/task.py --candidate $folder/twin.py --emit "$WORK/$name" --threads 1 --seed 11 >"$WORK/out" 2>&1
[ $? = 2 ] && grep -q "genuine" "$WORK/out" && grep -q "not emitted" "$WORK/out" && check ok "what was not written is no success" || { sed 's/^/# /' "$WORK/out"; check "not ok" "what was not written is no success"; }
# Triton's interpreter runs what was written, with functions and constants that a kernel names. The
# module is for a card alone; here it is told that the CPU is one.
cat >"$WORK/task.py" <<'TASK'
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return (x * 2 + 3) * 5 - 1

def get_inputs():
    return [torch.randn(8, 32)]

def get_init_inputs():
    return []
TASK
cat >"$WORK/candidate.py" <<'CANDIDATE'
import torch
import torch.nn as nn
import triton
import triton.language as tl

def make(a, b):
    A, B = tl.constexpr(a), tl.constexpr(b)

    @triton.jit
    def helper(x):
        return x * A + B

    @triton.jit
    def k(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, helper(tl.load(x_ptr + i, mask=i < n)), mask=i < n)
    return k

first, second = make(2.0, 3.0), make(5.0, -1.0)

class ModelNew(nn.Module):
    def forward(self, x):
        y, z = torch.empty_like(x), torch.empty_like(x)
        first[(4,)](x, y, x.numel(), BLOCK=64)
        second[(4,)](y, z, x.numel(), BLOCK=64)
        return z
CANDIDATE
cat >"$WORK/interpret.py" <<'SCRIPT'
import sys

sys.path.insert(0, sys.argv[1])
import torch
from interpreted import ModelNew
from task import Model

x = torch.randn(8, 32)
assert torch.allclose(ModelNew()(x), Model()(x), atol=1e-5)
SCRIPT
"$HONE" verify --task "$WORK/task.py" --candidate "$WORK/candidate.py" --emit "$WORK/named.py" --threads 1 --seed 7 >"$WORK/out" 2>&1 &&
	sed "s/value.is_cuda/value.is_cpu/;s/device='cuda'/device='cpu'/" "$WORK/named.py" >"$WORK/interpreted.py" &&
	TRITON_INTERPRET=1 build/venv/bin/python "$WORK/interpret.py" "$WORK" >"$WORK/out" 2>&1 && check ok "Triton's interpreter runs the module" || { sed 's/^/# /' "$WORK/out"; check "not ok" "Triton's interpreter runs the module"; }
echo "1..$count"
