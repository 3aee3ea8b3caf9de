# -*- coding: utf-8 -*-
"""Potenzen: 2ˣ − 1, ядро на Тритоне. 二の冪乗。"""
import torch; import torch.nn as nn
import triton, triton.language as tl

α = 1.0


@triton.jit
def puissance(x, y, n, BLOCK: tl.constexpr):
	# tabs ⇥ and names beyond ASCII
	décalage = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK); masque = décalage < n
	v = tl.load(x + décalage, mask=masque, other=0.0)
	tl.store(y + décalage, \
		tl.exp2(v) - 1.0, \
		mask=masque)


class ModelNew(nn.Module):
	def forward(self, x):
		y = torch.empty_like(x); n = x.numel()
		assert α == 1.0, "Ω"
		puissance[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
		return y
