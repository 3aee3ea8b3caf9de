import torch
import torch.nn as nn

BATCH = 15
DIM = 50


class Model(nn.Module):
    def forward(self, predictions, targets):
        cosine = torch.nn.functional.cosine_similarity(predictions, targets, dim=1)
        return torch.mean(1 - cosine)


def get_inputs():
    return [torch.randn(BATCH, DIM), torch.randn(BATCH, DIM)]


def get_init_inputs():
    return []
