"""Linear maps and convolutions whose weights are orthonormal, so that they enlarge nothing."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization

from ._calls import DTYPES, check_sizes
from .parametrize import Cwy, TruncatedCwy


class _OrthonormalLayer(nn.Module):
    """What the layers below share: a weight that is a matrix with a row for each output, whose rows or
    columns are orthonormal, multiplied by `_scale`. It comes before torch's layer among the bases."""

    _scale = 1.0
    _weight_shape: tuple[int, ...]

    def _make_orthonormal(self) -> None:
        """Parametrizes the weight, which stays the one that was drawn."""
        rows = self._weight_shape[0]
        square = math.prod(self._weight_shape) == rows * rows
        register_parametrization(self, "weight", Cwy() if square else TruncatedCwy())
        if self._scale != 1:
            register_parametrization(self, "weight", _Scaled(self._scale))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws the weight uniformly among those with orthonormal rows or columns, and the bias as torch's
        layer does. torch's seed decides the numbers. Equal weights are drawn for every device."""
        # The weight itself is not read: after `to_empty` its parameters may be zeros, which give none.
        like = next(self.parameters())
        if like.is_meta:
            return
        drawn = nn.init.orthogonal_(torch.empty(self._weight_shape, dtype=torch.float64, device="cpu"))
        weight = (self._scale * drawn).to(like)
        if is_parametrized(self, "weight"):
            self.weight = weight
        else:
            self.weight.copy_(weight)
        if self.bias is not None:
            limit = math.prod(self._weight_shape[1:]) ** -0.5
            self.bias.uniform_(-limit, limit)

    def log_determinant(self) -> Tensor:
        """log |det| of the map of one input, a tensor of one number, which is 0. Raises ValueError unless the
        map has an inverse."""
        self._check_square()
        return next(self.parameters()).new_zeros(())

    def _check_square(self) -> None:
        raise NotImplementedError


class OrthogonalLinear(_OrthonormalLayer, nn.Linear):
    """y = W x + b with a W [out, in] that has orthonormal columns, or orthonormal rows where it has more
    columns than rows, after every step of an optimizer.

    So |y - y'| <= |x - x'|, with equality where out_features >= in_features. A square W is orthogonal: the
    map has an inverse, and the logarithm of its determinant is 0. The arguments are those of
    `torch.nn.Linear`. The weight is parametrized: by `Cwy` if it is square, else by `TruncatedCwy`.

    Assign `weight` to start from a given one; one that is not orthonormal is replaced by the nearest one that
    is. Without that it is drawn uniformly. Raises ValueError for sizes below 1, and TypeError for a dtype
    that is neither torch.float32 nor torch.float64.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        check_sizes(in_features=in_features, out_features=out_features)
        _check_dtype(dtype)
        super().__init__(in_features, out_features, bias, device, dtype)
        self._make_orthonormal()

    def inverse(self, y: Tensor) -> Tensor:
        """The x [.., N] of y [.., N]. Raises ValueError unless the map is square."""
        self._check_square()
        return (y if self.bias is None else y - self.bias) @ self.weight

    @property
    def _weight_shape(self) -> tuple[int, ...]:
        return self.out_features, self.in_features

    def _check_square(self) -> None:
        if self.in_features != self.out_features:
            raise ValueError(f"OrthogonalLinear: expected in_features = out_features, found "
                             f"{self.in_features} and {self.out_features}; other maps have no inverse")


class OrthogonalConv2d(_OrthonormalLayer, nn.Conv2d):
    """A convolution with zeros around the image, y = K * x + b, that keeps or shortens every difference:
    |y - y'| <= |x - x'| over all pixels and channels (docs/math.md, section 9.9).

    The kernel [F, C, q, q'] is a matrix [F, C q q'] with orthonormal columns, or orthonormal rows where it
    has more columns than rows, divided by sqrt(q q'): a number of the image is in q q' neighbourhoods at
    most. It stays so after every step of an optimizer. A kernel of 1 x 1 with as many outputs as inputs is an
    orthogonal map of each pixel: it has an inverse, and the logarithm of its determinant is 0.

    The arguments are the first ones of `torch.nn.Conv2d`. The image keeps its height and width, at a stride
    of 1. Assign `weight` to start from a given kernel; one that is not orthonormal divided by sqrt(q q') is
    replaced by the nearest one that is. Without that it is drawn uniformly. Raises ValueError for sizes below
    1 and for a `kernel_size` of other than one or two numbers, and TypeError for a `kernel_size` that is not
    whole and for a dtype that is neither torch.float32 nor torch.float64.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int], *,
                 bias: bool = True, device: Any = None, dtype: torch.dtype | None = None) -> None:
        sizes = _kernel_sizes(kernel_size)
        check_sizes(in_channels=in_channels, out_channels=out_channels, kernel_size=min(sizes))
        _check_dtype(dtype)
        super().__init__(in_channels, out_channels, sizes, padding="same", bias=bias, device=device,
                         dtype=dtype)
        self._make_orthonormal()

    def inverse(self, y: Tensor) -> Tensor:
        """The x [B, C, H, W] of y [B, C, H, W], or the x [C, H, W] of y [C, H, W]. Raises ValueError unless
        the kernel is 1 x 1 with as many outputs as inputs."""
        self._check_square()
        if self.bias is not None:
            y = y - self.bias[:, None, None]
        return nn.functional.conv2d(y, self.weight.transpose(0, 1))

    @property
    def _scale(self) -> float:
        return math.prod(self.kernel_size) ** -0.5

    @property
    def _weight_shape(self) -> tuple[int, ...]:
        return self.out_channels, self.in_channels, *self.kernel_size

    def _check_square(self) -> None:
        if self.kernel_size != (1, 1) or self.in_channels != self.out_channels:
            raise ValueError("OrthogonalConv2d: expected a kernel of 1 x 1 and in_channels = out_channels, "
                             f"found {self.kernel_size[0]} x {self.kernel_size[1]}, {self.in_channels} and "
                             f"{self.out_channels}; other maps have no inverse")


class _Scaled(nn.Module):
    """Multiplies a weight by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, weight: Tensor) -> Tensor:
        return self.factor * weight

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight / self.factor


def _check_dtype(dtype: torch.dtype | None) -> None:
    """None is torch's default type."""
    found = torch.get_default_dtype() if dtype is None else dtype
    if found not in DTYPES:
        raise TypeError(f"dtype: expected {' or '.join(map(str, DTYPES))}, found {found}")


def _kernel_sizes(kernel_size: int | Iterable[int]) -> tuple[int, int]:
    """Height and width of a kernel."""
    wrong = f"kernel_size: expected a whole number or two, found {kernel_size!r}"
    try:
        sizes = (operator.index(kernel_size), ) * 2
    except TypeError:
        try:
            sizes = tuple(map(operator.index, kernel_size))
        except TypeError:
            raise TypeError(wrong) from None
    if len(sizes) != 2:
        raise ValueError(wrong)
    return sizes
