"""The copying task in 25 lines of PyTorch: repeat 10 symbols after DELAY steps.
torch_copying.py [DELAY] [STEPS]"""
import math
import sys

import torch
from orthornn.torch import CwyRnn

delay, steps = (int(x) for x in (sys.argv[1:] + ["30", "600"][len(sys.argv) - 1:]))


def batch_of(size):
    symbols = torch.randint(1, 9, (10, size))
    blank = torch.zeros(delay, size, dtype=torch.int64)
    start = torch.full((1, size), 9)
    rest = torch.zeros(9, size, dtype=torch.int64)
    return torch.cat([symbols, blank, start, rest]), torch.cat([blank, start * 0, rest, symbols])


torch.manual_seed(1)
rnn, readout = CwyRnn(10, 64, init="haar"), torch.nn.Linear(64, 9)
optimizer = torch.optim.Adam([*rnn.parameters(), *readout.parameters()], 2e-3)
for step in range(1, steps + 1):
    inputs, targets = batch_of(64)
    hidden, _ = rnn(torch.nn.functional.one_hot(inputs, 10).float())
    loss = torch.nn.functional.cross_entropy(readout(hidden).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0 or step == steps:
        print(f"step {step}  loss {loss.item():.4f}  (guesser {10 * math.log(8) / (delay + 20):.4f})")
