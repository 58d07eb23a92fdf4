"""Times of a training step of the video model in PyTorch, beside the program's in the same run: medians.

    python torch_video.py --program build/release/orthornn --precisions fp32 tf32 --json video.json

The model reads the frames of a clip but the last, and after each it predicts the next. The cells are
ConvNERU, whose hidden kernel is made by T-CWY at every step, and ConvLSTM without peepholes. The kernels have
3 x 3 pixels, and the readout is one map of the channels of a pixel. The loss is the mean over all pixels of
|error| + error^2. A step draws a batch of random clips that lie on the device. It ends with a clipped
gradient and a step of Adam. All models of a cell must have the same number of parameters.

The model of PyTorch is written from the formulas. Its convolutions are cuDNN's, with `cudnn.benchmark`. Those
of the inputs are one call for all frames, and so is the readout.

- torch eager: tensors as PyTorch makes them.
- torch eager, channels last: the channels of a pixel lie side by side, as in the program.
- torch compiled: the loss by `torch.compile(fullgraph=True)`. Compiling is not timed.
- torch compiled, graphs: the same with `mode="reduce-overhead"`, which records CUDA graphs. GPU only.

A sample is ten steps between two synchronizations on a GPU, and one step on the CPU, as in `orthornn
bench train`. With tf32 both round what convolutions
multiply. Both form the hidden kernel in fp32. Memory is measured on a GPU only, in two ways. Neither
counts the clips, the context or the code.

- allocated: the most that the tensors of PyTorch take during a step, by `torch.cuda.max_memory_allocated`. It
  is not known for CUDA graphs, which keep their memory.
- taken: the most that is taken from the device. Of PyTorch it is `torch.cuda.max_memory_reserved` after
  the warm-up, less what was reserved before: a lower bound, for rows before may have left room. Of the
  program it is the free memory of the device before a run less the least free memory during it. The same
  difference for a batch of one clip of two frames is subtracted. So nothing else may use the GPU.

Without a program, its rows and the ratios are left out.
"""

import argparse
import gc
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

KERNEL_SIZE = 3
CLIPS = 64  # that batches are drawn from
WARM_UP = 3  # samples
MIB = 2 ** 20
Row = dict[str, Any]


def convolution(x: Tensor, kernel: Tensor) -> Tensor:
    return functional.conv2d(x, kernel, padding=KERNEL_SIZE // 2)


class ConvNeru(nn.Module):
    """h <- relu(K_h * h + K_x * x + b), where K_h is a point of the Stiefel manifold over the kernel size."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.input = nn.Conv2d(1, channels, KERNEL_SIZE, padding=KERNEL_SIZE // 2)
        self.reflection_vectors = nn.Parameter(torch.randn(channels, KERNEL_SIZE ** 2 * channels))

    def stiefel_point(self) -> Tensor:
        """The first columns of I - U S^-1 U^T, by T-CWY."""
        size, rows = self.reflection_vectors.shape
        like = {"device": self.reflection_vectors.device, "dtype": self.reflection_vectors.dtype}
        u = functional.normalize(self.reflection_vectors, dim=1).T
        s = torch.eye(size, **like) / 2 + torch.triu(u.T @ u, 1)
        return torch.eye(rows, size, **like) - u @ torch.linalg.solve_triangular(s, u[:size].T, upper=True)

    def hidden_kernel(self) -> Tensor:
        shape = KERNEL_SIZE, KERNEL_SIZE, self.channels, self.channels  # row, column, input, output
        return (self.stiefel_point() / KERNEL_SIZE).reshape(shape).permute(3, 2, 0, 1)

    def forward(self, inputs: Sequence[Tensor], kernel: Tensor) -> list[Tensor]:
        state, states = torch.zeros_like(inputs[0]), []
        for x in inputs:
            state = torch.relu(x + convolution(state, kernel))
            states.append(state)
        return states


class ConvLstm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.input = nn.Conv2d(1, 4 * channels, KERNEL_SIZE, padding=KERNEL_SIZE // 2)
        self.hidden = nn.Parameter(nn.Conv2d(channels, 4 * channels, KERNEL_SIZE).weight.detach().clone())

    def hidden_kernel(self) -> Tensor:
        return self.hidden

    def forward(self, inputs: Sequence[Tensor], kernel: Tensor) -> list[Tensor]:
        state = cell = torch.zeros_like(inputs[0].chunk(4, 1)[0])
        states = []
        for x in inputs:
            i, f, g, o = (x + convolution(state, kernel)).chunk(4, 1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(cell)
            states.append(state)
        return states


CELLS = {"convneru": ConvNeru, "convlstm": ConvLstm}


class VideoModel(nn.Module):
    def __init__(self, cell: str, channels: int, layout: torch.memory_format) -> None:
        super().__init__()
        self.cell = CELLS[cell](channels)
        self.readout = nn.Conv2d(channels, 1, 1)
        self.layout = layout

    def predictions(self, clips: Tensor) -> Tensor:
        """The frames [T, B, 1, H, W] after each of the first T frames of clips [B, T + 1, H, W]."""
        frames = clips[:, :-1].transpose(0, 1).unsqueeze(2)
        inputs = self.cell.input(frames.flatten(0, 1)).contiguous(memory_format=self.layout)
        kernel = self.cell.hidden_kernel().contiguous(memory_format=self.layout)
        states = self.cell(inputs.chunk(frames.shape[0]), kernel)
        return self.readout(torch.cat(states)).reshape(frames.shape)

    def forward(self, clips: Tensor) -> Tensor:
        """The loss."""
        error = self.predictions(clips) - clips[:, 1:].transpose(0, 1).unsqueeze(2)
        return (error.abs() + error.square()).mean()


def training_step(model: nn.Module, loss_of: Callable[[Tensor], Tensor], clips: Tensor,
                  batch: int) -> Callable[[], Tensor]:
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-2, fused=True)

    def step() -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = loss_of(clips[torch.randint(len(clips), (batch,), device=clips.device)])
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    return step


def step_times(step: Callable[[], Tensor], samples: int, device: str) -> tuple[list[float], Row]:
    """Milliseconds of a step, one number a sample, and the most memory of the samples."""
    is_cuda = device == "cuda"
    steps = 10 if is_cuda else 1
    synchronize = torch.cuda.synchronize if is_cuda else lambda: None

    def sample() -> float:
        synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize()
        return (time.perf_counter() - begin) / steps * 1e3

    for _ in range(WARM_UP):
        sample()
    if not is_cuda:
        return [sample() for _ in range(samples)], {}
    torch.cuda.empty_cache()  # of what cuDNN's search has left
    sample()  # which takes again what a step needs
    torch.cuda.reset_peak_memory_stats()
    return [sample() for _ in range(samples)], {"allocated_bytes": torch.cuda.max_memory_allocated(),
                                                "taken_bytes": torch.cuda.max_memory_reserved()}


def row(group: str, name: str, samples: list[float], parameters: int, memory: Row) -> Row:
    return {"group": group, "name": name, "unit": "ms", "median": statistics.median(samples),
            "least": min(samples), "most": max(samples), "samples": samples, "parameters": parameters,
            **memory}


def forget() -> None:
    """Gives back what the models before have left on the device."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def torch_row(group: str, name: str, cell: str, clips: Tensor, work: argparse.Namespace,
              layout: torch.memory_format = torch.contiguous_format, **compiling: Any) -> Row:
    forget()
    before = {} if work.device != "cuda" else {"allocated_bytes": torch.cuda.memory_allocated(),
                                               "taken_bytes": torch.cuda.memory_reserved()}
    torch.manual_seed(1)
    model = VideoModel(cell, work.channels, layout).to(work.device)
    loss_of = torch.compile(model, **compiling) if compiling else model
    samples, memory = step_times(training_step(model, loss_of, clips, work.batch), work.samples, work.device)
    memory = {key: most - before[key] for key, most in memory.items()}
    if "mode" in compiling:
        memory.pop("allocated_bytes", None)
    return row(group, name, samples, sum(x.numel() for x in model.parameters()), memory)


def torch_ways(work: argparse.Namespace) -> dict[str, Row]:
    """What the rows of PyTorch differ in, by name."""
    ways = {"torch eager": {}, "torch eager, channels last": {"layout": torch.channels_last}}
    if work.compile:
        ways["torch compiled"] = {"fullgraph": True}
        if work.device == "cuda":
            ways["torch compiled, graphs"] = {"fullgraph": True, "mode": "reduce-overhead"}
    return ways


def run_program(arguments: Sequence[Any], watch: bool = False) -> int:
    """Returns by how many bytes the device's free memory was less during the run, if it is watched."""
    before = least = torch.cuda.mem_get_info()[0] if watch else 0
    with subprocess.Popen([str(x) for x in arguments], stdout=subprocess.DEVNULL) as process:
        while watch and process.poll() is None:
            least = min(least, torch.cuda.mem_get_info()[0])
            time.sleep(0.002)
    if process.returncode != 0:
        sys.exit(f"exit code {process.returncode} of {' '.join(str(x) for x in arguments)}")
    return before - least


def program_row(group: str, cell: str, precision: str, clips: Path, work: argparse.Namespace) -> Row:
    forget()
    result = clips.with_name("row.json")
    arguments = [work.program, "bench", "train", "video", "--clips", "own", "--data", clips, "--cell", cell,
                 "--hidden", work.channels, "--kernel-size", KERNEL_SIZE, "--optimizer", "adam", "--device",
                 work.device, "--precision", precision, "--json", result, "--overwrite"]
    size = ["--frames", work.frames, "--batch", work.batch]
    memory = {}
    if work.device == "cuda":
        most, of_code = (run_program([*arguments, *of_run, "--samples", 2], watch=True)
                         for of_run in (size, ["--frames", 2, "--batch", 1]))
        memory = {"taken_bytes": most - of_code}
    run_program([*arguments, *size, "--samples", work.samples])
    found = json.loads(result.read_text())
    return row(group, "orthornn", found["step_samples_ms"], found["parameters"], memory)


def mebibytes(x: Row, key: str) -> str:
    return f"{x[key] / MIB:.0f}" if key in x else "-"


def show_line(group: str, name: str, *numbers: str) -> None:
    median, least_to_most, *others = numbers
    print(f"{group:15} {name:27} {median:>9} {least_to_most:24}", *(f"{x:>13}" for x in others), flush=True)


def show(x: Row) -> None:
    ratio = f"{x['ratio']:.2f}" if "ratio" in x else "-"
    show_line(x["group"], x["name"], f"{x['median']:.3f}", f"({x['least']:.3f} to {x['most']:.3f})",
              mebibytes(x, "allocated_bytes"), mebibytes(x, "taken_bytes"), ratio)


def rows_of_cell(cell: str, precision: str, clips: Tensor, file: Path,
                 work: argparse.Namespace) -> Iterator[Row]:
    group = f"{cell}, {precision}"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    if work.program is not None:
        yield program_row(group, cell, precision, file, work)
    for name, way in torch_ways(work).items():
        yield torch_row(group, name, cell, clips, work, **way)


def measured_rows(work: argparse.Namespace, folder: Path) -> Iterator[Row]:
    clips = np.random.default_rng(1).random((CLIPS, work.frames, work.size, work.size), dtype=np.float32)
    file = folder / "clips.npy"
    np.save(file, clips)
    on_device = torch.from_numpy(clips).to(work.device)
    for precision, cell in itertools.product(work.precisions, work.cells):
        first = None
        for found in rows_of_cell(cell, precision, on_device, file, work):
            first = first or found
            if found["parameters"] != first["parameters"]:
                sys.exit(f"{found['group']}: {found['name']} has {found['parameters']} parameters, "
                         f"{first['name']} {first['parameters']}")
            if work.program is not None:
                found["ratio"] = found["median"] / first["median"]
            yield found


def machine_of(work: argparse.Namespace) -> Row:
    machine = {"torch": torch.__version__, "device": work.device}
    if work.device == "cuda":
        machine |= {"gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()}
    sizes = ("batch", "frames", "size", "channels", "samples")
    return machine | {key: getattr(work, key) for key in sizes}


def parsed() -> argparse.Namespace:
    def number_from(least: int) -> Callable[[str], int]:
        def number(text: str) -> int:
            if int(text) < least:
                raise argparse.ArgumentTypeError(f"expected {least} or more, found {text}")
            return int(text)
        return number

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", help="the program orthornn")
    parser.add_argument("--json", help="file for the rows")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "tf32"), default=["fp32"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True,
                        help="rows of torch.compile")
    for flag, value, least, help_text in (("--samples", 20, 1, "samples of a row"),
                                          ("--batch", 32, 1, "clips of a batch"),
                                          ("--frames", 20, 2, "frames of a clip"),
                                          ("--size", 64, 7, "rows and columns of a frame"),
                                          ("--channels", 32, 1, "channels of the state")):
        parser.add_argument(flag, type=number_from(least), default=value, help=help_text)
    work = parser.parse_args()
    if work.device == "cpu" and work.precisions != ["fp32"]:
        parser.error("--precisions: the CPU has fp32 alone")
    return work


def main() -> None:
    work = parsed()
    torch.backends.cudnn.benchmark = True
    machine, rows = machine_of(work), []
    print(f"torch {machine['torch']}, {machine.get('gpu', 'CPU')}; a training step of {work.batch} clips of "
          f"{work.frames} frames of {work.size} x {work.size}, {work.channels} channels; medians of "
          f"{work.samples} samples")
    show_line("cell", "who", "ms", "(least to most)", "MiB allocated", "MiB taken", "/ orthornn")
    with tempfile.TemporaryDirectory() as folder:
        for found in measured_rows(work, Path(folder)):
            show(found)
            rows.append(found)
            if work.json:
                Path(work.json).write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
