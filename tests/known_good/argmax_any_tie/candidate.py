import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def largest_kernel(x_ptr, v_ptr, at_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=float("-inf"))
    v, at = tl.max(x, 1, return_indices=True, return_indices_tie_break_left=False)   # rows that do not exist are all ties, and are not stored
    tl.store(v_ptr + rows, v, mask=rows < n_rows)
    tl.store(at_ptr + rows, at.to(tl.int64), mask=rows < n_rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        v = torch.empty(rows, device=x.device, dtype=x.dtype)
        at = torch.empty(rows, device=x.device, dtype=torch.int64)
        largest_kernel[(triton.cdiv(rows, 8),)](x, v, at, rows, cols, ROWS=8, BLOCK=triton.next_power_of_2(cols))
        return v, at
