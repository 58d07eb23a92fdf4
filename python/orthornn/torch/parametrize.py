"""Orthogonal weights of any Linear or convolution, by `torch.nn.utils.parametrize`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .initial import parameters_of, stiefel_vectors_of
from ._transition import stiefel, transition


class Cwy(nn.Module):
    """Makes a square weight an orthogonal matrix, a product of reflections in compact WY form.

        torch.nn.utils.parametrize.register_parametrization(layer, "weight", Cwy())

    A weight [N, ..] is seen as the matrix of N rows and as many columns as a row has numbers. The parameter
    is the matrix of reflection vectors V [L, N]. L is `reflections`, 1 to N.

    By default L is N, and the last column of the product is multiplied by the buffer `sign`, 1 or -1. So
    every orthogonal matrix is reached, and checkpoints have one shape.

    A first weight that is not orthogonal is replaced by the nearest orthogonal matrix that N reflections
    reach, with the sign by default. With fewer reflections its first L columns are kept. A weight of the
    device "meta" has no numbers: assign one after `to_empty`.
    """

    def __init__(self, reflections: int | None = None) -> None:
        super().__init__()
        if reflections is not None and reflections < 1:
            raise ValueError(f"reflections: expected 1 or more, found {reflections}")
        self.reflections = reflections
        self.shape = None
        self.register_buffer("sign", torch.ones(()) if reflections is None else None)

    def forward(self, vectors: Tensor) -> Tensor:
        """The weight of reflection vectors [L, N]; a matrix [N, N] before `right_inverse` was called."""
        q = transition("cwy", vectors)
        if self.sign is not None:
            q = _with_last_column(q, self.sign.to(q.dtype))
        return q if self.shape is None else q.reshape(self.shape)

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Reflection vectors [L, N] that give an orthogonal weight. Raises ValueError for a weight that is
        not square or has another shape than the first one, and for an orthogonal one that L reflections do
        not reach."""
        matrix = _as_matrix(weight)
        n = len(matrix)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"weight: expected a square matrix, found {list(weight.shape)}, which is "
                             f"{list(matrix.shape)}; TruncatedCwy makes orthonormal rows or columns")
        _check_first_shape(self.shape, weight)
        if self.reflections is not None and self.reflections > n:
            raise ValueError(f"reflections: expected 1 to N = {n} for a weight {list(weight.shape)}, found "
                             f"{self.reflections}")
        if self.sign is not None and self.shape is None:
            # The device of the first weight, so that all of a layer is in one place.
            self.sign = torch.ones_like(self.sign, device=weight.device)
        vectors = weight.new_empty(self.reflections or n, n) if weight.is_meta else self._vectors_of(matrix)
        self.shape = weight.shape
        return vectors.to(weight)

    def _vectors_of(self, matrix: Tensor) -> Tensor:
        """Reflection vectors [L, N] of a matrix with numbers, and its sign."""
        n = len(matrix)
        q = _nearest_orthogonal(matrix)
        if self.reflections is None:
            sign = 1.0 if _is_product(q, n) else -1.0
            vectors = parameters_of("cwy", _with_last_column(q, sign), reflections=n)
            self.sign.fill_(sign)
            return vectors
        if _is_orthogonal(matrix):
            return parameters_of("cwy", q, reflections=self.reflections)
        return stiefel_vectors_of(_reachable(q, n)[:, :self.reflections])


class TruncatedCwy(nn.Module):
    """Makes a weight a matrix with orthonormal columns, or orthonormal rows where it has more columns than
    rows.

        torch.nn.utils.parametrize.register_parametrization(layer, "weight", TruncatedCwy())

    A weight [N, ..] is seen as the matrix of N rows and as many columns as a row has numbers. The parameter
    is the matrix of reflection vectors [M, N] of T-CWY: M the smaller and N the larger of the two sizes. A
    first weight that is not orthonormal is replaced by the nearest one that is. A square weight has the
    determinant (-1)^N, and an orthogonal one of the other determinant is refused; Cwy reaches both. A weight
    of the device "meta" has no numbers: assign one after `to_empty`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shape = None

    def forward(self, vectors: Tensor) -> Tensor:
        """The weight of reflection vectors [M, N]; a matrix [N, M] before `right_inverse` was called."""
        omega = stiefel(vectors)
        if self.shape is None:
            return omega
        wide = self.shape[0] < self.shape.numel() // self.shape[0]
        return (omega.T if wide else omega).reshape(self.shape)

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Reflection vectors [M, N] that give an orthonormal weight. Raises ValueError for a weight of
        another shape than the first one, and for an orthogonal square one of another determinant than
        (-1)^N."""
        matrix = _as_matrix(weight)
        _check_first_shape(self.shape, weight)
        if matrix.shape[0] < matrix.shape[1]:
            matrix = matrix.T
        if weight.is_meta:
            self.shape = weight.shape
            return weight.new_empty(matrix.shape[1], matrix.shape[0])
        omega = _nearest_orthogonal(matrix)
        if matrix.shape[0] == matrix.shape[1] and not _is_orthogonal(matrix):
            omega = _reachable(omega, len(omega))
        vectors = stiefel_vectors_of(omega)
        self.shape = weight.shape
        return vectors.to(weight)


def _check_first_shape(first: torch.Size | None, weight: Tensor) -> None:
    if first is not None and weight.shape != first:
        raise ValueError(f"weight: expected the shape of the first one, {list(first)}, found "
                         f"{list(weight.shape)}; another layer needs a parametrization of its own")


def _as_matrix(weight: Tensor) -> Tensor:
    if weight.ndim < 2:
        raise ValueError(f"weight: expected 2 dimensions or more, found {list(weight.shape)}")
    return weight.reshape(weight.shape[0], -1)


def _is_orthogonal(matrix: Tensor) -> bool:
    """Whether the columns are orthonormal, up to the rounding of the numbers' type."""
    product = matrix.double().T @ matrix.double()
    error = (product - torch.eye(len(product), dtype=product.dtype, device=product.device)).norm()
    return bool(error <= 100 * len(product) ** 0.5 * torch.finfo(matrix.dtype).eps)


def _nearest_orthogonal(matrix: Tensor) -> Tensor:
    """The polar factor, which is the nearest matrix with orthonormal columns in the Frobenius norm."""
    u, _, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
    return u @ vh


def _with_last_column(q: Tensor, factor: Tensor | float) -> Tensor:
    """q with its last column multiplied by a number."""
    return torch.cat([q[:, :-1], factor * q[:, -1:]], 1)


def _is_product(q: Tensor, reflections: int) -> bool:
    """Whether an orthogonal q has the determinant of a product of so many reflections."""
    return bool((torch.linalg.det(q) < 0) == (reflections % 2 == 1))


def _reachable(q: Tensor, reflections: int) -> Tensor:
    """q, with its last column turned where q has not the determinant of a product of reflections."""
    return q if _is_product(q, reflections) else _with_last_column(q, -1)
