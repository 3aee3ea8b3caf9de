import torch
import torch.nn as nn

class Model(nn.Module):
    """x @ dequant(qweight): eight 4-bit numbers in each int32, a scale and zero a group of 32 rows."""
    def forward(self, x, qweight, scales, zeros):
        shifts = torch.arange(0, 32, 4, device=x.device)
        w = (qweight[:, None, :] >> shifts[None, :, None]) & 0xF
        w = w.reshape(-1, qweight.shape[1]).to(x.dtype)
        g = torch.arange(w.shape[0], device=x.device) // 32
        return x @ ((w - zeros[g]) * scales[g])


def get_inputs():
    return [torch.randn(20, 64), torch.randint(-2 ** 31, 2 ** 31 - 1, (8, 48), dtype=torch.int32),
            torch.rand(2, 48) * 0.1, torch.randint(0, 16, (2, 48)).float()]


def get_init_inputs():
    return []
