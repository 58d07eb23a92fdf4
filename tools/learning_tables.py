"""The tables of tools/learning-table: their tasks and cells, and what a table says of a cell's trainings."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# Names of the files that tools/fetch-data brings, packed or unpacked.
DATA_FILES = {"mnist": ["train-images*"], "tatoeba": ["spa-eng.zip", "spa.txt"]}
Row = dict[str, str]  # of a CSV file


# What tables say of the trainings of a cell

METRICS = ["accuracy", "loss", "perplexity", "bleu", "chrf", "mse", "mae", "ssim", "psnr"]
FIELDS = ["task", "cell", "seed", "outcome", "steps", "seconds", "parameters", *METRICS, "options"]
FORMS = {"accuracy": ".1f", "loss": "#.3g", "perplexity": ".2f", "bleu": ".1f", "chrf": ".1f", "mse": ".4f",
         "ssim": ".3f", "steps": ".0f", "seconds": ".1f", "parameters": ",.0f"}
UNITS = {"accuracy": " % right", "steps": " steps", "seconds": " s"}


def joined(parts: Sequence[str], separator: str) -> str:
    return separator.join(part for part in parts if part)


def spread(rows: list[Row], name: str) -> str:
    """Mean and sample standard deviation of a figure; "" where no training has it."""
    values = [float(row[name]) * (100 if name == "accuracy" else 1) for row in rows if row[name]]
    if not values:
        return ""
    numbers = [statistics.mean(values)] + ([statistics.stdev(values)] if len(values) > 1 else [])
    text = " ± ".join(f"{number:{FORMS[name]}}" for number in numbers)
    return text.removesuffix(" ± 0") if name == "parameters" else text  # those that no seed changes


def spreads(rows: list[Row], *names: str) -> str:
    """Several of them, with their units."""
    return joined([(text := spread(rows, name)) and text + UNITS.get(name, "") for name in names], ", ")


def with_divergence(text: str, rows: list[Row]) -> str:
    count = sum(row["outcome"] == "diverged" for row in rows)
    return joined([text, f"{count} diverged" if count else ""], "; ")


def learned(rows: list[Row]) -> str:
    """Steps and seconds of the trainings that solved their task, and how far the others came."""
    solved, others = ([row for row in rows if row["outcome"] == end] for end in ("solved", "not solved"))
    loss = f"loss {spread(others, 'loss')}" if others else ""
    rest = joined([spreads(others, "accuracy"), loss], ", ")
    text = with_divergence(joined([spreads(solved, "steps", "seconds"), rest], "; "), rows)
    return f"{text} ({len(solved)} of {len(rows)})"


def parameters_of(found: list[tuple[str, list[Row]]]) -> str:
    """Numbers of parameters of a cell, each with the kinds of tasks that have it if there are several.
    `found` has these kinds and the trainings."""
    kinds: dict[str, list[str]] = {}
    for kind, rows in found:
        if number := spread(rows, "parameters"):
            kinds.setdefault(number, []).append(kind)
    if len(kinds) < 2:
        return joined(list(kinds), "") or "-"
    return " / ".join(f"{number} {', '.join(dict.fromkeys(names))}" for number, names in kinds.items())


def shown(*names: str) -> Callable[[list[Row]], str]:
    """These figures, with their units if there are several."""
    def text(rows: list[Row]) -> str:
        ended = [row for row in rows if row["outcome"] != "diverged"]
        return with_divergence(spreads(ended, *names) if len(names) > 1 else spread(ended, *names), rows)
    return text


# Tables

@dataclass(frozen=True)
class Cell:
    name: str  # in files
    title: str  # in tables
    options: str  # of `orthornn train`


@dataclass(frozen=True)
class Task:
    name: str
    options: str
    cells: Sequence[Cell]
    columns: dict[str, Callable[[list[Row]], str]]  # by their titles
    hidden: int = 0  # 0 for the task's default
    end: str = ""  # option that says when a training ends
    precision: str = ""  # on a GPU, if it is not the default
    data: str = ""  # folder of tools/fetch-data
    seeds: int = 3
    left_out: dict[str, str] = field(default_factory=dict)  # cells that are trained with --cells only: why


@dataclass(frozen=True)
class Table:
    name: str
    about: str
    minutes: str  # on an H200
    tasks: Sequence[Task]


def cwy(reflections: int) -> Cell:
    return Cell(f"cwy-{reflections}", f"CWY, L = {reflections}", f"--cell cwy --reflections {reflections}")


TILED = Cell("householder", "Householder, tiled", "--cell householder")
OWN = Cell("own", "orthogonal weight normalization", "--cell own")
MATRIX = Cell("matrix", "the matrix itself, rgd-adam", "--cell matrix")
FREE = Cell("free", "unconstrained", "--cell free")


def rivals(size: int, signs: int, more: str = "") -> list[Cell]:
    """Cells with states of this size, entries -1 of scoRNN, and more options of scoRNN and EXPRNN."""
    return [*map(cwy, (size, size // 2, size // 4, size // 8)), TILED,
            Cell("householder-rank-one", "Householder, rank-one updates", "--cell householder --rank-one-updates"),
            Cell("scornn", f"scoRNN, {signs} signs", f"--cell cayley --negative-signs {signs}{more}"),
            Cell("exprnn", "EXPRNN", f"--cell expm{more}"), OWN, MATRIX, FREE,
            Cell("lstm", "LSTM", "--cell lstm"), Cell("gru", "GRU", "--cell gru")]


def convneru(kernel: str, title: str) -> Cell:
    return Cell(f"convneru-{kernel}", f"ConvNERU, {title}", f"--cell convneru --hidden-kernel {kernel}")


def until_solved(task: str, length: int, hidden: int, cells: Sequence[Cell], **more) -> Task:
    option = {"copying": "delay", "adding": "length"}[task]
    return Task(f"{task}-{length}", f"{task} --{option} {length}", cells, {f"{task}, T = {length}": learned},
                hidden, "--until-solved", **more)


def mnist(order: str, hidden: int, cells: Sequence[Cell], **more) -> Task:
    name, options = {"pixel": ("mnist", "mnist"), "permuted": ("permuted-mnist", "mnist --permuted")}[order]
    return Task(name, options, cells, {f"{order} MNIST": shown("accuracy", "seconds")}, hidden, "--epochs 15",
                data="mnist", **more)


def long(**times: str) -> dict[str, str]:
    return {name.replace("_", "-"): f"some {time} a training on an H200" for name, time in times.items()}


DEFAULTS = [cwy(128), cwy(32), Cell("cayley", "Cayley", "--cell cayley"),
            Cell("expm", "exponential", "--cell expm"), OWN, MATRIX, FREE]
# The authors' program of scoRNN (Helfrich, Willmott and Ye, 2018) has 95 entries -1 of 190 for copying and 17
# of 170 for MNIST. It knows no translation.
COPYING = rivals(190, signs=190 // 2)
MNIST = rivals(512, signs=512 // 10)
# tools/bench-results/translation has this rate.
TRANSLATION = rivals(1024, signs=1024 // 2, more=" --lr-orth 1e-4")
VIDEO = [convneru("stiefel", "T-CWY"), convneru("own", OWN.title), convneru("matrix", MATRIX.title),
         *(convneru(name, f"free, begins as {name}") for name in ("glorot", "orthogonal", "zeros")),
         Cell("convlstm", "ConvLSTM", "--cell convlstm")]

TABLES = [
    Table("defaults", "what the defaults learn with N = 128; MNIST from one seed", "10", [
        until_solved("copying", 200, 128, [*DEFAULTS, TILED]),
        until_solved("adding", 200, 128, [*DEFAULTS, TILED]),
        until_solved("copying", 1000, 128, DEFAULTS),
        until_solved("adding", 750, 128, DEFAULTS),
        until_solved("copying", 2000, 128, [cwy(128)]),
        mnist("pixel", 128, DEFAULTS, seeds=1),
        mnist("permuted", 128, DEFAULTS, seeds=1)]),
    Table("copying", "copying over 1000 and 2000 steps until solved, N = 190", "45", [
        until_solved("copying", 1000, 190, COPYING, left_out=long(householder_rank_one="5 minutes")),
        until_solved("copying", 2000, 190, COPYING, left_out=long(householder_rank_one="25 minutes"))]),
    Table("mnist", "MNIST and permuted MNIST pixel by pixel, N = 512, 15 epochs, tf32", "45", [
        mnist(order, 512, MNIST, precision="tf32",
              left_out=long(householder="25 minutes", householder_rank_one="6 hours"))
        for order in ("pixel", "permuted")]),
    Table("translation", "English to Spanish, all pairs, N = 1024, 10 epochs, tf32", "50", [
        Task("translation", "translate --tied --embedding-size 512 --dropout 0.5", TRANSLATION,
             {"perplexity": shown("perplexity"), "BLEU": shown("bleu"), "chrF2": shown("chrf"),
              "seconds": shown("seconds")}, 1024, "--epochs 10", "tf32", "tatoeba",
             left_out=long(householder_rank_one="40 minutes"))]),
    Table("video", "Moving MNIST, the next frame of 64 x 64 pixels", "4", [
        Task("moving-mnist", "video --clips mnist", VIDEO,
             {"MSE": shown("mse"), "SSIM": shown("ssim"), "seconds": shown("seconds")}, data="mnist")]),
]
