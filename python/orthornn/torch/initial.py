"""Parameters of orthogonal matrices before training, and those of given matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _abi
from .._library import library
from ._calls import DTYPES, choice
from ._transition import KINDS, STIEFEL_KINDS, stiefel_structure

INITS = {"henaff": _abi.INIT_HENAFF, "cayley": _abi.INIT_CAYLEY, "haar": _abi.INIT_HAAR,
         "normal": _abi.INIT_NORMAL}


def _seed() -> int:
    """A seed that torch's seed decides."""
    return int(torch.randint(2 ** 63 - 1, (), device="cpu"))


def _structure(kind, parameters, negative_signs):
    rows, size = parameters.shape
    reflections = rows if kind in ("cwy", "householder") else 0
    return _abi.Transition(DTYPES[parameters.dtype], KINDS[kind], size, reflections, negative_signs)


def _on_host(like, shape=None):
    """Host memory of float or double, for tensors of any type and place."""
    dtype = like.dtype if like.dtype in (torch.float32, torch.float64) else torch.float32
    return torch.empty(like.shape if shape is None else shape, dtype=dtype, device="cpu")


@torch.no_grad()
def draw_transition(kind: str, parameters: Tensor, init: str, negative_signs: int = 0) -> None:
    """Overwrites parameters of Q by an initialization (docs/math.md, section 4.1): "henaff", "cayley", "haar"
    or "normal". torch's seed decides the numbers. The kinds "own", "matrix" and "free" get an orthogonal
    matrix."""
    number = choice("init", init, INITS)
    if parameters.is_meta:
        return
    host = _on_host(parameters)
    # A matrix that is its own parameter starts as that of which "own" makes Q.
    drawn = kind if kind in KINDS else "own"
    library().orthornn_transition_initialize(_structure(drawn, host, negative_signs), number, _seed(),
                                             host.data_ptr())
    parameters.copy_(host)


@torch.no_grad()
def draw_stiefel(parameters: Tensor, kind: str) -> None:
    """Overwrites the parameters of a matrix with orthonormal columns so that it is uniform. The kinds are
    those of `stiefel`, and "matrix" for the matrix [N, M] itself. torch's seed decides the numbers."""
    if parameters.is_meta:
        return
    host = _on_host(parameters)
    # A matrix that is its own parameter starts as that of which "own" makes the point.
    drawn = kind if kind in STIEFEL_KINDS else "own"
    library().orthornn_stiefel_initialize(stiefel_structure(drawn, host), _seed(), host.data_ptr())
    parameters.copy_(host)


def parameters_of(kind: str, q: Tensor, *, reflections: int = 0, negative_signs: int = 0) -> Tensor:
    """Parameters of a given orthogonal matrix q [N, N], on the device and of the type of q (docs/math.md,
    section 4.2). Raises ValueError, with the reason, where there are none."""
    size = len(q)
    rows = (reflections or size) if kind in ("cwy", "householder") else size
    parameters = _on_host(q, (rows, size))
    host = q.detach().to(parameters).contiguous()
    library().orthornn_transition_parameters_of(_structure(kind, parameters, negative_signs), host.data_ptr(),
                                                parameters.data_ptr())
    return parameters.to(q)


def stiefel_vectors_of(omega: Tensor) -> Tensor:
    """Reflection vectors [M, N] of a given matrix omega [N, M] with orthonormal columns, on the device and of
    the type of omega. Raises ValueError where there are none."""
    vectors = _on_host(omega, omega.shape[::-1])
    host = omega.detach().to(vectors).contiguous()
    library().orthornn_stiefel_parameters_of(stiefel_structure("stiefel", vectors), host.data_ptr(),
                                             vectors.data_ptr())
    return vectors.to(omega)
