"""The delta product over whole sequences, and by single tokens, as operations."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _abi
from .._library import library
from ._calls import (DTYPES, ROUNDED_DTYPES, addresses, bytes_of, check_like, check_number_type,
                     check_shape, choice, contiguous, define, device_of, empty_as,
                     empty_rows, full_precision, kept, key_of, memory, no_second_derivatives, precision_of,
                     shape_of_rows, wants_gradient, workspace_of)
from ._layout import PlacedPlans, check_places, size_of_saved

PLANS = PlacedPlans("delta_product")
FORMS = {"recurrent": _abi.RECURRENT, "chunked": _abi.CHUNKED}


def _type_of_numbers(dtype):
    """The type of step sizes, decays and states beside vectors of a type."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def _check(queries, keys, values, betas, log_decays, removals, initial_states, form, places, batch):
    """Checks all but the places of the tokens; `places` are their dimensions in front."""
    heads, key = queries.shape[-2:]
    factors, value = keys.shape[-3] if keys.ndim >= 3 else None, values.shape[-1]
    check_number_type("queries", queries, DTYPES if queries.is_cpu else ROUNDED_DTYPES)
    numbers = _type_of_numbers(queries.dtype)
    check_shape("keys", keys, *places, factors, heads, key)
    check_shape("values", values, *places, factors, heads, value)
    check_shape("betas", betas, *places, factors, heads)
    check_like("keys", keys, "queries", queries)
    check_like("values", values, "queries", queries)
    check_like("betas", betas, "queries", queries, numbers)
    if log_decays is not None:
        if log_decays.ndim == len(places) + 2:
            check_shape("log_decays", log_decays, *places, heads, key)
        else:
            check_shape("log_decays", log_decays, *places, heads)
        check_like("log_decays", log_decays, "queries", queries, numbers)
    if removals is not None:
        check_shape("removals", removals, *places, factors, heads, key)
        check_like("removals", removals, "queries", queries)
    if initial_states is not None:
        check_shape("initial_states", initial_states, batch, heads, key, value)
        check_like("initial_states", initial_states, "queries", queries, numbers)
    if form is not None:
        choice("form", form, FORMS)
    needs_recurrence = _needs_recurrence(queries, log_decays, removals)
    if form == "chunked" and needs_recurrence:
        raise ValueError("form: expected recurrent with removals or a decay for each row of a state, found "
                         "chunked")
    if form == "chunked" and queries.dtype == torch.float64 and not queries.is_cpu:
        raise ValueError("form: expected recurrent for torch.float64 on a GPU, found chunked")
    if queries.dtype == torch.bfloat16 and (needs_recurrence or form == "recurrent"):
        raise TypeError(f"queries: expected {' or '.join(map(str, DTYPES))} for the recurrent form, found "
                        f"{queries.dtype}")


def _needs_recurrence(queries, log_decays, removals):
    return removals is not None or log_decays is not None and log_decays.ndim == queries.ndim


def _structure_of(queries, keys, values, log_decays, removals, form, scale, unit_keys):
    decay = _abi.NO_DECAY
    if log_decays is not None:
        decay = _abi.DECAY_OF_ROW if log_decays.ndim == queries.ndim else _abi.DECAY_OF_HEAD
    number = _abi.BEST_FORM if form is None else FORMS[form]
    return _abi.DeltaProduct(ROUNDED_DTYPES[queries.dtype], number, int(unit_keys), precision_of(queries),
                             decay, int(removals is not None), scale, 0, 0, *keys.shape[-3:],
                             values.shape[-1])


def _new_states(queries, values, betas, batch):
    """Memory for states, which have the type of step sizes."""
    return betas.new_empty(batch, *_state_shape(queries, values))


def _state_shape(queries, values):
    return *queries.shape[-2:], values.shape[-1]


def _make_forward(queries, keys, values, betas, log_decays, removals, initial_states, lengths, cu_seqlens,
                  form, scale, unit_keys):
    """The structure, and the shapes of the outputs and of the states of a sequence."""
    batch = check_places("queries", queries, lengths, cu_seqlens, 2)
    _check(queries, keys, values, betas, log_decays, removals, initial_states, form, queries.shape[:-2],
           batch)
    return (_structure_of(queries, keys, values, log_decays, removals, form, scale, unit_keys),
            shape_of_rows(queries, values), _state_shape(queries, values))


def _forward(queries, keys, values, betas, log_decays, removals, initial_states, lengths, cu_seqlens, form,
             scale, unit_keys, keeps):
    tensors = (queries, keys, values, betas, log_decays, removals, initial_states)
    key = (form, scale, unit_keys, precision_of(queries), key_of(*tensors))
    product, output_shape, state_shape, places, kept_count, count = PLANS.forward(
        key, queries, lengths, cu_seqlens, keeps, _make_forward, *tensors, lengths, cu_seqlens, form, scale,
        unit_keys)
    inputs = contiguous(*tensors)
    outputs = queries.new_empty(*output_shape)
    final_states = betas.new_empty(places.layout.batch, *state_shape)
    saved, workspace = memory(queries, kept_count) if keeps else None, workspace_of(queries, count)
    library().orthornn_delta_product_forward(
        device_of(queries), product, places.layout, _abi.DeltaInputs(*addresses(*inputs)),
        *addresses(outputs, final_states, saved), kept_count, *addresses(workspace), count)
    return outputs, final_states, saved


def _forward_fake(queries, keys, values, betas, log_decays, removals, initial_states, lengths, cu_seqlens,
                  form, scale, unit_keys, keeps):
    batch = check_places("queries", queries, lengths, cu_seqlens, 2)
    _check(queries, keys, values, betas, log_decays, removals, initial_states, form, queries.shape[:-2],
           batch)
    count = 0
    if keeps:
        def size(layout):
            product = _structure_of(queries, keys, values, log_decays, removals, form, scale, unit_keys)
            return bytes_of(library().orthornn_delta_product_saved, device_of(queries),
                            product, layout)

        count = size_of_saved(size, lengths, cu_seqlens, queries, keys, values)
    return (empty_rows(queries, values), _new_states(queries, values, betas, batch),
            memory(queries, count) if keeps else None)


def _make_backward(queries, keys, values, log_decays, removals, lengths, cu_seqlens, form, scale, unit_keys):
    check_places("queries", queries, lengths, cu_seqlens, 2)
    return (_structure_of(queries, keys, values, log_decays, removals, form, scale, unit_keys),)


def _backward(queries, keys, values, betas, log_decays, removals, lengths, cu_seqlens, saved, d_outputs,
              d_final_states, form, scale, unit_keys, d_initial):
    tensors = (queries, keys, values, betas, log_decays, removals)
    key = (form, scale, unit_keys, precision_of(queries), key_of(*tensors))
    product, places, count = PLANS.backward(key, queries, lengths, cu_seqlens, _make_backward, queries, keys,
                                            values, log_decays, removals, lengths, cu_seqlens, form, scale,
                                            unit_keys)
    batch = places.layout.batch
    inputs = contiguous(*tensors)
    arriving = contiguous(d_outputs, d_final_states)
    if arriving[0] is None:
        arriving[0] = empty_rows(queries, values).zero_()
    gradients = _new_gradients(*tensors, batch, d_initial)
    workspace = workspace_of(queries, count)
    library().orthornn_delta_product_backward(
        device_of(queries), product, places.layout, _abi.DeltaInputs(*addresses(*inputs)),
        _abi.DeltaGradients(*addresses(*arriving, *gradients)), *addresses(saved), saved.numel(),
        *addresses(workspace), count)
    return gradients


def _new_gradients(queries, keys, values, betas, log_decays, removals, batch, d_initial):
    """Memory for the gradients of those of the seven inputs that are there."""
    like = (queries, keys, values, betas, log_decays, removals)
    return (*[None if x is None else empty_as(x) for x in like],
            _new_states(queries, values, betas, batch) if d_initial else None)


def _backward_fake(queries, keys, values, betas, log_decays, removals, lengths, cu_seqlens, saved, d_outputs,
                   d_final_states, form, scale, unit_keys, d_initial):
    batch = queries.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    return _new_gradients(queries, keys, values, betas, log_decays, removals, batch, d_initial)


def _save(ctx, inputs, output):
    tensors, ctx.options = inputs[:6], inputs[9:12]
    ctx.keeps = inputs[12]
    ctx.save_for_backward(*tensors, inputs[7], inputs[8], output[2])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_outputs, d_final_states, _d_saved):
    no_second_derivatives()
    if not ctx.keeps:
        raise RuntimeError("keeps: expected True for a delta product with a gradient")
    tensors = ctx.saved_tensors
    wants_initial = ctx.needs_input_grad[6]
    gradients = BACKWARD(*tensors, d_outputs, d_final_states, *ctx.options, wants_initial)
    there = [x is not None for x in tensors[:6]] + [wants_initial]
    return *(g if is_there else None for g, is_there in zip(gradients, there)), *(None,) * 6


FORWARD = define(
    "delta_product(Tensor queries, Tensor keys, Tensor values, Tensor betas, Tensor? log_decays, "
    "Tensor? removals, Tensor? initial_states, Tensor? lengths, Tensor? cu_seqlens, str? form, float scale, "
    "bool unit_keys, bool keeps) -> (Tensor, Tensor, Tensor)",
    _forward, _forward_fake, setup=_save, backward=_differentiate)
BACKWARD = define(
    "delta_product_backward(Tensor queries, Tensor keys, Tensor values, Tensor betas, Tensor? log_decays, "
    "Tensor? removals, Tensor? lengths, Tensor? cu_seqlens, Tensor saved, Tensor? d_outputs, "
    "Tensor? d_final_states, str? form, float scale, bool unit_keys, bool d_initial) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", _backward, _backward_fake, autocast=None)


def delta_product(queries: Tensor, keys: Tensor, values: Tensor, betas: Tensor, *,
                  log_decays: Tensor | None = None, removals: Tensor | None = None,
                  initial_states: Tensor | None = None, lengths: Tensor | None = None,
                  cu_seqlens: Tensor | None = None, scale: float = 1.0, unit_keys: bool = False,
                  form: str | None = None) -> tuple[Tensor, Tensor]:
    """Computes DeltaProduct, with a gradient (docs/math.md, section 5.1; Siems et al., arXiv 2502.10297): for
    each token S <- diag(e^a) S, then for each of its n factors S <- S + beta k (v - S^T (k * r))^T, and then
    the output scale * S^T q.

    - queries [B, T, H, K], keys [B, T, n, H, K], values [B, T, n, H, V], betas [B, T, n, H].
    - log_decays a [B, T, H], or [B, T, H, K] for one decay for each row of a state; 0 or less.
    - removals r [B, T, n, H, K]; None for ones.
    - initial_states S [B, H, K, V]; None for zeros.
    - lengths [B]: tokens of each sequence, 0 to T. Outputs beyond them are 0.
    - cu_seqlens [B + 1]: all tensors but the states have rows [R, ..] in place of [B, T, ..], and sequence b
      has the rows cu_seqlens[b] to cu_seqlens[b + 1] - 1. Give it, and lengths, in host memory: of numbers
      on a GPU a copy is made first, which waits for the GPU and cannot be captured.
    - unit_keys: whether keys are divided by their norm first.
    - form: "chunked" or "recurrent", which agree up to rounding. None stands for the form that the library's
      layer takes for these sizes: "recurrent" for few steps, with removals or decays of rows, and on a GPU
      also for doubles, K above 256, n above 32, many small states, and without compute capability 9.0.

    Returns the outputs [B, T, H, V] or [R, H, V], and the final states [B, H, K, V]. Numbers are float or
    double. On a GPU queries, keys, values and outputs may be bfloat16 in the chunked form; step sizes,
    decays and states are float beside them. The chunked form of floats there computes in tf32 where torch
    allows it. Raises TypeError and ValueError, naming the argument, and orthornn.Error for bfloat16 and for
    form="chunked" on a GPU that has no chunked form.
    """
    tensors = (queries, keys, values, betas, log_decays, removals, initial_states)
    keeps = wants_gradient(*tensors)
    outputs, final_states, _ = FORWARD(*tensors, lengths, cu_seqlens, form, float(scale), unit_keys, keeps)
    return outputs, final_states


def _make_step(queries, keys, values, betas, log_decays, removals, states, scale, unit_keys):
    """The structure, and the shape of the outputs."""
    _check_step(queries, keys, values, betas, log_decays, removals, states)
    return (_structure_of(queries, keys, values, log_decays, removals, "recurrent", scale, unit_keys),
            shape_of_rows(queries, values))


def _step(queries, keys, values, betas, log_decays, removals, states, scale, unit_keys):
    tensors = (queries, keys, values, betas, log_decays, removals)
    key = ("delta_product_step", scale, unit_keys, precision_of(queries), key_of(*tensors, states))
    product, output_shape = kept(key, _make_step, *tensors, states, scale, unit_keys)
    inputs = contiguous(*tensors)
    outputs = queries.new_empty(*output_shape)
    own = states.contiguous()
    library().orthornn_delta_product_step(device_of(queries), product, queries.shape[0],
                                          _abi.DeltaInputs(*addresses(*inputs)), *addresses(own, outputs))
    if own is not states:
        states.copy_(own)
    if not states.is_inference():
        # A graph that keeps the states as they were must notice in its backward that they are gone.
        torch.autograd.graph.increment_version(states)
    return outputs


def _check_step(queries, keys, values, betas, log_decays, removals, states):
    if queries.ndim != 3:
        raise ValueError(f"queries: expected shape [B, H, K], found {list(queries.shape)}")
    _check(queries, keys, values, betas, log_decays, removals, None, "recurrent", queries.shape[:1],
           queries.shape[0])
    check_shape("states", states, *queries.shape, values.shape[-1])
    check_like("states", states, "queries", queries)


def _step_fake(queries, keys, values, betas, log_decays, removals, states, scale, unit_keys):
    _check_step(queries, keys, values, betas, log_decays, removals, states)
    return empty_rows(queries, values)


def _autocast_step(arguments):
    """Autocast: the states are written, so they stay the caller's own tensor."""
    cast = full_precision(arguments)
    cast[6] = arguments[6]
    return cast


STEP = define("delta_product_step(Tensor queries, Tensor keys, Tensor values, Tensor betas, "
              "Tensor? log_decays, Tensor? removals, Tensor(a!) states, float scale, bool unit_keys) -> "
              "Tensor", _step, _step_fake, autocast=_autocast_step)


def delta_product_step(queries: Tensor, keys: Tensor, values: Tensor, betas: Tensor, states: Tensor, *,
                       log_decays: Tensor | None = None, removals: Tensor | None = None, scale: float = 1.0,
                       unit_keys: bool = False) -> Tensor:
    """Goes on by one token of each of B sequences, for generation: overwrites the states [B, H, K, V] and
    returns the outputs [B, H, V]. It has no gradient.

    The tensors are those of `delta_product` without T: queries [B, H, K], keys [B, n, H, K],
    values [B, n, H, V], betas [B, n, H], log_decays [B, H] or [B, H, K], removals [B, n, H, K]. Raises
    TypeError and ValueError, naming the argument, and ValueError where a gradient is asked for.
    """
    if wants_gradient(queries, keys, values, betas, log_decays, removals, states):
        raise ValueError("delta_product_step has no gradient; call it under torch.no_grad(), or call "
                         "delta_product")
    return STEP(queries, keys, values, betas, log_decays, removals, states, float(scale), unit_keys)
