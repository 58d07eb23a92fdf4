"""A recurrence with the map of its inputs, as one operation with a gradient."""

from __future__ import annotations

from torch import Tensor

from .. import _abi
from .._library import library
from ._calls import (DTYPES, addresses, check_like, check_shape, contiguous, define, device_of, empty_as,
                     empty_rows, kept, key_of, no_second_derivatives, precision_of, workspace_of,
                     workspaces_of)
from ._rollout import check_rollout, lengths_on, make_plan, new_results


def _make_plan(q, weight, bias, input, h_0, lengths, activation, modrelu_bias, precision):
    _check(q, weight, bias, input, h_0, lengths, activation, modrelu_bias)
    affine = _abi.Affine(DTYPES[q.dtype], precision, *input.shape, len(q))
    rollout, *counts = make_plan(q, (*input.shape[:2], len(q)), activation, precision)
    return affine, rollout, *map(max, counts, workspaces_of("affine", q, affine))


def _plan(q, weight, bias, input, h_0, lengths, activation, modrelu_bias):
    """Structures of the map and of the rollout, and the bytes of workspace of forward and backward."""
    precision = precision_of(q)
    key = ("recurrence", activation, precision, key_of(q, weight, bias, input, h_0, lengths, modrelu_bias))
    return kept(key, _make_plan, q, weight, bias, input, h_0, lengths, activation, modrelu_bias, precision)


def _check(q, weight, bias, input, h_0, lengths, activation, modrelu_bias):
    check_shape("input", input, None, None, None)
    check_rollout(q, input.shape[1], h_0, lengths, activation, modrelu_bias)
    check_like("input", input, "q", q)
    check_shape("weight", weight, len(q), input.shape[2])
    check_like("weight", weight, "q", q)
    if bias is not None:
        check_shape("bias", bias, len(q))
        check_like("bias", bias, "q", q)


def _forward(q, weight, bias, input, h_0, lengths, activation, modrelu_bias):
    affine, rollout, count, _ = _plan(q, weight, bias, input, h_0, lengths, activation, modrelu_bias)
    q, weight, bias, input, h_0, modrelu_bias = contiguous(q, weight, bias, input, h_0, modrelu_bias)
    lengths = lengths_on(lengths, q.device)
    outputs, h_last, signs = new_results(empty_rows(input, q), h_0, activation)
    workspace, on = workspace_of(q, count), device_of(q)
    # The map leaves the inputs of the steps where their outputs go.
    library().orthornn_affine_forward(on, affine, *addresses(weight, bias, input, outputs, workspace), count)
    library().orthornn_rollout_forward(
        on, rollout,
        *addresses(q, modrelu_bias, lengths, outputs, h_0, outputs, h_last, signs, workspace), count)
    return outputs, h_last, signs


def _forward_fake(q, weight, bias, input, h_0, lengths, activation, modrelu_bias):
    _check(q, weight, bias, input, h_0, lengths, activation, modrelu_bias)
    return new_results(empty_rows(input, q), h_0, activation)


def _backward(q, weight, bias, input, h_0, lengths, outputs, signs, d_outputs, d_h_last, activation,
              modrelu_bias, wants_q, wants_input):
    affine, rollout, _, count = _plan(q, weight, bias, input, h_0, lengths, activation, modrelu_bias)
    q, weight, input, h_0, d_outputs, d_h_last = contiguous(q, weight, input, h_0, d_outputs, d_h_last)
    lengths = lengths_on(lengths, q.device)
    gradients = _new_gradients(q, weight, bias, input, modrelu_bias, wants_q, wants_input)
    d_q, d_weight, d_bias, d_input, d_h_0, d_modrelu_bias = gradients
    d_steps = empty_as(outputs)
    workspace, on = workspace_of(q, count), device_of(q)
    library().orthornn_rollout_backward(
        on, rollout, *addresses(q, lengths, h_0, outputs, signs, d_outputs, d_h_last, d_steps, d_h_0, d_q,
                                None, workspace), count)
    library().orthornn_affine_backward(
        on, affine, *addresses(weight, input, d_steps, outputs, d_weight, d_bias, d_modrelu_bias, d_input,
                               workspace), count)
    return gradients


def _new_gradients(q, weight, bias, input, modrelu_bias, wants_q, wants_input):
    """Memory for the gradients that are wanted."""
    there = (q if wants_q else None, weight, bias, input if wants_input else None, modrelu_bias)
    *gradients, d_modrelu_bias = [None if x is None else empty_as(x) for x in there]
    return *gradients, q.new_empty(input.shape[1], q.shape[0]), d_modrelu_bias


def _backward_fake(q, weight, bias, input, h_0, lengths, outputs, signs, d_outputs, d_h_last, activation,
                   modrelu_bias, wants_q, wants_input):
    return _new_gradients(q, weight, bias, input, modrelu_bias, wants_q, wants_input)


def _save(ctx, inputs, output):
    q, weight, bias, input, h_0, lengths, ctx.activation, modrelu_bias = inputs
    outputs, _, signs = output
    ctx.save_for_backward(q, weight, bias, input, h_0, lengths, outputs, signs, modrelu_bias)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_outputs, d_h_last, _d_signs):
    no_second_derivatives()
    *saved, modrelu_bias = ctx.saved_tensors
    wants = ctx.needs_input_grad
    found = BACKWARD(*saved, d_outputs, d_h_last, ctx.activation, modrelu_bias, wants[0], wants[3])
    d_q, d_weight, d_bias, d_input, d_h_0, d_modrelu_bias = found
    return (d_q if wants[0] else None, d_weight, d_bias if wants[2] else None, d_input if wants[3] else None,
            d_h_0 if wants[4] else None, None, None, d_modrelu_bias if wants[7] else None)


FORWARD = define("recurrence(Tensor q, Tensor weight, Tensor? bias, Tensor input, Tensor? h_0, "
                 "Tensor? lengths, str activation, Tensor? modrelu_bias) -> (Tensor, Tensor, Tensor)",
                 _forward, _forward_fake, setup=_save, backward=_differentiate)
BACKWARD = define("recurrence_backward(Tensor q, Tensor weight, Tensor? bias, Tensor input, Tensor? h_0, "
                  "Tensor? lengths, Tensor outputs, Tensor? signs, Tensor? d_outputs, Tensor? d_h_last, "
                  "str activation, Tensor? modrelu_bias, bool wants_q, bool wants_input) -> "
                  "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", _backward, _backward_fake,
                  autocast=None)


def recurrence(q: Tensor, weight: Tensor, bias: Tensor | None, input: Tensor, h_0: Tensor | None,
               lengths: Tensor | None, activation: str,
               modrelu_bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Computes h_t = f(Q h_{t-1} + W x_t + b) for t = 1 to T, with a gradient: `rollout` of `linear`, whose
    results it does not keep (docs/math.md, section 1.2).

    - q [N, N], weight [N, K], bias [N] or None, input [T, B, K], h_0 [B, N] or None for zeros.
    - lengths, activation and modrelu_bias are those of `rollout`.

    Returns the outputs [T, B, N] and the state after the last step of each sequence [B, N]. Raises TypeError
    and ValueError, naming the argument.
    """
    outputs, h_last, _ = FORWARD(q, weight, bias, input, h_0, lengths, activation, modrelu_bias)
    return outputs, h_last
