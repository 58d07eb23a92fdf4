"""Training on several processes by DDP, with the losses of one process:

    python torch_ddp.py [STEPS]
    torchrun --nproc-per-node 2 torch_ddp.py [STEPS]

Each process takes its share of each batch. DDP averages the gradients."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from orthornn.torch import CwyRnn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
processes, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
if processes > 1:
    dist.init_process_group("gloo")


class Adding(torch.nn.Module):
    """The sum of the two numbers that the second input marks."""

    def __init__(self):
        super().__init__()
        self.rnn, self.readout = CwyRnn(2, 64), torch.nn.Linear(64, 1)

    def forward(self, x):
        return self.readout(self.rnn(x)[1][0])[:, 0]


torch.manual_seed(1)  # every process starts with the same parameters
model = Adding().double()
parallel = DistributedDataParallel(model) if processes > 1 else model
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(steps):
    random = torch.Generator().manual_seed(step)
    x = torch.rand(40, 32, 2, generator=random, dtype=torch.float64)
    marks = torch.stack([torch.randint(20, (32,), generator=random),
                        torch.randint(20, 40, (32,), generator=random)])
    x[..., 1] = torch.zeros(40, 32, dtype=x.dtype).scatter_(0, marks, 1.0)
    targets = (x[..., 0] * x[..., 1]).sum(0)
    loss = mse_loss(parallel(x[:, rank::processes]), targets[rank::processes])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach() / processes
    if processes > 1:
        dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step}  loss {mean.item():.10f}")
if processes > 1:
    dist.destroy_process_group()
