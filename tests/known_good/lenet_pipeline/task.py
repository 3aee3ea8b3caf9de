import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2
num_classes = 10


class Model(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, kernel_size=5)
        self.conv2 = nn.Conv2d(3, 4, kernel_size=3)
        self.fc1 = nn.Linear(4 * 5 * 5, 20)
        self.fc2 = nn.Linear(20, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, 4 * 5 * 5)
        return self.fc2(F.relu(self.fc1(x)))


def get_inputs():
    return [torch.randn(batch_size, 1, 28, 28)]


def get_init_inputs():
    return [num_classes]
