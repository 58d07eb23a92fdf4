"""A convolution whose filters stay orthonormal while it is trained."""
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from orthornn.torch import TruncatedCwy

torch.manual_seed(1)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
convolution = model[0]
register_parametrization(convolution, "weight", TruncatedCwy())

# Stripes in four directions, with noise.
row, column = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
stripes = torch.stack([torch.sin(2 * x) for x in (row, column, row + column, row - column)])
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(60):
    classes = torch.randint(4, (64,))
    images = (stripes[classes] + torch.randn(64, 8, 8))[:, None]
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

filters = convolution.weight.detach().flatten(1)
error = (filters @ filters.T - torch.eye(8)).norm().item()
right = (logits.argmax(1) == classes).float().mean().item()
print(f"right {right:.2f}  |W W' - I| {error:.1e}")
