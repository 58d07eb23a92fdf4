"""The layer DeltaProduct (docs/math.md, section 5.6)."""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu, softplus

from .._library import library
from ._calls import DTYPES, check_parameters, check_shape, check_sizes
from ._delta_product import delta_product

LARGEST_ROW_DECAY = math.exp(-0.5)

# Arguments of a layer that are its options in a model file.
OPTIONS = ("hidden_size", "heads", "key_size", "value_size", "householder", "factor", "beta_limit",
           "beta_offset", "vector_activation", "state_decay", "learn_initial_state", "without_values",
           "convolution", "readout_norm", "norm_epsilon", "output_gate")


def _unit(vectors):
    """Vectors divided by their norms. Zeros stay zeros, with gradients of 0, as in the library. The rounded
    vectors of autocast get full precision first, as their squares may be too large or too small."""
    vectors = vectors if vectors.dtype in DTYPES else vectors.float()
    squares = vectors.square().sum(-1, keepdim=True)
    some = squares > 0
    return vectors * torch.where(some, torch.where(some, squares, 1).rsqrt(), 0)


class DeltaProduct(nn.Module):
    """Maps x [B, T, K] to y [B, T, N] by a DeltaProduct recurrence (Siems et al., NeurIPS 2025, arXiv
    2502.10297). With one factor it is DeltaNet, and with decay as well Gated DeltaNet.

    - input_size, hidden_size: K inputs and N outputs of a step; N is K by default.
    - heads, key_size, value_size: number of states, and the sizes D and V of their keys and values.
    - householder: number n of factors of a step.
    - factor: "householder" for I - beta k k^T, or "rwkv7" for I - beta k (k * a)^T with a learned a in (0,
      1).
    - beta_limit, beta_offset: step sizes are beta_limit * sigmoid(p + beta_offset), p a projection of x.
    - vector_activation: "silu" or "identity", the function of queries, keys and values.
    - state_decay: whether states decay by learned amounts at each step.
    - learn_initial_state: whether the first state is learned; otherwise it is 0.
    - without_values: whether factors only turn the learned first state.
    - convolution: number of steps that a causal convolution of queries, keys and values sees; 0 for none.
    - readout_norm: "rms" or "none"; norm_epsilon is added to the mean square.
    - output_gate: whether outputs are multiplied by SiLU of a projection.

    Names, shapes and meaning of the parameters are those of the library's DeltaProductLayer: input_weights,
    input_bias, filters, decay_rates, norm_gain, output_weights, initial_state. The limits of the arguments
    are the library's too. Raises ValueError, naming the argument, for one beyond them. A call raises
    TypeError where parameters are not float or double, as after bfloat16(), unless autocast is on.
    """

    def __init__(self, input_size: int, hidden_size: int | None = None, *, heads: int = 4, key_size: int = 32,
                 value_size: int = 32, householder: int = 2, factor: str = "householder",
                 beta_limit: float = 2.0, beta_offset: float = 0.0, vector_activation: str = "silu",
                 state_decay: bool = False,
                 learn_initial_state: bool = False, without_values: bool = False, convolution: int = 0,
                 readout_norm: str = "rms", norm_epsilon: float = 1e-5, output_gate: bool = False,
                 device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        hidden_size = input_size if hidden_size is None else hidden_size
        check_sizes(input_size=input_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.heads, self.key_size, self.value_size = heads, key_size, value_size
        self.householder, self.factor = householder, factor
        self.beta_limit, self.beta_offset = beta_limit, beta_offset
        self.vector_activation, self.state_decay = vector_activation, state_decay
        self.learn_initial_state, self.without_values = learn_initial_state, without_values
        self.convolution, self.readout_norm, self.norm_epsilon = convolution, readout_norm, norm_epsilon
        self.output_gate = output_gate
        for name, value in self.options().items():
            if isinstance(value, float) and not math.isfinite(value):  # JSON has no such number
                raise ValueError(f"{name}: expected a finite number, found {value}")
        library().orthornn_layer_check(json.dumps(self.options()).encode())
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _make_parameters(self, place):
        h, d, v, n = self.heads, self.key_size, self.value_size, self.householder
        rwkv7 = self.factor == "rwkv7"
        values = 0 if self.without_values else n * h * v
        # Rows of the projections, as in the library's DeltaHeads.
        self._channels = h * d + n * h * d + values
        self._parts = [h * d, n * h * d, values]
        self._rest = [h * v if self.output_gate else 0, n * h,
                      (h * d if rwkv7 else h) if self.state_decay else 0, n * h * d if rwkv7 else 0]
        width = self._channels + sum(self._rest)

        def parameter(*shape):
            return nn.Parameter(torch.empty(shape, **place))

        self.input_weights, self.input_bias = parameter(width, self.input_size), parameter(width)
        self.filters = parameter(self.convolution, self._channels) if self.convolution > 0 else None
        self.decay_rates = parameter(h) if self.state_decay and not rwkv7 else None
        self.norm_gain = parameter(v) if self.readout_norm == "rms" else None
        self.output_weights = parameter(self.hidden_size, h * v)
        self.initial_state = parameter(h, d, v) if self.learn_initial_state else None

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws all parameters as docs/math.md, section 4.3 says. torch's seed decides the numbers."""
        self.input_weights.normal_(0, self.input_size ** -0.5)
        self.output_weights.normal_(0, self.output_weights.shape[1] ** -0.5)
        self.input_bias.zero_()
        if self.initial_state is not None:
            self.initial_state.normal_()
        if self.filters is not None:
            self.filters.uniform_(-self.convolution ** -0.5, self.convolution ** -0.5)
        if self.norm_gain is not None:
            self.norm_gain.fill_(1)
        if self.decay_rates is not None:
            self.decay_rates.copy_(torch.log(16 * (1 - torch.rand_like(self.decay_rates))))
        if self.state_decay:
            first = self._channels + self._rest[0] + self._rest[1]
            bias = self.input_bias[first:first + self._rest[2]]
            amount = torch.empty_like(bias).uniform_(math.log(1e-3), math.log(1e-1)).exp()
            bias.copy_(torch.log(amount / (LARGEST_ROW_DECAY - amount)) if self.factor == "rwkv7"
                       else torch.log(torch.expm1(amount)))

    def options(self) -> dict[str, Any]:
        """Options of the layer as in a model file."""
        values = {name: getattr(self, name) for name in OPTIONS}
        return {"kind": "deltaproduct",
                **{name: value.item() if hasattr(value, "item") else value for name, value in values.items()}}

    def forward(self, x: Tensor, lengths: Tensor | None = None,
                states: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns (y, states).

        - x [B, T, K], and lengths [B] integers 0 to T in host memory, or None where all are T. y is 0 beyond
          them.
        - states: those after the steps before, as this function returned them, or None to start anew. They
          are (S [B, H, D, V],), and with a convolution (S, rows [B, W - 1, channels]), its last inputs.
        - y [B, T, N].
        """
        if x.ndim != 3 or x.shape[2] != self.input_size:
            raise ValueError(f"x: expected shape [B, T, {self.input_size}], found {list(x.shape)}")
        check_parameters(self)
        self._check_states(states, x.shape[0])
        batch, steps = x.shape[:2]
        rows = linear(x, self.input_weights, self.input_bias)
        z, gates, betas, decays, removals = rows.split([self._channels, *self._rest], 2)
        z, padded = self._convolve(z, None if states is None else states[1:])
        if self.vector_activation == "silu":
            z = silu(z)
        queries, keys, values = z.split(self._parts, 2)
        h, d, v, n = self.heads, self.key_size, self.value_size, self.householder
        queries = _unit(queries.reshape(batch, steps, h, d))
        keys = _unit(keys.reshape(batch, steps, n, h, d))
        values = (z.new_zeros(batch, steps, n, h, v) if self.without_values
                  else values.reshape(batch, steps, n, h, v))
        betas = self.beta_limit * torch.sigmoid(betas.reshape(batch, steps, n, h) + self.beta_offset)
        start = self._first_state(batch) if states is None else states[0]
        o, last = delta_product(queries, keys, values, betas, log_decays=self._log_decays(decays),
                                removals=torch.sigmoid(removals.reshape(batch, steps, n, h, d))
                                if self.factor == "rwkv7" else None, initial_states=start, lengths=lengths)
        if self.norm_gain is not None:
            o = self.norm_gain * o * torch.rsqrt(o.square().mean(-1, keepdim=True) + self.norm_epsilon)
        if self.output_gate:
            o = o * silu(gates.reshape(batch, steps, h, v))
        y = linear(o.reshape(batch, steps, h * v), self.output_weights)
        return y, (last, *self._history(padded, lengths))

    def _check_states(self, states, batch):
        if states is None:
            return
        wanted = [(batch, self.heads, self.key_size, self.value_size)]
        if self.convolution > 1:
            wanted.append((batch, self.convolution - 1, self._channels))
        if not isinstance(states, (tuple, list)) or len(states) != len(wanted):
            found = f"{len(states)} of them" if isinstance(states, (tuple, list)) else type(states).__name__
            raise ValueError(f"states: expected a tuple of the {len(wanted)} tensors that the call before "
                             f"returned, found {found}")
        for i, shape in enumerate(wanted):
            check_shape(f"states[{i}]", states[i], *shape)

    def _first_state(self, batch):
        return None if self.initial_state is None else self.initial_state.expand(batch, -1, -1, -1)

    def _log_decays(self, decays):
        if not self.state_decay:
            return None
        if self.factor == "rwkv7":
            return -LARGEST_ROW_DECAY * torch.sigmoid(decays).unflatten(2, (self.heads, self.key_size))
        return -self.decay_rates.exp() * softplus(decays)

    def _convolve(self, z, history):
        """z convolved with the steps before, and z behind those; without a convolution z twice."""
        window = self.convolution
        if window == 0:
            return z, z
        before = history[0] if history else z.new_zeros(z.shape[0], window - 1, z.shape[2])
        padded = torch.cat([before, z], 1)
        steps = z.shape[1]
        return sum(self.filters[i] * padded[:, i:i + steps] for i in range(window)), padded

    def _history(self, padded, lengths):
        """The last inputs of each sequence that a convolution goes on with, as a tuple. Lengths have been
        checked."""
        kept = self.convolution - 1
        if kept < 1:
            return ()
        if lengths is None or lengths.shape[0] == 0:
            return (padded[:, padded.shape[1] - kept:],)
        if lengths.is_cpu and not padded.is_cpu and not torch.compiler.is_compiling():
            # A copy of the lengths to the GPU would wait, and a capture could not hold it.
            ends = zip(padded.unbind(), lengths.tolist())
            return (torch.stack([rows[length:length + kept] for rows, length in ends]),)
        place = lengths.to(padded.device)[:, None] + torch.arange(kept, device=padded.device)
        return (padded.gather(1, place[..., None].expand(-1, -1, padded.shape[2]).long()),)

    def extra_repr(self) -> str:
        """Sizes, for `repr`."""
        return (f"{self.input_size}, {self.hidden_size}, heads={self.heads}, key_size={self.key_size}, "
                f"value_size={self.value_size}, householder={self.householder}")
