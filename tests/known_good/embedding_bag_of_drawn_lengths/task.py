import torch
import torch.nn as nn

V = 50
D = 16
NB = 12


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(V, D, mode="mean")

    def forward(self, ids, offsets):
        return self.emb(ids, offsets)


def get_inputs():
    lens = torch.randint(0, 7, (NB,))
    lens[-1] = 3
    off = torch.cumsum(lens, 0) - lens
    return [torch.randint(0, V, (int(lens.sum()),)), off]


def get_init_inputs():
    return []
