"""Models of orthornn as modules of PyTorch, and back."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

import orthornn
from .._library import library
from .delta_layer import DeltaProduct
from .layers import (Bidirectional, Delta, Gated, Orthogonal, Stack, Stateless, live_steps,
                     make_layers)
from .rnn import OrthogonalRnn


class SequenceModel(nn.Module):
    """A model of orthornn as a module; `to_torch` makes it.

    It reads x [B, T, K], or symbols [B, T], and lengths [B], or None where all sequences have T steps. It
    returns outputs [B, T, C], or [B, C] for a model that answers once a sequence. `options` are those of its
    file.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        if "cells" not in options:
            raise ValueError("model: expected one that reads one sequence, found an encoder-decoder, which "
                             "has no module; translate by the translate of the orthornn.Model")
        if options["readout"]["kind"] not in ("every_step", "last_step"):
            raise ValueError("model: expected one that answers at each step or at the last one, found the readout "
                             f"{options['readout']['kind']}, which has no module; a model of frames predicts "
                             "by orthornn.Model")
        self.options = options
        kind = options["input"]
        self.input_kind = kind["kind"]
        self.symbols = kind.get("symbols", kind.get("tokens"))
        self.embedding = None
        if self.input_kind == "embedding":
            self.embedding = nn.Embedding(kind["tokens"], kind["size"])
        layers, outputs = make_layers(options["cells"], kind.get("size", self.symbols))
        self.stack = Stack(layers)
        self.every_step = options["readout"]["kind"] == "every_step"
        self.readout = nn.Linear(outputs, options["readout"]["outputs"])

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns outputs [B, T, C] or [B, C]. Raises ValueError for x of another shape. For symbols that the
        model does not know it raises what torch does: IndexError with an embedding, else RuntimeError."""
        wanted = "vectors [B, T, K]" if self.symbols is None else "symbols [B, T]"
        if x.ndim != (3 if self.symbols is None else 2):
            raise ValueError(f"x: expected {wanted}, found shape {list(x.shape)}")
        lengths = None if lengths is None else lengths.to(x.device)
        x = self._vectors(x.transpose(0, 1), lengths)
        y = self.stack(x, lengths)
        if self.every_step:
            return self.readout(y).transpose(0, 1)
        return self.readout(self._last(y, lengths))

    def _vectors(self, x, lengths):
        if self.symbols is None:
            return x if lengths is None else torch.where(live_steps(x, lengths), x, torch.zeros_like(x))
        if self.embedding is not None:
            return self.embedding(x)
        return nn.functional.one_hot(x.long(), self.symbols).to(self.readout.weight.dtype)

    def _last(self, y, lengths):
        """Outputs [B, N] of the last live steps."""
        if lengths is None and len(y) > 0:
            return y[-1]
        layer = self.stack.layers[-1]
        empty = layer.empty_output() if isinstance(layer, Orthogonal) else None
        start = (y.new_zeros(1, *y.shape[1:]) if empty is None else empty.expand(1, *y.shape[1:]))
        place = torch.zeros(y.shape[1], dtype=torch.int64) if lengths is None else lengths.long()
        index = place.to(y.device)[None, :, None].expand(1, -1, y.shape[2])
        return torch.cat([start, y]).gather(0, index)[0]

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        names = {"embedding/vectors": self.embedding.weight} if self.embedding is not None else {}
        one = len(self.stack.layers) == 1
        for i, layer in enumerate(self.stack.layers):
            names |= {f"cell{'' if one else i}/{name}": p for name, p in layer.parameter_names().items()}
        return names | {"readout/weight": self.readout.weight, "readout/bias": self.readout.bias}


def to_torch(model: orthornn.Model) -> SequenceModel:
    """Returns a SequenceModel with the function and the parameters, bit for bit, of an `orthornn.Model`.

    It computes what the network computes: a model of own data that normalizes features, or of a permuted
    task, gets them normalized, or permuted, from its caller. Raises ValueError for an encoder-decoder.
    """
    if not isinstance(model, orthornn.Model):
        raise TypeError(f"model: expected an orthornn.Model, as orthornn.load returns it, found "
                        f"{type(model).__name__}")
    module = SequenceModel(model.options)
    own = module.parameter_names()
    with torch.no_grad():
        for name, value in model.parameters.items():
            own.pop(name).copy_(torch.tensor(value))
    if own:
        raise ValueError(f"model: expected the parameters {', '.join(own)}, which it does not have")
    return module


def from_torch(module: nn.Module, *, input: str = "dense", answer: str = "every_step",
               loss: str = "softmax_cross_entropy") -> orthornn.Model:
    """Returns an `orthornn.Model` with the parameters, bit for bit, of a module; its `save` writes a model
    file.

    The module is one of `to_torch`, or a module of your own whose children are, in this order: perhaps a
    torch.nn.Embedding; layers, which are orthogonal layers, DeltaProduct, torch.nn.LSTM and torch.nn.GRU; and
    a torch.nn.Linear. The arguments say what a module of your own does with them:

    - input: "dense" for vectors, "one_hot" for symbols as unit vectors. With an Embedding it is not read.
    - answer: "every_step" where the Linear reads each step, "last_step" where it reads the last one.
    - loss: "softmax_cross_entropy" or "mean_squared_error".

    A parametrized weight (torch.nn.utils.parametrize) becomes the matrix that it is now. Raises TypeError
    for other children and for parameters that are not float32.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: expected a torch.nn.Module, found {type(module).__name__}")
    if not isinstance(module, SequenceModel):
        module = _sequence_model(module, input, answer, loss)
    own = module.parameter_names()
    handle = ctypes.c_void_p()
    library().orthornn_model_create(json.dumps(module.options).encode(), 0, None, 0, ctypes.byref(handle))
    model = orthornn.Model(handle)
    if missing := set(model.parameters) - set(own):
        raise TypeError(f"module: expected the parameters {', '.join(sorted(missing))}, which its layers do not "
                        "have as a torch.nn.Parameter")
    for name, parameter in own.items():
        if parameter.dtype != torch.float32:
            raise TypeError(f"module: expected parameters of torch.float32, found {parameter.dtype} in "
                            f"{name}; call float() first")
        values = parameter.detach().to("cpu").contiguous()
        library().orthornn_model_set_parameter(handle, name.encode(), values.data_ptr(), values.numel())
    return model


def _sequence_model(module, input, answer, loss):
    """A SequenceModel whose parameters are those of a module of a user's own."""
    children = list(module.children())
    embedding = children.pop(0) if children and isinstance(children[0], nn.Embedding) else None
    if len(children) < 2 or not isinstance(children[-1], nn.Linear):
        raise TypeError("module: expected children that are layers and a torch.nn.Linear at the end, found "
                        f"{', '.join(type(child).__name__ for child in module.children()) or 'none'}; the "
                        "order of the children is that of their computation")
    layers = [layer for child in children[:-1] for layer in _layers_of(child)]
    readout = children[-1]
    size = children[0].input_size
    known = {"dense": {"kind": "dense", "size": size}, "one_hot": {"kind": "one_hot", "symbols": size}}
    if embedding is not None:
        of_input = {"kind": "embedding", "tokens": embedding.num_embeddings, "size": embedding.embedding_dim}
    elif input in known:
        of_input = known[input]
    else:
        raise ValueError(f"input: expected dense or one_hot, found '{input}'")
    model = SequenceModel({"input": of_input, "cells": Stack(layers).options(),
                           "readout": {"kind": answer, "outputs": readout.out_features}, "loss": loss})
    model.stack = Stack(layers)
    model.embedding = embedding
    model.readout.weight = _parameter(readout.weight)
    model.readout.bias = _parameter(readout.bias) if readout.bias is not None else _zeros(
        readout.weight, len(readout.weight))
    return model


def _parameter(value):
    """A parameter as it is, or the value of a parametrized one as a parameter."""
    return value if isinstance(value, nn.Parameter) else nn.Parameter(value.detach())


def _zeros(like, size):
    return nn.Parameter(like.new_zeros(size))


def _layers_of(child):
    """Layers of a model file with the parameters of a module."""
    if isinstance(child, DeltaProduct):
        return [Delta(child)]
    if isinstance(child, (OrthogonalRnn, nn.LSTM, nn.GRU)):
        layers = []
        for k in range(child.num_layers):
            one = [_one_layer(child, k, reverse) for reverse in range(1 + child.bidirectional)]
            layers.append(Bidirectional(one[:1], one[1:]) if child.bidirectional else one[0])
            if child.dropout > 0 and k + 1 < child.num_layers:
                layers.append(Stateless(nn.Dropout(child.dropout), "dropout", rate=child.dropout))
        return layers
    raise TypeError("module: expected children that are CwyRnn, HouseholderRnn, CayleyRnn, ExpRnn, OwnRnn, "
                    "MatrixRnn, DeltaProduct, torch.nn.LSTM or torch.nn.GRU between a first "
                    "torch.nn.Embedding, if there is one, and a last torch.nn.Linear, "
                    f"found {type(child).__name__}; a model file has no other layers")


def _one_layer(rnn, k, reverse):
    """One layer and direction of a recurrence, with its parameters."""
    end = f"_l{k}" + "_reverse" * reverse
    inputs = rnn.input_size if k == 0 else rnn.hidden_size * (1 + rnn.bidirectional)
    place, kind = {"device": "meta"}, parametrize.type_before_parametrizations(rnn)
    if isinstance(rnn, OrthogonalRnn):
        one = kind(inputs, rnn.hidden_size, **place, reflections=rnn.reflections,
                        negative_signs=rnn.negative_signs, activation=rnn.activation, init=rnn.init,
                        input_matrix=rnn.input_matrix, learn_initial_state=rnn.learn_initial_state)
        layer = Orthogonal(one)
    else:
        if getattr(rnn, "proj_size", 0):
            raise TypeError("module: expected a torch.nn.LSTM without proj_size")
        one = kind(inputs, rnn.hidden_size, **place)
        layer = Gated(one)
    weights = getattr(rnn, f"{rnn.transition_name if isinstance(rnn, OrthogonalRnn) else 'weight_hh'}{end}")
    for name, parameter in list(one.named_parameters()):
        own = getattr(rnn, name.removesuffix("_l0") + end, None)
        setattr(one, name, _parameter(own) if own is not None else _zeros(weights, parameter.shape))
    return layer
