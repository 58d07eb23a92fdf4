"""Layers of model files as modules: each maps x [T, B, K] and lengths [B], or None, to y [T, B, N].

`parameter_names` of a module are the names that its parameters have in a model file, with its own parameter.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .delta_layer import OPTIONS, DeltaProduct
from .rnn import (CayleyRnn, CwyRnn, ExpRnn, HouseholderRnn, MatrixRnn, OwnRnn, UnconstrainedRnn,
                  reverse_steps)

RECURRENCES = {rnn.kind: rnn for rnn in (CwyRnn, HouseholderRnn, CayleyRnn, ExpRnn, OwnRnn, MatrixRnn,
                                         UnconstrainedRnn)}


def current_parameters(module):
    """Parameters of a module without children by their names, with the values of parametrized ones."""
    names = [name for name, _ in module.named_parameters(recurse=False)]
    if parametrize.is_parametrized(module):
        names += module.parametrizations
    return {name: getattr(module, name) for name in names}


def live_steps(x, lengths):
    """[T, B, 1]: whether a step is one of its sequence."""
    return (torch.arange(x.shape[0], device=x.device)[:, None] < lengths)[..., None]


class Orthogonal(nn.Module):
    """A layer of an orthogonal recurrence; `rnn` is an OrthogonalRnn of one layer and direction."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N]."""
        lengths = None if lengths is None else lengths.to(torch.int32)
        return self.rnn._forward_layers(x, lengths, None)[0]

    def empty_output(self):
        """The last state [N] of a sequence without a step."""
        return self.rnn.layer_parameters().get("initial_state")

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        names = {"weight_ih": "input_weights"}
        return {names.get(name, name): p for name, p in self.rnn.layer_parameters().items()}

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        rnn = self.rnn
        kinds = {"cwy": {"reflections": rnn.reflections or 0, "form": "automatic"},
                 "householder": {"reflections": rnn.reflections or 0, "rank_one_updates": False},
                 "cayley": {"negative_signs": rnn.negative_signs}}
        return {"kind": "orthogonal", "hidden_size": rnn.hidden_size,
                "transition": {"kind": rnn.kind, **kinds.get(rnn.kind, {}), "init": rnn.init},
                "activation": rnn.activation, "input_matrix": rnn.input_matrix,
                "learn_initial_state": rnn.learn_initial_state}


class Gated(nn.Module):
    """A torch.nn.LSTM or torch.nn.GRU of one layer and direction."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N]."""
        if lengths is None:
            return self.rnn(x)[0]
        # A package has no sequences without a step.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), enforce_sorted=False)
        y, _ = pad_packed_sequence(self.rnn(packed)[0], total_length=x.shape[0])
        return torch.where(live_steps(y, lengths), y, torch.zeros_like(y))

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        return {"input_weights": self.rnn.weight_ih_l0, "input_bias": self.rnn.bias_ih_l0,
                "recurrent_weights": self.rnn.weight_hh_l0, "recurrent_bias": self.rnn.bias_hh_l0}

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        return {"kind": "lstm" if isinstance(self.rnn, nn.LSTM) else "gru",
                "hidden_size": self.rnn.hidden_size}


class Delta(nn.Module):
    """A layer of DeltaProduct."""

    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N]."""
        return self.delta(x.transpose(0, 1), lengths)[0].transpose(0, 1)

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        return current_parameters(self.delta)

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        return self.delta.options()


class Stateless(nn.Module):
    """A layer that maps each step by itself: torch.nn.Linear, torch.nn.RMSNorm, torch.nn.Dropout or
    GatedMlp."""

    def __init__(self, of_step, kind, **options):
        super().__init__()
        self.of_step, self.kind, self.own_options = of_step, kind, options

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N]."""
        return self.of_step(x)

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        names = {"weight": "gain"} if self.kind == "rms_norm" else {}
        return {names.get(name, name): p for name, p in current_parameters(self.of_step).items()}

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        return {"kind": self.kind, **self.own_options}


class GatedMlp(nn.Module):
    """y = W' (SiLU(a) * c) with [a; c] = W x."""

    def __init__(self, size, mlp_size):
        super().__init__()
        self.input_weights = nn.Parameter(torch.empty(2 * mlp_size, size).normal_(0, size ** -0.5))
        self.output_weights = nn.Parameter(torch.empty(size, mlp_size).normal_(0, mlp_size ** -0.5))

    def forward(self, x):
        """Returns y [.., K] of x [.., K]."""
        a, c = (x @ self.input_weights.T).chunk(2, -1)
        return (silu(a) * c) @ self.output_weights.T


class Positions(nn.Module):
    """Adds a learned vector to each live step, by its place in its sequence."""

    def __init__(self, steps, size):
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(steps, size).normal_(0, size ** -0.5))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N]. Raises ValueError for more steps than there are vectors."""
        if x.shape[0] > len(self.vectors):
            raise ValueError(f"x: expected at most {len(self.vectors)} steps, found {x.shape[0]}")
        y = x + self.vectors[:x.shape[0], None]
        return y if lengths is None else torch.where(live_steps(x, lengths), y, x)

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        return {"vectors": self.vectors}

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        return {"kind": "positions", "steps": len(self.vectors)}


class Stack(nn.Module):
    """Layers, one on the other."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N] of the last layer."""
        for layer in self.layers:
            x = layer(x, lengths)
        return x

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        return {f"{i}/{name}": p for i, layer in enumerate(self.layers)
                for name, p in layer.parameter_names().items()}

    def options(self) -> list[dict[str, Any]]:
        """Options of the layers as in a model file."""
        return [layer.options() for layer in self.layers]


class Residual(nn.Module):
    """y = x + f(x)."""

    def __init__(self, layers):
        super().__init__()
        self.f = Stack(layers)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, N]."""
        return x + self.f(x, lengths)

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        return self.f.parameter_names()

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        return {"kind": "residual", "layers": self.f.options()}


class Bidirectional(nn.Module):
    """y = [f(x); g(x)], where g reads the live steps from the last to the first."""

    def __init__(self, forward_layers, backward_layers):
        super().__init__()
        self.forward_stack, self.backward_stack = Stack(forward_layers), Stack(backward_layers)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns y [T, B, 2 N]."""
        second = self.backward_stack(reverse_steps(x, lengths), lengths)
        return torch.cat([self.forward_stack(x, lengths), reverse_steps(second, lengths)], 2)

    def parameter_names(self) -> dict[str, nn.Parameter]:
        """Parameters by their names in a model file."""
        directions = ("forward", self.forward_stack), ("backward", self.backward_stack)
        return {f"{direction}/{name}": p for direction, stack in directions
                for name, p in stack.parameter_names().items()}

    def options(self) -> dict[str, Any]:
        """Options as in a model file."""
        return {"kind": "bidirectional", "layers": self.forward_stack.options()}


def make_layer(options, inputs):
    """A layer of the options of a model file, and its number of outputs."""
    kind = options.get("kind", "orthogonal")
    if kind == "orthogonal":
        return Orthogonal(_recurrence(options, inputs)), options["hidden_size"]
    if kind in ("lstm", "gru"):
        rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](inputs, options["hidden_size"])
        return Gated(rnn), options["hidden_size"]
    if kind == "deltaproduct":
        named = {name: options[name] for name in OPTIONS if name in options}
        return Delta(DeltaProduct(inputs, **named)), options["hidden_size"]
    if kind == "linear":
        outputs = options["outputs"]
        return Stateless(nn.Linear(inputs, outputs), kind, outputs=outputs), outputs
    if kind == "gated_mlp":
        size = options["mlp_size"] or 8 * -(-inputs // 3)
        return Stateless(GatedMlp(inputs, size), kind, mlp_size=options["mlp_size"]), inputs
    if kind == "rms_norm":
        norm = nn.RMSNorm(inputs, eps=options["epsilon"])
        return Stateless(norm, kind, epsilon=options["epsilon"]), inputs
    if kind == "dropout":
        return Stateless(nn.Dropout(options["rate"]), kind, rate=options["rate"]), inputs
    if kind == "positions":
        return Positions(options["steps"], inputs), inputs
    if kind == "residual":
        layers, _ = make_layers(options["layers"], inputs)
        return Residual(layers), inputs
    if kind == "bidirectional":
        layers, outputs = make_layers(options["layers"], inputs)
        return Bidirectional(layers, make_layers(options["layers"], inputs)[0]), 2 * outputs
    raise ValueError(f"model: expected layers of orthornn's kinds, found '{kind}'")


def make_layers(options, inputs):
    """Layers one on the other, and the number of outputs of the last."""
    layers = []
    for own in options:
        layer, inputs = make_layer(own, inputs)
        layers.append(layer)
    return layers, inputs


def _recurrence(options, inputs):
    transition = options["transition"]
    kind = transition["kind"]
    if kind not in RECURRENCES:
        raise ValueError(f"model: expected a transition of orthornn's kinds, found '{kind}'")
    return RECURRENCES[kind](
        inputs, options["hidden_size"], reflections=transition.get("reflections") or None,
        negative_signs=transition.get("negative_signs", 0), activation=options["activation"],
        init=transition["init"], input_matrix=options["input_matrix"],
        learn_initial_state=options.get("learn_initial_state", False))
