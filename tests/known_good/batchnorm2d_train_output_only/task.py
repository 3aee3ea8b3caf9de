import torch
import torch.nn as nn

batch_size = 3
features = 6
dim = 10


class Model(nn.Module):
    """
    Simple model that performs Batch Normalization.
    """

    def __init__(self, num_features: int):
        super(Model, self).__init__()
        self.bn = nn.BatchNorm2d(num_features=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(x)


def get_inputs():
    return [torch.randn(batch_size, features, dim, dim)]


def get_init_inputs():
    return [features]
