import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        out = []
        for n in x.tolist():
            steps = 0
            while n != 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            out.append(steps)
        return torch.tensor(out, dtype=torch.int32, device=x.device)


def get_inputs():
    return [torch.randint(1, 60, (40,), dtype=torch.int32)]


def get_init_inputs():
    return []
