"""Trained models: loading, outputs, states, parameters."""

from __future__ import annotations

import collections
import contextlib
import copy
import ctypes
import errno
import json
import operator
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _abi, _arrays
from ._library import library

__all__ = ["Generator", "Model", "load"]

Floats = NDArray[np.float32]

_PRECISIONS = {"fp32": _abi.PRECISION_FP32, "tf32": _abi.PRECISION_TF32, "bf16": _abi.PRECISION_BF16}


def load(path: str | os.PathLike[str], device: str = "cpu", *, precision: str = "fp32") -> Model:
    """Loads a model file of any version, ``model.h5`` or ``best.h5`` of a training.

    :param device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` and so on.
    :param precision: of large products on a GPU: ``"fp32"``, ``"tf32"`` or ``"bf16"``.
    :raises FileNotFoundError: there is no such file.
    :raises orthornn.Error: the file is damaged or foreign, or the device cannot be used.
    """
    name = os.fsdecode(path)
    if not os.path.exists(name):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if precision not in _PRECISIONS:
        raise ValueError(f"precision is {precision!r}; expected one of {', '.join(_PRECISIONS)}")
    handle = ctypes.c_void_p()
    library().orthornn_model_load(os.fsencode(name), ctypes.byref(_device(device)), _PRECISIONS[precision],
                                  ctypes.byref(handle))
    return Model(handle)


def _device(name: str) -> ctypes.Structure:
    if not isinstance(name, str):
        raise TypeError(f"device is a {type(name).__name__}; expected 'cpu', 'cuda' or 'cuda:0' and so on")
    kind, colon, index = name.partition(":")
    if kind == "cpu" and not colon:
        return _abi.Device(_abi.CPU, 0, None)
    if kind == "cuda" and (not colon or index.isascii() and index.isdigit() and len(index) < 6):
        return _abi.Device(_abi.CUDA, int(index or 0), None)
    raise ValueError(f"device is {name!r}; expected 'cpu', 'cuda' or 'cuda:0' and so on")


# A process that is forked while a thread uses a model would wait forever for that thread, which it lacks.
_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _renew_locks() -> None:
    for model in _models:
        model._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


class Model:
    """A model in memory, which :func:`load` makes.

    Arrays have their sequences first: ``[B, T, ..]`` with B sequences of T steps. A model reads features, K
    numbers a step, or symbols, a whole number a step. It answers with C outputs at each step or once a
    sequence.
    Several threads may use a model; they take turns.
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._lock = threading.RLock()  # reentrant: a handler of a signal may use the model, too
        # Handles of generators that no longer exist. The next use of the model frees them. A thread that
        # drops a generator may hold the lock of another model, so it must not wait for this one.
        self._gone_generators: collections.deque[ctypes.c_void_p] = collections.deque()
        _finalize(self, _free_model, handle, self._gone_generators)
        _models.add(self)
        text = ctypes.c_char_p()
        library().orthornn_model_describe(handle, ctypes.byref(text))
        # Sizes of arrays come from it, so that callers get copies alone.
        self._about: dict[str, Any] = json.loads(text.value or b"")

    def __repr__(self) -> str:
        task = self._about["task"]
        numbers = sum(int(np.prod(p["shape"])) for p in self._about["parameters"])
        return f"<orthornn.Model of {task['name'] if task else 'no task'}: {numbers} parameters>"

    def __reduce__(self) -> Any:
        raise TypeError("a Model can be neither copied nor pickled; save it, and load the file")

    @property
    def description(self) -> dict[str, Any]:
        """What is known of the model, as a copy: ``kind``, ``input``, ``outputs``, ``steps`` and more."""
        return copy.deepcopy(self._about)

    @property
    def options(self) -> dict[str, Any]:
        """Options of the model, as its file has them: ``input``, ``cells``, ``readout``, ``loss``."""
        return copy.deepcopy(self._about["model"])

    @property
    def task(self) -> dict[str, Any] | None:
        """Task that the model was trained on: its ``name`` and its ``config``; None without one."""
        return copy.deepcopy(self._about["task"])

    @property
    def class_names(self) -> list[str]:
        """Names of the C classes, as far as the model knows them; otherwise empty."""
        return list(self._about.get("class_names", []))

    @property
    def parameters(self) -> Mapping[str, Floats]:
        """Parameters by their names, such as ``cell/reflection_vectors`` [L, N]; read-only copies."""
        return _Parameters(self)

    def predict(self, x: ArrayLike, lengths: ArrayLike | None = None) -> Any:
        """Computes outputs, with the numbers of ``orthornn predict``.

        :param x: features [B, T, K], or [B, T] if K is 1, as the training data had them: the model normalizes
            them itself. Symbols [B, T] for a model that reads symbols. Or a list of arrays [T_b, K] or [T_b],
            one for each sequence.
        :param lengths: steps of each sequence [B], 0 to T, if they differ; not for a list.
        :returns: outputs [B, T, C], or [B, C] if there is one answer a sequence: logits of classes, or
            numbers in the units of the training targets. For a list and answers at each step, a list of
            [T_b, C].
        :raises ValueError: for shapes, lengths and numbers that do not fit; the message names them.
        :raises TypeError: for arrays that are no numbers, or no whole numbers.
        """
        batch = self._batch(x, lengths)
        outputs, _ = self._run(batch, False)
        return batch.cut(outputs) if self._about["every_step"] else outputs

    def states(self, x: ArrayLike, lengths: ArrayLike | None = None) -> list[dict[str, Any]]:
        """Computes the states of all layers after every step.

        :param x: as in :meth:`predict`.
        :param lengths: as in :meth:`predict`.
        :returns: a dictionary for each layer, with its states by their names: [B, T, ..], zeros beyond the
            end of a sequence. For a list of arrays, each is a list of [T_b, ..]. A model that reads in an
            order of its own has its states in that order.
        :raises ValueError: also for a model that reads backward, which has no states at every step.
        """
        batch = self._batch(x, lengths)
        if not self._about["causal"]:
            raise ValueError("the model has no states at every step; expected one whose layers read forward")
        return self._by_layer([batch.cut(values) for values in self._run(batch, True)[1]])

    def generator(self, batch: int = 1) -> Generator:
        """Starts `batch` sequences that are given step by step.

        :raises ValueError: for a model that reads backward, or in an order of its own, as a model of permuted
            MNIST does.
        """
        return Generator(self, batch)

    def translate(self, sentences: str | Sequence[str], beam: int = 5) -> list[list[dict[str, Any]]]:
        """Translates sentences by a model of the task ``translate``, with beam search.

        :returns: for each sentence at most `beam` translations, the best one first, each with ``text``,
            ``log_probability``, ``score`` and ``complete``.
        """
        given = [sentences] if isinstance(sentences, str) else list(sentences)
        for i, sentence in enumerate(given):
            if not isinstance(sentence, str):
                raise TypeError(f"sentences[{i}] is a {type(sentence).__name__}; expected a str")
            if "\0" in sentence:
                raise ValueError(f"sentences[{i}] has a NUL; expected text")
        texts = (ctypes.c_char_p * len(given))(*(sentence.encode() for sentence in given))
        found = ctypes.c_char_p()
        with self._used() as handle:
            library().orthornn_model_translate(handle, texts, len(given), beam, ctypes.byref(found))
            return json.loads(found.value or b"[]")

    def generate(self, prompt: str, length: int, temperature: float = 1.0, seed: int = 1) -> str:
        """Draws a text of `length` symbols by a model of texts, as ``orthornn predict --generate`` does.

        :param prompt: text that comes before and is not repeated; ``""`` for none.
        :param temperature: divides the logits before a symbol is drawn; 0 takes the likeliest one.
        :param seed: of the draws, 0 to 2**64 - 1. The same arguments give the same text.
        :returns: the text; what a model of bytes writes that is no UTF-8 is U+FFFD.
        """
        if not isinstance(prompt, str):
            raise TypeError(f"prompt is a {type(prompt).__name__}; expected a str")
        if "\0" in prompt:
            raise ValueError("prompt has a NUL; expected text")
        length, seed = operator.index(length), operator.index(seed)
        for name, number, low, end in ("length", length, 1, 63), ("seed", seed, 0, 64):
            if not low <= number < 1 << end:
                raise ValueError(f"{name} is {number}; expected {low} to 2**{end} - 1")
        found, size = ctypes.c_void_p(), ctypes.c_int64()
        with self._used() as handle:
            library().orthornn_model_generate(handle, prompt.encode(), length, temperature, seed,
                                              ctypes.byref(found), ctypes.byref(size))
            return ctypes.string_at(found, size.value).decode(errors="replace")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model without its training and its task to a file, which is replaced in one step."""
        name = os.fsencode(path)
        if b"\0" in name:
            raise ValueError("path has a NUL; expected a file name")
        with self._used() as handle:
            library().orthornn_model_save(handle, name)

    @contextlib.contextmanager
    def _used(self) -> Iterator[ctypes.c_void_p]:
        """The handle, for one thread at a time."""
        with self._lock:
            _free_generators(self._gone_generators)
            yield self._handle

    @property
    def _reads_symbols(self) -> bool:
        return self._about["input"] == "symbols"

    def _values(self, name: str, x: ArrayLike) -> NDArray:
        return _arrays.integers(name, x) if self._reads_symbols else _arrays.features(name, x)

    def _steps(self, name: str, x: ArrayLike, shape: str) -> NDArray:
        """`x` as it is read, one axis for each letter of `shape`, and K behind them for features."""
        values = self._values(name, x)
        rank = len(shape)
        if self._reads_symbols:
            if values.ndim != rank:
                raise ValueError(f"{name} has the shape {list(values.shape)}; "
                                 f"this model reads symbols [{', '.join(shape)}]")
            return values
        size = self._about["input_size"]
        if values.ndim == rank and size == 1:
            values = values[..., np.newaxis]
        if values.ndim != rank + 1 or values.shape[-1] != size:
            raise ValueError(f"{name} has the shape {list(values.shape)}; "
                             f"this model reads features [{', '.join(shape)}, {size}]")
        return values

    def _batch(self, x: Any, lengths: ArrayLike | None) -> _Batch:
        if self._about["kind"] == "encoder-decoder":
            raise ValueError("the model translates and has no outputs of one sequence; use translate")
        if _arrays.is_ragged(x):
            if lengths is not None:
                raise ValueError("lengths is given beside a list of arrays; expected one of them")
            rows = [self._steps(f"x[{i}]", sequence, "T") for i, sequence in enumerate(x)]
            values, lengths = _arrays.padded(rows)
            return _Batch(values, lengths, rows_of_list=lengths)
        values = self._steps("x", x, "BT")
        if values.shape[1] == 0:
            raise ValueError(f"x has the shape {list(values.shape)}; expected a step at least")
        if lengths is not None:
            lengths = _arrays.lengths_of(lengths, values.shape[1], values.shape[0])
        return _Batch(values, lengths)

    def _run(self, batch: _Batch, with_states: bool) -> tuple[Floats, list[Floats]]:
        """Outputs [B, T, C] or [B, C], and the states [B, T, ..] if they are wanted."""
        count, steps = batch.values.shape[:2]
        values = np.ascontiguousarray(np.swapaxes(batch.values, 0, 1))  # [T, B, ..]
        features, symbols = (None, values.ctypes.data) if self._reads_symbols else (values.ctypes.data, None)
        lengths = None if batch.lengths is None else batch.lengths.ctypes.data
        shape, rank = (ctypes.c_int64 * 3)(), ctypes.c_int32()
        states = []
        if with_states:
            states = [np.empty((steps, count, *state["shape"]), np.float32)
                      for state in self._about["states"]]
        to = (ctypes.c_void_p * len(states))(*(state.ctypes.data for state in states)) if states else None
        with self._used() as handle:
            library().orthornn_model_output_shape(handle, steps, count, shape, ctypes.byref(rank))
            outputs = np.empty(shape[: rank.value], np.float32)
            library().orthornn_model_outputs(handle, steps, count, features, symbols, lengths,
                                             outputs.ctypes.data, None, to)
        if outputs.ndim == 3:
            outputs = _sequences_first(outputs)
        return outputs, [_sequences_first(state) for state in states]

    def _by_layer(self, values: Sequence[Any]) -> list[dict[str, Any]]:
        """States in the order of the description, by layer and name."""
        layers: list[dict[str, Any]] = [{} for _ in self._about["model"]["cells"]]
        for state, value in zip(self._about["states"], values):
            layers[state["layer"]][state["name"]] = value
        return layers


class _Batch:
    """Sequences [B, T, ..] with lengths [B] or None, and the lengths [B] to which results are cut, if any."""

    def __init__(self, values: NDArray, lengths: NDArray[np.int32] | None,
                 rows_of_list: NDArray[np.int32] | None = None) -> None:
        self.values = values
        self.lengths = lengths
        self._rows_of_list = rows_of_list

    def cut(self, values: Floats) -> Floats | list[Floats]:
        """Values [B, T, ..]; where the sequences were a list, a list of them without padding."""
        if self._rows_of_list is None:
            return values
        return [sequence[:rows] for sequence, rows in zip(values, self._rows_of_list)]


def _sequences_first(values: Floats) -> Floats:
    """[B, T, ..] of [T, B, ..], contiguous."""
    return np.ascontiguousarray(np.swapaxes(values, 0, 1))


class _Parameters(Mapping[str, Floats]):
    def __init__(self, model: Model) -> None:
        self._model = model
        self._shapes = {p["name"]: p["shape"] for p in model._about["parameters"]}

    def __getitem__(self, name: str) -> Floats:
        values = np.empty(self._shapes[name], np.float32)
        with self._model._used() as handle:
            library().orthornn_model_get_parameter(handle, name.encode(), values.ctypes.data, values.size)
        values.flags.writeable = False
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self) -> str:
        return f"<parameters {self._shapes}>"


class Generator:
    """B sequences that a model is given step by step; :meth:`Model.generator` makes it.

    On the CPU its numbers are those of :meth:`Model.predict`, bit for bit.
    """

    def __init__(self, model: Model, batch: int) -> None:
        if not model._about.get("step_by_step", False):
            raise ValueError("the model cannot run step by step; expected one that reads its steps forward, "
                             "in the order in which they are given")
        if not 1 <= batch < 1 << 31:
            raise ValueError(f"batch is {batch}; expected 1 or more")
        self._model = model  # lives as long as the generator
        self._batch = batch
        self._handle = ctypes.c_void_p()
        with model._used() as handle:
            library().orthornn_generator_create(handle, batch, ctypes.byref(self._handle))
        _finalize(self, _discard_generator, model, self._handle)

    def __reduce__(self) -> Any:
        raise TypeError("a Generator can be neither copied nor pickled; give its states to another one")

    def step(self, x: ArrayLike) -> Floats:
        """Goes on by one step of features [B, K] or symbols [B], and returns outputs [B, C].

        Features may be [B] if K is 1.
        """
        model = self._model
        values = model._steps("x", x, "B")
        if values.shape[0] != self._batch:
            raise ValueError(f"x has the shape {list(values.shape)}; expected {self._batch} sequences")
        features, symbols = (None, values.ctypes.data) if model._reads_symbols else (values.ctypes.data, None)
        outputs = np.empty((self._batch, model._about["outputs"]), np.float32)
        with model._used():
            library().orthornn_generator_step(self._handle, features, symbols, outputs.ctypes.data)
        return outputs

    def reset(self) -> None:
        """Starts all sequences anew."""
        with self._model._used():
            library().orthornn_generator_reset(self._handle)

    @property
    def states(self) -> list[dict[str, Floats]]:
        """States after the last step: a dictionary for each layer, with arrays [B, ..] by their names.

        Assign a list of this form to go on from other states.
        """
        values = [np.empty(shape, np.float32) for shape in self._state_shapes()]
        with self._model._used():
            for i, value in enumerate(values):
                library().orthornn_generator_get_state(self._handle, i, value.ctypes.data, value.size)
        return self._model._by_layer(values)

    @states.setter
    def states(self, layers: Sequence[Mapping[str, ArrayLike]]) -> None:
        values = []
        for state, shape in zip(self._model._about["states"], self._state_shapes()):
            name = f"states[{state['layer']}][{state['name']!r}]"
            try:
                value = layers[state["layer"]][state["name"]]
            except (IndexError, KeyError):
                raise ValueError(f"{name} is missing; expected an array {list(shape)}") from None
            array = _arrays.features(name, value)
            if array.shape != shape:
                raise ValueError(f"{name} has the shape {list(array.shape)}; expected {list(shape)}")
            values.append(array)
        with self._model._used():
            for i, value in enumerate(values):
                library().orthornn_generator_set_state(self._handle, i, value.ctypes.data, value.size)

    def _state_shapes(self) -> list[tuple[int, ...]]:
        return [(self._batch, *state["shape"]) for state in self._model._about["states"]]


def _finalize(of: object, function: Callable[..., None], *arguments: object) -> None:
    """Calls a function once an object is gone, and not at the end of the program: daemon threads may compute
    still."""
    weakref.finalize(of, function, *arguments).atexit = False


def _discard_generator(model: Model, handle: ctypes.c_void_p) -> None:
    """Leaves a generator to its model, which this keeps until then."""
    model._gone_generators.append(handle)


def _free_generators(handles: collections.deque[ctypes.c_void_p]) -> None:
    while handles:
        library().orthornn_generator_free(handles.popleft())


def _free_model(handle: ctypes.c_void_p, generators: collections.deque[ctypes.c_void_p]) -> None:
    _free_generators(generators)
    library().orthornn_model_free(handle)
