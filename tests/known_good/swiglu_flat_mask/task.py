import torch
import torch.nn as nn

TOKENS = 96
HIDDEN = 130


class Model(nn.Module):
    """
    Gated activation of a Llama feed-forward layer: silu(gate) * up, scaled.
    """

    def __init__(self, scale):
        super(Model, self).__init__()
        self.scale = scale

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(gate) * up * self.scale


def get_inputs():
    return [torch.randn(TOKENS, HIDDEN), torch.randn(TOKENS, HIDDEN)]


def get_init_inputs():
    return [1.25]
