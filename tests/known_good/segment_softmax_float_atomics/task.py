import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, seg):
        m = torch.full((6,), float("-inf"), device=x.device).scatter_reduce(0, seg, x, "amax")
        e = torch.exp(x - m[seg])
        d = torch.zeros(6, device=x.device).index_add(0, seg, e)
        return e / d[seg]


def get_inputs():
    return [torch.randn(200), torch.randint(0, 6, (200,))]


def get_init_inputs():
    return []
