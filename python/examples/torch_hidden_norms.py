"""Norms of hidden states, and of the gradients that reach each step, of CwyRnn beside torch.nn.RNN.
torch_hidden_norms.py [FILE]; with a file it plots them there by matplotlib."""
import sys

import torch

from orthornn.torch import CwyRnn

steps = 300


def norms(rnn):
    """Mean norms of the state of each step, and of the gradient of the last state at each input."""
    x = torch.randn(steps, 16, 8, requires_grad=True)
    states, _ = rnn(x)
    states[-1].norm(dim=1).sum().backward()
    return states.detach().norm(dim=2).mean(1), x.grad.norm(dim=2).mean(1)


def plot(found, file):
    """Writes a plot of the norms by the names of the layers."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for name, (hidden, gradients) in found.items():
        axes[0].plot(hidden, label=name)
        axes[1].semilogy(gradients, label=name)
    axes[0].set(title="Norm of the state", xlabel="step")
    axes[1].set(title="Norm of the gradient of the last state at each input", xlabel="step")
    axes[0].legend()
    figure.savefig(file)


torch.manual_seed(1)
found = {"CwyRnn": norms(CwyRnn(8, 128)), "nn.RNN": norms(torch.nn.RNN(8, 128))}
for name, (hidden, gradients) in found.items():
    print(f"{name}: |gradient at x_1| / |gradient at x_T| = {gradients[0] / gradients[-1]:.1e}")
if len(sys.argv) > 1:
    plot(found, sys.argv[1])
