"""A normalizing flow of two moons, of affine couplings and rotations by OrthogonalLinear, which leave volumes
as they are. torch_flow.py [STEPS [FILE]]; with a file it plots data, samples and density by matplotlib."""
import math
import sys

import torch
from torch import nn
from torch.distributions import MultivariateNormal

from orthornn.torch import OrthogonalLinear


def moons(count):
    """Points [count, 2] of two half circles, with noise."""
    angle = math.pi * torch.rand(count)
    x = torch.stack([torch.cos(angle), torch.sin(angle)], 1)
    x[::2] = torch.tensor([1.0, 0.5]) - x[::2]
    return x + 0.1 * torch.randn(count, 2)


class Block(nn.Module):
    """(a, b) = Q x + c; the result is (a, b s + t), where s and t are functions of a."""

    def __init__(self, width=32):
        super().__init__()
        self.linear = OrthogonalLinear(2, 2)
        self.coupling = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                      nn.Linear(width, 2))

    def coupled(self, a):
        log_s, t = self.coupling(a).split(1, 1)
        return log_s.tanh(), t

    def forward(self, x):
        """Returns the result [B, 2] and the logarithm of the determinant [B]."""
        a, b = self.linear(x).split(1, 1)
        log_s, t = self.coupled(a)
        return torch.cat([a, b * log_s.exp() + t], 1), self.linear.log_determinant() + log_s[:, 0]

    def inverse(self, y):
        """The x [B, 2] of a result [B, 2]."""
        a, b = y.split(1, 1)
        log_s, t = self.coupled(a)
        return self.linear.inverse(torch.cat([a, (b - t) / log_s.exp()], 1))


def encode(x):
    """Returns z [B, 2], whose distribution shall be normal, and log p(x) [B]."""
    density = 0
    for block in flow:
        x, log_determinant = block(x)
        density = density + log_determinant
    return x, density + normal.log_prob(x)


def decode(z):
    """The points x [B, 2] of z [B, 2]."""
    for block in reversed(flow):
        z = block.inverse(z)
    return z


torch.manual_seed(1)
torch.set_num_threads(1)  # for tensors as small as these
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
flow, normal = nn.ModuleList(Block() for _ in range(6)), MultivariateNormal(torch.zeros(2), torch.eye(2))
optimizer = torch.optim.Adam(flow.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
for step in range(steps):
    loss = -encode(moons(512))[1].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

torch.set_grad_enabled(False)
points, test = moons(4000), moons(4000)
z, density = encode(test)
gaussian = -MultivariateNormal(points.mean(0), points.T.cov()).log_prob(test).mean()
error = (decode(z) - test).abs().max()
print(f"negative log-likelihood: Gaussian {gaussian:.3f}  flow {-density.mean():.3f}  |x - x'| {error:.1e}")
if len(sys.argv) > 2:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 2.6), sharex=True, sharey=True, constrained_layout=True)
    axes[0].scatter(*test.T, s=0.5)
    axes[1].scatter(*decode(torch.randn(4000, 2)).T, s=0.5)
    grid = torch.meshgrid(torch.linspace(-1.5, 2.5, 300), torch.linspace(-1, 1.5, 200), indexing="xy")
    axes[2].pcolormesh(*grid, encode(torch.stack(grid, 2).flatten(0, 1))[1].exp().reshape(200, 300))
    for ax, title in zip(axes, ("data", "samples", "density")):
        ax.set(title=title, aspect="equal", xlim=(-1.5, 2.5), ylim=(-1, 1.5))
    figure.savefig(sys.argv[2], dpi=80)
if not -density.mean() < gaussian - 0.5:
    sys.exit(f"the flow is not better than a Gaussian by 0.5 after {steps} steps; expected more steps")
if not error < 1e-3:
    sys.exit("the inverse of the flow is not that of its map: |x - x'| is not below 1e-3")
