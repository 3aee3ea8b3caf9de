import torch
import torch.nn as nn

N = 130


class Model(nn.Module):
    def forward(self, inputs):
        a, b = inputs["a"], inputs["b"]
        return {"sum": [a + b, (a * b, a / (b * b + 1))], "neg": -a}


def get_inputs():
    return [{"a": torch.randn(N), "b": torch.randn(N)}]


def get_init_inputs():
    return []
