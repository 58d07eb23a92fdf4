"""Checks of the arrays that callers give, and their conversion to what the library reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_INT32 = np.iinfo(np.int32)


def _array(name: str, values: ArrayLike) -> NDArray:
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} is no array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has the type {array.dtype}; expected numbers")
    return array


def features(name: str, values: ArrayLike) -> NDArray[np.float32]:
    """Numbers as a contiguous array of float32. Raises TypeError for anything else."""
    # Numbers that are too large become inf, which the library refuses by its place.
    with np.errstate(over="ignore"):
        return np.asarray(_array(name, values), dtype=np.float32, order="C")


def integers(name: str, values: ArrayLike) -> NDArray[np.int32]:
    """Whole numbers as a contiguous array of int32. Raises TypeError or ValueError for others."""
    array = _array(name, values)
    if array.dtype.kind not in "iu" and array.size > 0:
        raise TypeError(f"{name} has the type {array.dtype}; expected whole numbers")
    if array.size > 0 and not (_INT32.min <= array.min() and array.max() <= _INT32.max):
        raise ValueError(f"{name} has numbers from {array.min()} to {array.max()}; expected 32 bits")
    return np.asarray(array, dtype=np.int32, order="C")


def lengths_of(values: ArrayLike, steps: int, batch: int) -> NDArray[np.int32]:
    """Lengths [B] of sequences of at most `steps` steps. Raises TypeError or ValueError for others."""
    lengths = integers("lengths", values)
    if lengths.shape != (batch,):
        raise ValueError(f"lengths has the shape {list(lengths.shape)}; expected [{batch}], one a sequence")
    for i, length in enumerate(lengths):
        if not 0 <= length <= steps:
            raise ValueError(f"lengths[{i}] is {length}; expected 0 to {steps}")
    return lengths


def is_ragged(values: object) -> bool:
    """Whether these are a list or a tuple of arrays, one for each sequence."""
    return isinstance(values, (list, tuple)) and any(isinstance(sequence, np.ndarray) for sequence in values)


def padded(sequences: Sequence[NDArray]) -> tuple[NDArray, NDArray[np.int32]]:
    """Sequences [T_b, ..] as [B, T, ..] with zeros beyond their ends, and their lengths [B]."""
    rows = sequences[0].shape[1:]
    for i, sequence in enumerate(sequences):
        if sequence.ndim == 0 or sequence.shape[1:] != rows:
            raise ValueError(f"x[{i}] has the shape {list(sequence.shape)}; expected "
                             f"{['T', *rows]}, as x[0] has".replace("'", ""))
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int32)
    result = np.zeros((len(sequences), max(1, lengths.max()), *rows), dtype=sequences[0].dtype)
    for i, sequence in enumerate(sequences):
        result[i, : len(sequence)] = sequence
    return result, lengths
