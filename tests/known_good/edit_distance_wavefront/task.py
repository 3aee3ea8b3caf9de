import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        n, m = a.shape[1], b.shape[1]
        row = torch.arange(m + 1, device=a.device).repeat(a.shape[0], 1)
        for i in range(n):
            new = [torch.full_like(row[:, 0], i + 1)]
            for j in range(m):
                cost = (a[:, i] != b[:, j]).long()
                new.append(torch.minimum(torch.minimum(new[-1] + 1, row[:, j + 1] + 1), row[:, j] + cost))
            row = torch.stack(new, 1)
        return row[:, m]


def get_inputs():
    return [torch.randint(0, 4, (9, 12)), torch.randint(0, 4, (9, 10))]


def get_init_inputs():
    return []
