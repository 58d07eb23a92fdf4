"""Orthogonal recurrent layers with the interface of `torch.nn.RNN`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ._calls import check_parameters, check_sizes
from .initial import draw_stiefel, draw_transition
from ._recurrence import recurrence
from ._rollout import ACTIVATIONS
from ._transition import parameter_of, stiefel, transition

# The parameter of W by what makes W, with the names of a model file but for that of a free W.
_INPUT_PARAMETERS = {"free": "weight_ih", "stiefel": "input_reflection_vectors", "own": "input_proxy_matrix",
                     "matrix": "input_stiefel_matrix"}


class OrthogonalRnn(nn.Module):
    """Recurrent layers h_t = f(Q h_{t-1} + W x_t + b) with an orthogonal Q; the base of the classes below.

    The arguments are those of `torch.nn.RNN` in the same order, with `activation` in place of its
    `nonlinearity`, and more by name:

    - activation: "tanh", "relu", "abs", "modrelu" or "identity". modrelu is f(a) = sign(a) max(|a| + m, 0)
      with a learned m.
    - init: how Q starts: "henaff", "cayley", "haar" or "normal". None stands for "cayley" in CayleyRnn, else
      for "henaff".
    - reflections: number L of reflections of CwyRnn and HouseholderRnn, 1 to hidden_size; None for
      hidden_size.
    - negative_signs: number of entries -1 of the fixed diagonal matrix of CayleyRnn.
    - input_matrix: "free", or what makes a W with orthonormal columns, for which a layer has at most
      hidden_size inputs: "stiefel" for T-CWY, "own" for orthogonal weight normalization, or "matrix" for W
      itself, which an optimizer has to keep so (see MatrixRnn).
    - learn_initial_state: whether h_0 is learned where none is given; otherwise it is 0.

    Parameters of layer k, with `_reverse` at the end for the second direction:

    - the parameter of Q: reflection_vectors_lk [L, N], or skew_parameters_lk, proxy_matrix_lk or
      stiefel_matrix_lk [N, N];
    - weight_ih_lk [N, K], input_reflection_vectors_lk [K, N], input_proxy_matrix_lk [N, K] or
      input_stiefel_matrix_lk [N, K], by `input_matrix`;
    - bias_lk [N], modrelu_bias_lk [N] for modrelu, and initial_state_lk [N] where h_0 is learned.

    `transition_name` is the name of the parameter of Q without its ending.
    """

    kind = ""
    usual_init = "henaff"

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1,
                 activation: str = "modrelu", bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
                 dtype: torch.dtype | None = None, *, reflections: int | None = None,
                 negative_signs: int = 0, init: str | None = None, input_matrix: str = "free",
                 learn_initial_state: bool = False) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        if not isinstance(bias, bool):
            raise TypeError(f"bias: expected True or False, found {bias!r}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout: expected a probability, found {dropout}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, found '{activation}'")
        if input_matrix not in _INPUT_PARAMETERS:
            raise ValueError(f"input_matrix: expected one of {', '.join(_INPUT_PARAMETERS)}, found "
                             f"'{input_matrix}'")
        if not 0 <= negative_signs <= (hidden_size if self.kind == "cayley" else 0):
            raise ValueError("negative_signs: expected 0 to hidden_size for CayleyRnn and 0 for others, "
                             f"found {negative_signs}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.activation = bidirectional, activation
        self.init = self.usual_init if init is None else init
        self.input_matrix, self.learn_initial_state = input_matrix, learn_initial_state
        self.reflections, self.negative_signs = reflections, negative_signs
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _make_parameters(self, place):
        n = self.hidden_size
        name, shape = parameter_of(self.kind, n, self.reflections)
        self.transition_name = name
        for k in range(self.num_layers):
            inputs = self.input_size if k == 0 else n * self.directions
            if self.input_matrix != "free" and inputs > n:
                raise ValueError(f"input_matrix: a matrix with orthonormal columns, '{self.input_matrix}', of "
                                 f"layer {k} has {inputs} inputs; expected at most hidden_size = {n}")
            shapes = {name: shape, _INPUT_PARAMETERS[self.input_matrix]:
                      (inputs, n) if self.input_matrix == "stiefel" else (n, inputs)}
            if self.bias:
                shapes["bias"] = (n,)
            if self.activation == "modrelu":
                shapes["modrelu_bias"] = (n,)
            if self.learn_initial_state:
                shapes["initial_state"] = (n,)
            for reverse in range(self.directions):
                for parameter, size in shapes.items():
                    self.register_parameter(parameter + _suffix(k, reverse),
                                            nn.Parameter(torch.empty(size, **place)))

    @property
    def directions(self) -> int:
        """Number of directions: 2 where `bidirectional`, else 1."""
        return 2 if self.bidirectional else 1

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws all parameters, as docs/math.md, section 4 says: the parameter of Q by `init`, a free W from
        N(0, 2 / K), another W uniformly among those with orthonormal columns, b = 0, m of modrelu from
        U(-0.01, 0.01). torch's seed decides the numbers."""
        for k in range(self.num_layers):
            for reverse in range(self.directions):
                own = self.layer_parameters(k, reverse)
                draw_transition(self.kind, own[self.transition_name], self.init,
                                self.negative_signs)
                w = own[_INPUT_PARAMETERS[self.input_matrix]]
                if self.input_matrix == "free":
                    w.normal_(0, (2 / w.shape[1]) ** 0.5)
                else:
                    draw_stiefel(w, self.input_matrix)
                if "modrelu_bias" in own:
                    own["modrelu_bias"].uniform_(-0.01, 0.01)
                for name in "bias", "initial_state":
                    if name in own:
                        own[name].zero_()

    def layer_parameters(self, layer: int = 0, reverse: bool = False) -> dict[str, nn.Parameter]:
        """Parameters of one layer and direction, by their names without the ending."""
        suffix = _suffix(layer, reverse)
        names = (self.transition_name, _INPUT_PARAMETERS[self.input_matrix], "bias", "modrelu_bias",
                 "initial_state")
        return {name: getattr(self, name + suffix) for name in names if hasattr(self, name + suffix)}

    def transition_matrix(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """The matrix Q [N, N] of one layer and direction, with its graph of gradients."""
        parameter = getattr(self, self.transition_name + _suffix(layer, reverse))
        if self.kind in ("matrix", "free"):
            return parameter
        return transition(self.kind, parameter, negative_signs=self.negative_signs)

    def input_weights(self, layer: int = 0, reverse: bool = False) -> Tensor:
        """The matrix W [N, K] of one layer and direction, with its graph of gradients."""
        parameter = getattr(self, _INPUT_PARAMETERS[self.input_matrix] + _suffix(layer, reverse))
        if self.input_matrix in ("free", "matrix"):
            return parameter
        return stiefel(parameter, self.input_matrix)

    def forward(self, input: Tensor | PackedSequence,
                h_0: Tensor | None = None) -> tuple[Tensor | PackedSequence, Tensor]:
        """Returns (output, h_n), as `torch.nn.RNN`.

        - input: [T, B, K], [B, T, K] with batch_first, [T, K] of one sequence, or a PackedSequence.
        - h_0: [layers * directions, B, N], or [layers * directions, N] for one sequence.
        - output: as the input, with N * directions numbers a step.
        - h_n: the state after the last step of each sequence, shaped as h_0.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, h_0)
        if input.ndim not in (2, 3):
            raise ValueError(f"input: expected 2 or 3 dimensions, found {list(input.shape)}")
        one = input.ndim == 2
        x = input.unsqueeze(1) if one else input.transpose(0, 1) if self.batch_first else input
        if one and h_0 is not None:
            if h_0.ndim != 2:
                raise ValueError(f"h_0: expected 2 dimensions for one sequence, found {list(h_0.shape)}")
            h_0 = h_0.unsqueeze(1)
        output, h_n = self._forward_layers(x, None, h_0)
        if one:
            return output.squeeze(1), h_n.squeeze(1)
        return (output.transpose(0, 1) if self.batch_first else output), h_n

    def _forward_packed(self, packed, h_0):
        # Sequences keep the order of the package, the longest first.
        x, lengths = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
        if h_0 is not None and packed.sorted_indices is not None:
            h_0 = h_0.index_select(1, packed.sorted_indices)
        output, h_n = self._forward_layers(x, lengths.to(x.device, torch.int32), h_0)
        again = pack_padded_sequence(output, lengths)
        if packed.unsorted_indices is not None:
            h_n = h_n.index_select(1, packed.unsorted_indices)
        return PackedSequence(again.data, again.batch_sizes,
                              packed.sorted_indices, packed.unsorted_indices), h_n

    def _forward_layers(self, x, lengths, h_0):
        check_parameters(self)
        if x.shape[2] != self.input_size:
            raise ValueError(f"input: expected {self.input_size} numbers a step, found {x.shape[2]}")
        states = self.num_layers * self.directions
        if h_0 is not None and h_0.shape != (states, x.shape[1], self.hidden_size):
            raise ValueError(f"h_0: expected shape {[states, x.shape[1], self.hidden_size]}, found "
                             f"{list(h_0.shape)}")
        last = []
        for k in range(self.num_layers):
            outputs = []
            for reverse in range(self.directions):
                own_x = reverse_steps(x, lengths) if reverse else x
                y, h = self._forward_one(own_x, lengths, None if h_0 is None else h_0[len(last)], k, reverse)
                outputs.append(reverse_steps(y, lengths) if reverse else y)
                last.append(h)
            x = torch.cat(outputs, 2) if self.bidirectional else outputs[0]
            if self.dropout > 0 and k + 1 < self.num_layers:
                x = nn.functional.dropout(x, self.dropout, self.training)
        return x, torch.stack(last)

    def _forward_one(self, x, lengths, h_0, layer, reverse):
        own = self.layer_parameters(layer, reverse)
        q = self.transition_matrix(layer, reverse)
        w = self.input_weights(layer, reverse)
        if h_0 is None and "initial_state" in own:
            h_0 = own["initial_state"].expand(x.shape[1], -1)
        return recurrence(q, w, own.get("bias"), x, h_0, lengths, self.activation, own.get("modrelu_bias"))

    def extra_repr(self) -> str:
        """The arguments that are not the defaults, for `repr`."""
        given = {"num_layers": (self.num_layers, 1), "bias": (self.bias, True),
                 "batch_first": (self.batch_first, False), "dropout": (self.dropout, 0.0),
                 "bidirectional": (self.bidirectional, False), "activation": (self.activation, "modrelu"),
                 "input_matrix": (self.input_matrix, "free"),
                 "learn_initial_state": (self.learn_initial_state, False),
                 "reflections": (self.reflections, None), "negative_signs": (self.negative_signs, 0)}
        rest = "".join(f", {name}={value!r}" for name, (value, usual) in given.items() if value != usual)
        return f"{self.input_size}, {self.hidden_size}{rest}"


class CwyRnn(OrthogonalRnn):
    """Orthogonal recurrent layers whose Q is a product of reflections in compact WY form (Likhosherstov et
    al., AISTATS 2021). The arguments are those of OrthogonalRnn."""

    kind = "cwy"


class HouseholderRnn(OrthogonalRnn):
    """Orthogonal recurrent layers whose Q is a product of reflections, formed one after another (Mhammedi et
    al., ICML 2017). Q is that of CwyRnn with equal vectors. The arguments are those of OrthogonalRnn."""

    kind = "householder"


class CayleyRnn(OrthogonalRnn):
    """Orthogonal recurrent layers whose Q is the scaled Cayley transform of X - X^T (Helfrich, Willmott and
    Ye, ICML 2018). The arguments are those of OrthogonalRnn."""

    kind = "cayley"
    usual_init = "cayley"


class ExpRnn(OrthogonalRnn):
    """Orthogonal recurrent layers whose Q is exp(X - X^T) (Lezcano-Casado and Martinez-Rubio, ICML 2019). The
    arguments are those of OrthogonalRnn."""

    kind = "expm"


class OwnRnn(OrthogonalRnn):
    """Orthogonal recurrent layers whose Q is the orthogonal matrix that is nearest to a free V, Q = V (V^T
    V)^-1/2 (orthogonal weight normalization; Huang et al., AAAI 2018). Any optimizer may change V. The
    arguments are those of OrthogonalRnn."""

    kind = "own"


class MatrixRnn(OrthogonalRnn):
    """Orthogonal recurrent layers whose Q is the parameter itself. It starts orthogonal, and stays so only with
    an optimizer that keeps it on the Stiefel manifold, which torch.optim does not have. The arguments are
    those of OrthogonalRnn."""

    kind = "matrix"


class UnconstrainedRnn(OrthogonalRnn):
    """Recurrent layers whose matrix is a free parameter, orthogonal only at the start. It is here for models
    of the transition "free". The arguments are those of OrthogonalRnn."""

    kind = "free"


def reverse_steps(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The live steps of each sequence of x [T, B, ..] from the last to the first; padding stays where it
    is."""
    if lengths is None:
        return x.flip(0)
    step = torch.arange(x.shape[0], device=x.device)[:, None]
    source = torch.where(step < lengths, lengths - 1 - step, step)
    return x.gather(0, source[..., None].expand(-1, -1, x.shape[2]))


def _suffix(layer: int, reverse: bool) -> str:
    return f"_l{layer}_reverse" if reverse else f"_l{layer}"
