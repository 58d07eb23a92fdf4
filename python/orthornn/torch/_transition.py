"""The orthogonal matrix Q and matrices with orthonormal columns, as operations with gradients."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from .. import _abi
from .._library import library
from ._calls import (DTYPES, addresses, check_number_type, check_shape, choice, define, device_of, kept,
                     key_of, no_second_derivatives, workspace_of, workspaces_of)

KINDS = {"cwy": _abi.CWY, "householder": _abi.HOUSEHOLDER, "cayley": _abi.CAYLEY, "expm": _abi.EXPM,
         "own": _abi.OWN}
STIEFEL_KINDS = {"stiefel": _abi.STIEFEL_TCWY, "own": _abi.STIEFEL_OWN}  # names as in a model file


def _make_plan(parameters, kind, negative_signs):
    _check_parameters(parameters, kind, negative_signs)
    rows, size = parameters.shape
    reflections = rows if kind in ("cwy", "householder") else 0
    options = _abi.Transition(DTYPES[parameters.dtype], KINDS[kind], size, reflections, negative_signs)
    return options, *workspaces_of("transition", parameters, options)


def _plan_of(parameters, kind, negative_signs):
    """The structure of a transition, and the bytes of workspace of forward and backward."""
    return kept(("transition", kind, negative_signs, key_of(parameters)), _make_plan, parameters, kind,
                negative_signs)


def _check_parameters(parameters, kind, negative_signs):
    choice("kind", kind, KINDS)
    check_number_type("parameters", parameters)
    check_shape("parameters", parameters, None, None)
    rows, size = parameters.shape
    if kind in ("cwy", "householder"):
        if rows < 1 or rows > size:
            raise ValueError(f"parameters: expected reflection vectors [L, N] with 1 <= L <= N, found "
                             f"{list(parameters.shape)}")
    elif rows != size or size < 1:
        raise ValueError(f"parameters: expected a square matrix [N, N], found {list(parameters.shape)}")
    if not 0 <= negative_signs <= (size if kind == "cayley" else 0):
        raise ValueError(f"negative_signs: expected 0 to N for cayley and 0 for other kinds, found "
                         f"{negative_signs}")


def _forward(parameters, kind, negative_signs):
    options, count, _ = _plan_of(parameters, kind, negative_signs)
    parameters = parameters.contiguous()
    size = parameters.shape[1]
    q = parameters.new_empty(size, size)
    workspace = workspace_of(parameters, count)
    try:
        library().orthornn_transition_forward(device_of(parameters), options,
                                              *addresses(parameters, q, workspace), count)
    except ValueError as error:  # of a number, which the library names as a model file does
        raise ValueError(f"parameters: {error}") from None
    return q


def _forward_fake(parameters, kind, negative_signs):
    _check_parameters(parameters, kind, negative_signs)
    return parameters.new_empty(parameters.shape[1], parameters.shape[1])


def _backward(parameters, d_q, kind, negative_signs):
    parameters, d_q = parameters.contiguous(), d_q.contiguous()
    options, _, count = _plan_of(parameters, kind, negative_signs)
    d_parameters = torch.empty_like(parameters)
    workspace = workspace_of(parameters, count)
    library().orthornn_transition_backward(device_of(parameters), options,
                                           *addresses(parameters, d_q, d_parameters, workspace), count)
    return d_parameters


def _backward_fake(parameters, d_q, kind, negative_signs):
    return torch.empty_like(parameters, memory_format=torch.contiguous_format)


def _save(ctx, inputs, output):
    parameters, ctx.kind, ctx.negative_signs = inputs
    ctx.save_for_backward(parameters)


def _differentiate(ctx, d_q):
    no_second_derivatives()
    parameters, = ctx.saved_tensors
    return BACKWARD(parameters, d_q, ctx.kind, ctx.negative_signs), None, None


FORWARD = define("transition(Tensor parameters, str kind, int negative_signs) -> Tensor", _forward,
                 _forward_fake, setup=_save, backward=_differentiate)
BACKWARD = define("transition_backward(Tensor parameters, Tensor d_q, str kind, int negative_signs) -> "
                  "Tensor", _backward, _backward_fake, autocast=None)


def transition(kind: str, parameters: Tensor, *, negative_signs: int = 0) -> Tensor:
    """Returns the orthogonal matrix Q [N, N] of free parameters (docs/math.md, sections 1.1 and 3), with a
    gradient.

    - kind: "cwy" or "householder" for reflection vectors [L, N]; "cayley", "expm" or "own" for a matrix
      [N, N].
    - negative_signs: entries -1 of the fixed diagonal matrix of "cayley".

    Raises TypeError and ValueError, naming the argument. On the CPU it also raises ValueError for a
    reflection vector of zeros, for a singular matrix of "own" and for parameters that are not finite. On a
    GPU Q means nothing then.
    """
    return FORWARD(parameters, kind, negative_signs)


def parameter_of(kind: str, size: int, reflections: int | None = None) -> tuple[str, tuple[int, int]]:
    """Name and shape of the parameter of Q [N, N], as in a model file; kinds are those of `transition`,
    "matrix" and "free". Raises ValueError for a number of reflections outside 1 to N."""
    if kind in ("cwy", "householder"):
        count = size if reflections is None else reflections
        if not 1 <= count <= size:
            raise ValueError(f"reflections: expected 1 to hidden_size = {size}, found {count}")
        return "reflection_vectors", (count, size)
    if reflections is not None:
        raise ValueError(f"reflections: expected None for {kind}, found {reflections}")
    names = {"own": "proxy_matrix", "matrix": "stiefel_matrix", "free": "matrix"}
    return names.get(kind, "skew_parameters"), (size, size)


def stiefel_structure(kind: str, parameters: Tensor) -> ctypes.Structure:
    """The structure of a point of a Stiefel manifold, by the kind and the shape of its parameters."""
    return _abi.Stiefel(DTYPES[parameters.dtype], STIEFEL_KINDS[kind], *_shape_of_point(parameters, kind))


def _shape_of_point(parameters, kind):
    """[N, M]; reflection vectors are [M, N]."""
    return parameters.shape[::-1] if kind == "stiefel" else parameters.shape


def _make_stiefel_plan(parameters, kind):
    _check_point(parameters, kind)
    options = stiefel_structure(kind, parameters)
    return options, *workspaces_of("stiefel", parameters, options)


def _stiefel_plan_of(parameters, kind):
    """The structure of a point, and the bytes of workspace of forward and backward."""
    return kept(("stiefel", kind, key_of(parameters)), _make_stiefel_plan, parameters, kind)


def _check_point(parameters, kind):
    choice("kind", kind, STIEFEL_KINDS)
    check_number_type("parameters", parameters)
    check_shape("parameters", parameters, None, None)
    rows, columns = _shape_of_point(parameters, kind)
    if not 1 <= columns <= rows:
        raise ValueError(f"parameters: expected shape [{'M, N' if kind == 'stiefel' else 'N, M'}] with "
                         f"1 <= M <= N, found {list(parameters.shape)}")


def _new_point(parameters, kind):
    return parameters.new_empty(*_shape_of_point(parameters, kind))


def _stiefel_forward(parameters, kind):
    options, count, _ = _stiefel_plan_of(parameters, kind)
    parameters = parameters.contiguous()
    omega = _new_point(parameters, kind)
    workspace = workspace_of(parameters, count)
    try:
        library().orthornn_stiefel_forward(device_of(parameters), options,
                                           *addresses(parameters, omega, workspace), count)
    except ValueError as error:
        raise ValueError(f"parameters: {error}") from None
    return omega


def _stiefel_forward_fake(parameters, kind):
    _check_point(parameters, kind)
    return _new_point(parameters, kind)


def _stiefel_backward(parameters, d_omega, kind):
    parameters, d_omega = parameters.contiguous(), d_omega.contiguous()
    options, _, count = _stiefel_plan_of(parameters, kind)
    d_parameters = torch.empty_like(parameters)
    workspace = workspace_of(parameters, count)
    library().orthornn_stiefel_backward(device_of(parameters), options,
                                        *addresses(parameters, d_omega, d_parameters, workspace), count)
    return d_parameters


def _stiefel_backward_fake(parameters, d_omega, kind):
    return torch.empty_like(parameters, memory_format=torch.contiguous_format)


def _stiefel_save(ctx, inputs, output):
    parameters, ctx.kind = inputs
    ctx.save_for_backward(parameters)


def _stiefel_differentiate(ctx, d_omega):
    no_second_derivatives()
    parameters, = ctx.saved_tensors
    return STIEFEL_BACKWARD(parameters, d_omega, ctx.kind), None


STIEFEL = define("stiefel(Tensor parameters, str kind) -> Tensor", _stiefel_forward, _stiefel_forward_fake,
                 setup=_stiefel_save, backward=_stiefel_differentiate)
STIEFEL_BACKWARD = define("stiefel_backward(Tensor parameters, Tensor d_omega, str kind) -> Tensor",
                          _stiefel_backward, _stiefel_backward_fake, autocast=None)


def stiefel(parameters: Tensor, kind: str = "stiefel") -> Tensor:
    """Returns a matrix [N, M] with orthonormal columns, M <= N, with a gradient.

    - kind: "stiefel" for reflection vectors [M, N] of T-CWY (docs/math.md, section 2.1), or "own" for a matrix
      V [N, M] of rank M. The result is V (V^T V)^-1/2 then, the matrix with orthonormal columns that is
      nearest to V (section 3.5).

    Raises TypeError and ValueError, naming the argument. On the CPU it also raises ValueError for a
    reflection vector of zeros, for a V of a smaller rank and for parameters that are not finite. On a GPU the
    result means nothing then.
    """
    return STIEFEL(parameters, kind)
