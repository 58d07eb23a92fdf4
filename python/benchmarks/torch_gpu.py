"""Times of orthornn.torch on a GPU, each beside its rivals in the same run: medians, by CUDA events.

    python torch_gpu.py --program build/release/orthornn --json gpu.json

- A call: the host's time for an operation of a few numbers, and the GPU's time for its kernels alone, by
  launches of a CUDA graph. Their difference is what a call costs beyond its kernels. Beside them are the
  times of torch.add and torch.nn.RNN on the host.
- A recurrence, forward and backward by autograd: T 784, N 512, B 128, tf32. Beside `transition` and
  `rollout` is `orthornn bench rollout`, which computes the same: Q, all states, and the gradients of the
  reflection vectors and of the inputs. Beside CwyRnn, which also multiplies the inputs of a step, is
  torch.nn.RNN.
- DeltaProduct, forward and backward by autograd: n 2, B 8, T 4096, H 8, K = V = 128, bfloat16. Beside it is
  `orthornn bench delta-product`.

Without a program, its rows are left out. Methods of torch take turns, so that a change of the machine's speed
meets all of them.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from orthornn.torch import CwyRnn, delta_product, delta_product_step, rank_one_chain, rollout, transition

WARM_UP = 5
CALLS = 200  # of a CUDA graph
QUEUED_CALLS = 25  # whose launches, up to 40 each, the queue of a GPU holds: it has 1024 places
STEPS = 10


def event_times(functions, rounds, repeats=1):
    """Milliseconds of each function on the GPU, one number a round. Where it is repeated in a round, the host
    is ahead of the GPU, as it is in a training: the first kernel of a call waits for no launch."""
    for function in functions.values():
        for _ in range(WARM_UP):
            function()
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            for _ in range(repeats):
                function()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / repeats)
    return times


def row(group, name, samples, unit, **more):
    low, middle, high = statistics.quantiles(samples, n=4)
    return {"group": group, "name": name, "unit": unit, "median": middle, "first_quartile": low,
            "last_quartile": high, **more}


def host_microseconds(function, rounds):
    """The host's time for a call. The GPU is idle before each round, and its queue holds all calls."""
    samples = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(QUEUED_CALLS):
            function()
        samples.append((time.perf_counter() - begin) / QUEUED_CALLS * 1e6)
    torch.cuda.synchronize()
    return samples[1:]


def kernel_microseconds(function, rounds):
    """The GPU's time for the kernels of a call: launches of a graph that has CALLS of them."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            function()
    return [t / CALLS * 1e3 for t in event_times({"graph": graph.replay}, rounds)["graph"]]


def calls():
    """Calls of a few numbers by name: a forward, and a forward with its backward."""
    ones = lambda *shape: torch.ones(shape, device="cuda")  # noqa: E731
    q, a, h_0 = ones(8, 8), ones(4, 2, 8), ones(2, 8)
    vectors, leaf = q + torch.eye(8, device="cuda"), a.clone().requires_grad_()
    keys = torch.nn.functional.normalize(ones(1, 8, 1, 1, 32), dim=-1)
    product = (ones(1, 8, 1, 32), keys, ones(1, 8, 1, 1, 32), ones(1, 8, 1, 1))
    queries = product[0].clone().requires_grad_()
    token, states = [x[:, 0] for x in product], ones(1, 1, 32, 32)
    chain = 0.1 * ones(1, 8, 1, 8), 0.1 * ones(1, 8, 1, 8), ones(1, 1, 8, 8)
    rnn = torch.nn.RNN(8, 8, device="cuda")
    weights = torch.ones_like(a), torch.ones_like(queries)

    def of_rnn():
        out = rnn(leaf)[0]
        torch.autograd.grad(out, leaf, weights[0])

    def of_rollout():
        torch.autograd.grad(rollout(q, leaf, h_0, None, "tanh")[0], leaf, weights[0])

    def of_product():
        torch.autograd.grad(delta_product(queries, *product[1:])[0], queries, weights[1])

    plain = {"torch.add": lambda: a + a, "torch.nn.RNN": lambda: rnn(a),
             "transition": lambda: transition("cwy", vectors),
             "rollout": lambda: rollout(q, a, h_0, None, "tanh"),
             "delta_product": lambda: delta_product(*product),
             "delta_product_step": lambda: delta_product_step(*token, states),
             "rank_one_chain": lambda: rank_one_chain(*chain)}
    return plain | {"torch.nn.RNN, forward and backward": of_rnn,
                    "rollout, forward and backward": of_rollout,
                    "delta_product, forward and backward": of_product}


def call_rows(rounds):
    rows = []
    for name, function in calls().items():
        with torch.set_grad_enabled("backward" in name):
            host, more = host_microseconds(function, rounds), {}
            if not name.startswith("torch."):
                kernels = statistics.median(kernel_microseconds(function, rounds))
                more = {"kernels": kernels, "beyond_kernels": statistics.median(host) - kernels}
        rows.append(row("call", name, host, "us", **more))
    return rows


def training_step(module, x):
    parameters = list(module.parameters())
    with torch.no_grad():
        d_output = torch.ones_like(module(x)[0])
    return lambda: torch.autograd.grad(module(x)[0], parameters, d_output)


def program_row(program, group, name, *arguments):
    """A row of `orthornn bench`, or none without a program."""
    if program is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "row.json"
        subprocess.run([program, "bench", *map(str, arguments), "--device", "cuda", "--json", file],
                       check=True, stdout=subprocess.DEVNULL)
        found = [x for x in json.loads(file.read_text()) if x.get("form") != "recurrent"]
    return [row(group, f"{name}, {x.get('rollout') or x.get('form')}", x["total_samples_ms"], "ms")
            for x in found]


def recurrence_rows(rounds, program):
    steps, batch, size = 784, 128, 512
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    group = f"T {steps}, N {size}, B {batch}, tf32, forward and backward"
    torch.manual_seed(1)
    x = torch.randn(steps, batch, 1, device="cuda")
    cwy = CwyRnn(1, size).cuda()
    modules = {"CwyRnn, modrelu": cwy, "CwyRnn, tanh": CwyRnn(1, size, activation="tanh").cuda(),
               "torch.nn.RNN, tanh": torch.nn.RNN(1, size).cuda()}
    v = cwy.layer_parameters()["reflection_vectors"].detach().clone().requires_grad_()
    a = torch.randn(steps, batch, size, device="cuda", requires_grad=True)
    h_0, bias = torch.zeros(batch, size, device="cuda"), torch.zeros(size, device="cuda", requires_grad=True)
    d_output = torch.randn(steps, batch, size, device="cuda")

    def alone():
        output = rollout(transition("cwy", v), a, h_0, None, "modrelu", bias)[0]
        torch.autograd.grad(output, [v, a, bias], d_output)

    functions = {"transition and rollout, modrelu": alone} | {
        name: training_step(module, x) for name, module in modules.items()}
    times = event_times(functions, rounds, STEPS)
    rows = [row(group, name, samples, "ms") for name, samples in times.items()]
    return rows + program_row(program, group, "orthornn bench rollout, modrelu", "rollout", "--cells", "cwy",
                              "--hidden", size, "--length", steps, "--batch", batch, "--precision", "tf32")


def delta_rows(rounds, program):
    n, batch, steps, heads, size = 2, 8, 4096, 8, 128
    group = (f"DeltaProduct, n {n}, B {batch}, T {steps}, H {heads}, K = V = {size}, bf16, forward and "
             "backward")
    torch.manual_seed(1)

    def draw(*shape):
        return torch.randn(batch, steps, *shape, device="cuda", dtype=torch.bfloat16).requires_grad_()

    queries, keys, values = draw(heads, size), draw(n, heads, size), draw(n, heads, size)
    betas = (2 * torch.rand(batch, steps, n, heads, device="cuda")).requires_grad_()
    d_output = torch.randn_like(queries)

    def step():
        output = delta_product(queries, keys, values, betas, unit_keys=True)[0]
        torch.autograd.grad(output, [queries, keys, values, betas], d_output)

    times = event_times({"delta_product": step}, rounds, STEPS)
    rows = [row(group, name, samples, "ms") for name, samples in times.items()]
    return rows + program_row(program, group, "orthornn bench delta-product", "delta-product",
                              "--householder", n, "--batch", batch, "--length", steps, "--heads", heads,
                              "--key", size, "--value", size, "--precision", "bf16")


def show(rows):
    group = None
    for x in rows:
        if x["group"] != group:
            group = x["group"]
            print(f"{group}:")
        more = "" if "kernels" not in x else (f"   kernels {x['kernels']:.2f}, beyond them "
                                              f"{x['beyond_kernels']:.2f}")
        print(f"  {x['name']:42} {x['median']:9.3f} {x['unit']}   ({x['first_quartile']:.3f} to "
              f"{x['last_quartile']:.3f}){more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", help="the program orthornn")
    parser.add_argument("--json", help="file for the rows")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error(f"--rounds: expected 2 or more, for quartiles, found {arguments.rounds}")
    machine = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rounds": arguments.rounds}
    print(f"torch {machine['torch']}, {machine['gpu']}; medians of {arguments.rounds} rounds, and quartiles")
    rows = []
    for part in (lambda: call_rows(arguments.rounds),
                 lambda: recurrence_rows(arguments.rounds, arguments.program),
                 lambda: delta_rows(arguments.rounds, arguments.program)):
        found = part()
        show(found)
        rows += found
        if arguments.json:
            Path(arguments.json).write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
