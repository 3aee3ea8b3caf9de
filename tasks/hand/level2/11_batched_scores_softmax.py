import math

import torch
import torch.nn as nn

BATCH = 4
QUERIES = 27
KEYS = 38
DEPTH = 24


class Model(nn.Module):
    def forward(self, q, k):
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        return torch.softmax(scores, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, QUERIES, DEPTH), torch.randn(BATCH, KEYS, DEPTH)]


def get_init_inputs():
    return []
