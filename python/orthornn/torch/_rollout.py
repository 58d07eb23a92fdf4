"""A recurrence through all its steps, as an operation with a gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _abi
from .._library import library
from ._calls import (DTYPES, addresses, check_lengths, check_like, check_number_type, check_shape, choice,
                     contiguous, define, device_of, empty_as, int32_lengths, kept, key_of,
                     no_second_derivatives, precision_of, workspace_of, workspaces_of)

ACTIVATIONS = {"tanh": _abi.TANH, "relu": _abi.RELU, "abs": _abi.ABS, "modrelu": _abi.MODRELU,
               "identity": _abi.IDENTITY}


def make_plan(q, shape, activation, precision):
    """The structure, and the bytes of workspace of forward and backward."""
    options = _abi.Rollout(DTYPES[q.dtype], ACTIVATIONS[activation], precision, 0, *shape)
    return options, *workspaces_of("rollout", q, options)


def _checked_plan(q, inputs, h_0, lengths, activation, modrelu_bias, precision):
    _check(q, inputs, h_0, lengths, activation, modrelu_bias)
    return make_plan(q, inputs.shape, activation, precision)


def _check(q, inputs, h_0, lengths, activation, modrelu_bias):
    check_shape("inputs", inputs, None, None, None)
    check_rollout(q, inputs.shape[1], h_0, lengths, activation, modrelu_bias)
    check_shape("inputs", inputs, None, None, len(q))
    check_like("inputs", inputs, "q", q)


def check_rollout(q, batch, h_0, lengths, activation, modrelu_bias):
    """Raises TypeError or ValueError, naming the argument, for what a rollout has beside its inputs."""
    check_number_type("q", q)
    check_shape("q", q, None, None)
    size = q.shape[0]
    check_shape("q", q, size, size)
    if h_0 is not None:
        check_shape("h_0", h_0, batch, size)
        check_like("h_0", h_0, "q", q)
    check_lengths(lengths, batch)
    choice("activation", activation, ACTIVATIONS)
    if (activation == "modrelu") != (modrelu_bias is not None):
        raise ValueError("modrelu_bias: expected a tensor for the activation modrelu, and None for others")
    if modrelu_bias is not None:
        check_shape("modrelu_bias", modrelu_bias, size)
        check_like("modrelu_bias", modrelu_bias, "q", q)


def lengths_on(lengths, device):
    """Lengths as the C interface takes them."""
    return None if lengths is None else int32_lengths(lengths).to(device)


def new_results(outputs, h_0, activation):
    """The outputs, and memory for the last states and for the signs that "abs" has."""
    return (outputs, outputs.new_empty(*outputs.shape[1:]) if h_0 is None else empty_as(h_0),
            outputs.new_empty(*outputs.shape, dtype=torch.int8) if activation == "abs" else None)


def _forward(q, inputs, h_0, lengths, activation, modrelu_bias):
    precision = precision_of(q)
    key = ("rollout", activation, precision, key_of(q, inputs, h_0, lengths, modrelu_bias))
    options, count, _ = kept(key, _checked_plan, q, inputs, h_0, lengths, activation, modrelu_bias, precision)
    q, inputs, h_0, modrelu_bias = contiguous(q, inputs, h_0, modrelu_bias)
    lengths = lengths_on(lengths, q.device)
    outputs, h_last, signs = new_results(empty_as(inputs), h_0, activation)
    workspace = workspace_of(q, count)
    library().orthornn_rollout_forward(
        device_of(q), options,
        *addresses(q, modrelu_bias, lengths, inputs, h_0, outputs, h_last, signs, workspace), count)
    return outputs, h_last, signs


def _forward_fake(q, inputs, h_0, lengths, activation, modrelu_bias):
    _check(q, inputs, h_0, lengths, activation, modrelu_bias)
    return new_results(empty_as(inputs), h_0, activation)


def _backward(q, lengths, h_0, outputs, signs, d_outputs, d_h_last, activation, wants_q, wants_modrelu_bias):
    q, h_0, d_outputs, d_h_last = contiguous(q, h_0, d_outputs, d_h_last)
    precision = precision_of(q)
    options, _, count = kept(("rollout_backward", activation, precision, key_of(q, outputs)), make_plan, q,
                             outputs.shape, activation, precision)
    lengths = lengths_on(lengths, q.device)
    d_inputs, d_h_0, d_q, d_modrelu_bias = _new_gradients(q, outputs, h_0, wants_q, wants_modrelu_bias)
    workspace = workspace_of(q, count)
    library().orthornn_rollout_backward(
        device_of(q), options,
        *addresses(q, lengths, h_0, outputs, signs, d_outputs, d_h_last, d_inputs, d_h_0, d_q, d_modrelu_bias,
                   workspace), count)
    return d_inputs, d_h_0, d_q, d_modrelu_bias


def _new_gradients(q, outputs, h_0, wants_q, wants_modrelu_bias):
    """Memory for the gradients that are wanted."""
    return (empty_as(outputs), empty_as(h_0), empty_as(q) if wants_q else None,
            q.new_empty(q.shape[0]) if wants_modrelu_bias else None)


def _backward_fake(q, lengths, h_0, outputs, signs, d_outputs, d_h_last, activation, wants_q,
                   wants_modrelu_bias):
    return _new_gradients(q, outputs, h_0, wants_q, wants_modrelu_bias)


def _save(ctx, inputs, output):
    q, _, h_0, lengths, ctx.activation, _ = inputs
    outputs, _, signs = output
    ctx.save_for_backward(q, lengths, h_0, outputs, signs)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_outputs, d_h_last, _d_signs):
    no_second_derivatives()
    wants_q, wants_modrelu_bias = ctx.needs_input_grad[0], ctx.needs_input_grad[5]
    d_inputs, d_h_0, d_q, d_modrelu_bias = BACKWARD(*ctx.saved_tensors, d_outputs, d_h_last, ctx.activation,
                                                    wants_q, wants_modrelu_bias)
    return (d_q if wants_q else None, d_inputs, d_h_0, None, None,
            d_modrelu_bias if wants_modrelu_bias else None)


FORWARD = define("rollout(Tensor q, Tensor inputs, Tensor h_0, Tensor? lengths, str activation, "
                 "Tensor? modrelu_bias) -> (Tensor, Tensor, Tensor)", _forward, _forward_fake, setup=_save,
                 backward=_differentiate)
BACKWARD = define("rollout_backward(Tensor q, Tensor? lengths, Tensor h_0, Tensor outputs, Tensor? signs, "
                  "Tensor? d_outputs, Tensor? d_h_last, str activation, bool wants_q, "
                  "bool wants_modrelu_bias) -> (Tensor, Tensor, Tensor, Tensor)",
                  _backward, _backward_fake, autocast=None)


def rollout(q: Tensor, inputs: Tensor, h_0: Tensor, lengths: Tensor | None = None,
            activation: str = "modrelu", modrelu_bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Computes h_t = f(Q h_{t-1} + inputs_t) for t = 1 to T, with a gradient (docs/math.md, section 1.2).

    - q [N, N]: any matrix.
    - inputs [T, B, N], h_0 [B, N].
    - lengths [B]: whole numbers 0 to T, or None where all are T. Outputs beyond them are 0. On a GPU give
      them as int32 there.
    - activation: "tanh", "relu", "abs", "modrelu" or "identity"; modrelu_bias [N] is for "modrelu" alone.

    Returns the outputs [T, B, N] and the state after the last step of each sequence [B, N]. Tensors that are
    contiguous are read where they lie. Raises TypeError and ValueError, naming the argument.
    """
    outputs, h_last, _ = FORWARD(q, inputs, h_0, lengths, activation, modrelu_bias)
    return outputs, h_last
