"""The program of the package, and small models that it trains for a few steps."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from orthornn import _library


@pytest.fixture(scope="session")
def program_file() -> Path:
    """The program beside the library that is tested."""
    own = os.environ.get("ORTHORNN_LIBRARY")
    if not own:
        return _library.find_program()
    return next(folder / "orthornn" for folder in Path(own).absolute().parents
                if (folder / "CMakeCache.txt").exists())


@pytest.fixture(scope="session")
def program(program_file):
    """Runs the program with arguments; it must succeed. Returns its output."""
    def run(*arguments: object) -> str:
        result = subprocess.run([program_file, *map(str, arguments)], text=True, capture_output=True,
                                timeout=300)
        assert result.returncode == 0, result.stderr
        return result.stdout
    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("models")


def write_data(folder: Path) -> None:
    """Files that `train sequences`, `mnist` and `translate` read."""
    random = np.random.default_rng(1)
    x = random.normal(3, 2, (60, 9, 2)).astype("f4")
    np.savez(folder / "series.npz", inputs=x, targets=(100 + 10 * np.cumsum(x, axis=1)).astype("f4"))
    lengths = random.integers(1, 10, 60).astype("i4")
    ragged = random.normal(0, 1, (lengths.sum(), 2)).astype("f4")
    classes = (np.arange(60) % 3).astype("i4")
    np.savez(folder / "classes.npz", inputs=ragged, lengths=lengths, targets=classes)
    np.savez(folder / "symbols.npz", symbols=random.integers(0, 5, (60, 7)).astype("i4"), targets=classes)
    (folder / "text.txt").write_text("to be or not to be\nthat is the question\n" * 40)
    pairs = "".join(f"{a} {b}\t{b} {a}\n" for a in "abcdefgh" for b in "ijklmnop")
    (folder / "pairs.txt").write_text(pairs)
    (folder / "backward.toml").write_text(
        '[[layer]]\nkind = "bidirectional"\n[[layer.layers]]\nkind = "lstm"\nhidden_size = 8\n')
    (folder / "mnist").mkdir()
    for name, count in (("train", 40), ("t10k", 20)):
        pixels = random.integers(0, 256, (count, 28, 28)).astype("u1")
        labels = (np.arange(count) % 10).astype("u1")
        with gzip.open(folder / "mnist" / f"{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4i", 0x803, count, 28, 28) + pixels.tobytes())
        with gzip.open(folder / "mnist" / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2i", 0x801, count) + labels.tobytes())


# Trainings by the names of their models.
TRAININGS = {
    "copying": "copying --delay 12 --hidden 16 --cell cwy",
    "expm": "copying --delay 12 --hidden 16 --cell expm",
    "adding": "adding --length 11 --hidden 12 --cell cayley --layers 2",
    "lstm": "copying --delay 12 --hidden 16 --cell lstm",
    "deltaproduct": "words --group S3 --cell deltaproduct --length 8 --layers 2",
    "class": "sequences --data {folder}/classes.npz --hidden 16 --cell householder --reflections 4",
    "step-value": "sequences --data {folder}/series.npz --hidden 16 --cell gru",
    "symbols": "sequences --data {folder}/symbols.npz --hidden 16",
    "text": "sequences --data {folder}/text.txt --hidden 16 --length 8",
    "mnist": "mnist --data {folder}/mnist --hidden 16 --permuted",
    "backward": "sequences --data {folder}/series.npz --config {folder}/backward.toml",
    "translate": "translate --data {folder}/pairs.txt --hidden 16 --embedding-size 8",
}


@pytest.fixture(scope="session")
def models(program, folder):
    """The path of the model file of a name of TRAININGS, which is trained when it is first wanted."""
    write_data(folder)
    found: dict[str, Path] = {}

    def path(name: str) -> Path:
        if name not in found:
            options = TRAININGS[name].format(folder=folder).split()
            program("train", *options, "--batch", 8, "--steps", 3, "--threads", 1, "--out", folder / name)
            found[name] = folder / name / "model.h5"
        return found[name]
    return path
