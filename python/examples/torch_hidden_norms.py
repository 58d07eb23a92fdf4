"""Norms of hidden states, and of the gradients that reach each step, of CwyRnn beside torch.nn.RNN.
torch_hidden_norms.py [FILE]"""
import sys

import matplotlib
import torch

from orthornn.torch import CwyRnn

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

file = sys.argv[1] if len(sys.argv) > 1 else "hidden-norms.png"
steps = 300


def norms(rnn):
    """Mean norms of the state of each step, and of the gradient of the last state at each input."""
    x = torch.randn(steps, 16, 8, requires_grad=True)
    states, _ = rnn(x)
    states[-1].norm(dim=1).sum().backward()
    return states.detach().norm(dim=2).mean(1), x.grad.norm(dim=2).mean(1)


torch.manual_seed(1)
figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
for name, rnn in ("CwyRnn", CwyRnn(8, 128)), ("nn.RNN", torch.nn.RNN(8, 128)):
    hidden, gradients = norms(rnn)
    axes[0].plot(hidden, label=name)
    axes[1].semilogy(gradients, label=name)
    print(f"{name}: |gradient at x_1| / |gradient at x_T| = {gradients[0] / gradients[-1]:.1e}")
axes[0].set(title="Norm of the state", xlabel="step")
axes[1].set(title="Norm of the gradient of the last state at each input", xlabel="step")
axes[0].legend()
figure.savefig(file)
