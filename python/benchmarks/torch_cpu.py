"""Times of orthornn.torch on the CPU: medians, with the first and the last quartile.

    python torch_cpu.py [--threads 2] [--rounds 30]

- A call: an operation of one step of one number, beside the same call of the C interface alone.
- A recurrence, forward and backward: T 200, N 128, B 32, in float32. Beside CwyRnn are torch.nn.RNN, and CWY
  by torch operations: the factors once, and each step as h - U S^-1 U^T h, or Q once. Rounds take turns, so
  that a change of the machine's speed meets all of them.
"""

import argparse
import statistics
import time

import torch
from orthornn._library import library
from orthornn.torch import CwyRnn, delta_product, rollout, transition
from orthornn.torch._calls import addresses, device_of, precision_of
from orthornn.torch._rollout import make_plan


class CwyOfTorchOperations(torch.nn.Module):
    """h_t = tanh(Q h_{t-1} + W x_t + b), with Q = I - U S^-1 U^T by torch operations."""

    def __init__(self, inputs, size, factored):
        super().__init__()
        self.rnn, self.factored = CwyRnn(inputs, size, activation="tanh"), factored

    def forward(self, x):
        own = self.rnn.layer_parameters()
        u = torch.nn.functional.normalize(own["reflection_vectors"], dim=1).T
        s = torch.triu(u.T @ u, 1) + 0.5 * torch.eye(u.shape[1])
        left = torch.linalg.solve_triangular(s, u.T, upper=True)
        a = torch.nn.functional.linear(x, own["weight_ih"], own["bias"])
        q = torch.eye(len(u)) - u @ left
        h, states = torch.zeros(x.shape[1], len(u)), []
        for step in a:
            product = h - (h @ left.T) @ u.T if self.factored else h @ q.T
            h = torch.tanh(product + step)
            states.append(h)
        return torch.stack(states), h


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def medians(functions, rounds):
    """Median and quartiles of each function's times; the functions take turns."""
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(timed(function))
    return {name: statistics.quantiles(values, n=4) for name, values in times.items()}


def training_step(module, x):
    def step():
        for p in module.parameters():
            p.grad = None
        module(x)[0].square().sum().backward()

    return step


def recurrences(rounds):
    x = torch.randn(200, 32, 16)
    torch.manual_seed(1)
    modules = {"CwyRnn, tanh": CwyRnn(16, 128, activation="tanh"), "CwyRnn, modrelu": CwyRnn(16, 128),
               "torch.nn.RNN, tanh": torch.nn.RNN(16, 128),
               "CWY by torch operations, factored": CwyOfTorchOperations(16, 128, True),
               "CWY by torch operations, Q once": CwyOfTorchOperations(16, 128, False)}
    return medians({name: training_step(module, x) for name, module in modules.items()}, rounds)


def calls(rounds):
    """Times of a call in seconds."""
    q, a, h_0 = torch.ones(1, 1), torch.ones(1, 1, 1), torch.ones(1, 1)
    leaf = a.clone().requires_grad_()
    options, count, _ = make_plan(q, a.shape, "tanh", precision_of(q))
    outputs, h_last = torch.empty(1, 1, 1), torch.empty(1, 1)
    workspace = torch.empty(count, dtype=torch.uint8)
    pointers = addresses(q, None, None, a, h_0, outputs, h_last, None, workspace)
    v = torch.ones(1, 1)
    queries, keys, betas = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1)

    def many(function, number=1000):
        def run():
            for _ in range(number):
                function()

        return run

    def forward():
        with torch.no_grad():
            rollout(q, a, h_0, None, "tanh")

    def both():
        rollout(q, leaf, h_0, None, "tanh")[0].backward(a)

    functions = {
        "C interface alone": lambda: library().orthornn_rollout_forward(device_of(q), options, *pointers,
                                                                        count),
        "rollout without a gradient": forward,
        "rollout with a gradient, forward": lambda: rollout(q, leaf, h_0, None, "tanh"),
        "rollout, forward and backward": both,
        "transition without a gradient": torch.no_grad()(lambda: transition("cwy", v)),
        "delta_product without a gradient": torch.no_grad()(
            lambda: delta_product(queries, keys, keys, betas)),
        "torch.add": lambda: q + q}
    found = medians({name: many(function) for name, function in functions.items()}, max(5, rounds // 2))
    return {name: [t / 1000 for t in values] for name, values in found.items()}


def show(found, unit, scale):
    for name, (low, middle, high) in found.items():
        print(f"  {name:36} {middle * scale:9.2f} {unit}   ({low * scale:.2f} to {high * scale:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} threads; medians of {arguments.rounds} rounds")
    print("A call:")
    show(calls(arguments.rounds), "us", 1e6)
    print("T 200, N 128, B 32, forward and backward:")
    show(recurrences(arguments.rounds), "ms", 1e3)


if __name__ == "__main__":
    main()
