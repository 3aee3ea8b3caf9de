import torch
import torch.nn as nn
M = 24
N = 1000

class Model(nn.Module):
    def forward(self, x):
        return (torch.relu(x) * 2).to(torch.bfloat16)

def get_inputs():
    return [torch.randn(M, N)]

def get_init_inputs():
    return []
