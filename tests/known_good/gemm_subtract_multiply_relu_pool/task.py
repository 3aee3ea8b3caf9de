import torch
import torch.nn as nn

batch_size = 18
in_features = 20
out_features = 36


class Model(nn.Module):
    """
    Gemm, subtraction, multiplication, logsumexp over groups of four, LeakyReLU.
    """

    def __init__(self, in_features, out_features, subtract_value, multiply_value):
        super(Model, self).__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract_value = subtract_value
        self.multiply_value = multiply_value

    def forward(self, x):
        x = self.linear(x)
        x = x - self.subtract_value
        x = x * self.multiply_value
        x = x[:, : x.shape[1] // 4 * 4].reshape(x.shape[0], -1, 4)
        return torch.nn.functional.leaky_relu(torch.logsumexp(x, dim=2))


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, 0.75, 1.5]
