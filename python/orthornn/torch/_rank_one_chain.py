"""Chains of general rank-one factors, as an operation with a gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _abi
from .._library import library
from ._calls import (DTYPES, addresses, bytes_of, check_like, check_number_type, check_shape, contiguous,
                     define, device_of, empty_as, empty_rows, key_of, memory,
                     no_second_derivatives, shape_of_rows, wants_gradient, workspace_of)
from ._layout import PlacedPlans, check_places, size_of_saved

PLANS = PlacedPlans("rank_one_chain")


def _check(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens):
    batch = check_places("left", left, lengths, cu_seqlens, 2)
    check_number_type("left", left)
    heads, size = left.shape[-2:]
    check_shape("right", right, *left.shape)
    check_like("right", right, "left", left)
    check_shape("initial_states", initial_states, batch, heads, size, None)
    check_like("initial_states", initial_states, "left", left)
    for name, scales in ("left_scales", left_scales), ("right_scales", right_scales):
        if scales is not None:
            check_shape(name, scales, *left.shape[:-1])
            check_like(name, scales, "left", left)


def _structure_of(left, initial_states):
    return _abi.RankOneChain(DTYPES[left.dtype], 0, 0, *left.shape[-2:], initial_states.shape[-1])


def _make_forward(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens):
    """The structure, and the shape of the outputs."""
    _check(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens)
    return _structure_of(left, initial_states), shape_of_rows(left, initial_states)


def _forward(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens, keeps):
    tensors = (left, right, initial_states, left_scales, right_scales)
    chain, output_shape, places, kept_count, count = PLANS.forward(
        key_of(*tensors), left, lengths, cu_seqlens, keeps, _make_forward, *tensors, lengths, cu_seqlens)
    inputs = contiguous(left, right, left_scales, right_scales, initial_states)
    outputs, final_states = left.new_empty(*output_shape), empty_as(initial_states)
    saved, workspace = memory(left, kept_count) if keeps else None, workspace_of(left, count)
    library().orthornn_rank_one_chain_forward(
        device_of(left), chain, places.layout, _abi.ChainInputs(*addresses(*inputs)),
        *addresses(outputs, final_states, saved), kept_count, *addresses(workspace), count)
    return outputs, final_states, saved


def _forward_fake(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens, keeps):
    _check(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens)
    count = 0
    if keeps:
        def size(layout):
            on = device_of(left)
            return bytes_of(library().orthornn_rank_one_chain_saved, on, _structure_of(left, initial_states),
                            layout)

        count = size_of_saved(size, lengths, cu_seqlens, left, initial_states)
    return (empty_rows(left, initial_states), empty_as(initial_states),
            memory(left, count) if keeps else None)


def _make_backward(left, initial_states):
    return (_structure_of(left, initial_states),)


def _backward(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens, saved, d_outputs,
              d_final_states):
    chain, places, count = PLANS.backward(key_of(left, initial_states), left, lengths, cu_seqlens,
                                          _make_backward, left, initial_states)
    inputs = contiguous(left, right, left_scales, right_scales, initial_states)
    arriving = contiguous(d_outputs, d_final_states)
    if arriving[0] is None:
        arriving[0] = empty_rows(left, initial_states).zero_()
    gradients = _new_gradients(left, right, initial_states, left_scales, right_scales)
    d_left, d_right, d_initial, *d_scales = gradients
    workspace = workspace_of(left, count)
    library().orthornn_rank_one_chain_backward(
        device_of(left), chain, places.layout, _abi.ChainInputs(*addresses(*inputs)),
        _abi.ChainGradients(*addresses(*arriving, d_left, d_right, *d_scales, d_initial)), *addresses(saved),
        saved.numel(), *addresses(workspace), count)
    return gradients


def _new_gradients(*tensors):
    return tuple([None if x is None else empty_as(x) for x in tensors])


def _backward_fake(left, right, initial_states, left_scales, right_scales, lengths, cu_seqlens, saved,
                   d_outputs, d_final_states):
    return _new_gradients(left, right, initial_states, left_scales, right_scales)


def _save(ctx, inputs, output):
    *tensors, ctx.keeps = inputs
    ctx.save_for_backward(*tensors, output[2])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_outputs, d_final_states, _d_saved):
    no_second_derivatives()
    if not ctx.keeps:
        raise RuntimeError("keeps: expected True for a chain with a gradient")
    tensors = ctx.saved_tensors
    gradients = BACKWARD(*tensors, d_outputs, d_final_states)
    return *(None if x is None else g for x, g in zip(tensors, gradients)), None, None, None


FORWARD = define("rank_one_chain(Tensor left, Tensor right, Tensor initial_states, Tensor? left_scales, "
                 "Tensor? right_scales, Tensor? lengths, Tensor? cu_seqlens, bool keeps) -> "
                 "(Tensor, Tensor, Tensor)", _forward, _forward_fake, setup=_save, backward=_differentiate)
BACKWARD = define("rank_one_chain_backward(Tensor left, Tensor right, Tensor initial_states, "
                  "Tensor? left_scales, Tensor? right_scales, Tensor? lengths, Tensor? cu_seqlens, "
                  "Tensor saved, Tensor? d_outputs, Tensor? d_final_states) -> "
                  "(Tensor, Tensor, Tensor, Tensor, Tensor)", _backward, _backward_fake, autocast=None)


def rank_one_chain(left: Tensor, right: Tensor, initial_states: Tensor, *, left_scales: Tensor | None = None,
                   right_scales: Tensor | None = None, lengths: Tensor | None = None,
                   cu_seqlens: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Computes s_t = (I + q_t k_t^T) s_{t-1} for each token, with a gradient (docs/math.md, section 6). The
    output of a token is s_{t-1}^T k_t.

    - left q, right k [B, T, H, D]; initial_states s [B, H, D, M].
    - left_scales, right_scales [B, T, H]: q and k are multiplied by them; None for ones.
    - lengths [B], or cu_seqlens [B + 1] with rows [R, ..] in place of [B, T, ..], as in `delta_product`.

    Returns the outputs [B, T, H, M] or [R, H, M], 0 beyond the end of a sequence, and the final states.
    Raises TypeError and ValueError, naming the argument.
    """
    tensors = (left, right, initial_states, left_scales, right_scales)
    outputs, final_states, _ = FORWARD(*tensors, lengths, cu_seqlens, wants_gradient(*tensors))
    return outputs, final_states
