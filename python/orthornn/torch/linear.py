"""Linear maps and convolutions whose weights are orthonormal, so that they enlarge nothing."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization

from .parametrize import Cwy, TruncatedCwy


class OrthogonalLinear(nn.Linear):
    """y = W x + b with a W [out, in] that has orthonormal columns, or orthonormal rows where it has more
    columns than rows, after every step of an optimizer.

    So |y - y'| <= |x - x'|, with equality where out_features >= in_features. A square W is orthogonal: the
    map has an inverse, and the logarithm of its determinant is 0. The arguments are those of
    `torch.nn.Linear`. The weight is parametrized: by `Cwy` if it is square, else by `TruncatedCwy`. Assign
    `weight` to start from a given one; others are drawn uniformly. Raises ValueError for sizes below 1, and
    TypeError for a dtype that is neither torch.float32 nor torch.float64.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        _check_sizes(in_features=in_features, out_features=out_features)
        super().__init__(in_features, out_features, bias, device, dtype)
        _make_orthonormal(self)

    def reset_parameters(self) -> None:
        """Draws a uniform W, and b as `torch.nn.Linear` does. torch's seed decides the numbers."""
        super().reset_parameters()
        _draw_weight(self)

    def inverse(self, y: Tensor) -> Tensor:
        """The x [.., N] of y [.., N]. Raises ValueError unless the map is square."""
        self._check_square()
        return (y if self.bias is None else y - self.bias) @ self.weight

    def log_determinant(self) -> Tensor:
        """log |det W|, a tensor of one number, which is 0. Raises ValueError unless the map is square."""
        self._check_square()
        return _zero(self)

    def _check_square(self) -> None:
        if self.in_features != self.out_features:
            raise ValueError(f"OrthogonalLinear: expected in_features = out_features, found "
                             f"{self.in_features} and {self.out_features}; other maps have no inverse")


class OrthogonalConv2d(nn.Conv2d):
    """A convolution with zeros around the image, y = K * x + b, that keeps or shortens every difference:
    |y - y'| <= |x - x'| over all pixels and channels (docs/math.md, section 9.7).

    The kernel [F, C, q, q'] is a matrix [F, C q q'] with orthonormal columns, or orthonormal rows where it
    has more columns than rows, divided by sqrt(q q'): a number of the image is in q q' neighbourhoods at
    most. It stays so after every step of an optimizer. A kernel of 1 x 1 with as many outputs as inputs is an
    orthogonal map of each pixel: it has an inverse, and the logarithm of its determinant is 0.

    The arguments are the first ones of `torch.nn.Conv2d`. The image keeps its height and width, at a stride
    of 1. Assign `weight` to start from a given kernel; others are drawn uniformly. It raises as
    OrthogonalLinear.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int], *,
                 bias: bool = True, device: Any = None, dtype: torch.dtype | None = None) -> None:
        sizes = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(sizes) != 2:
            raise ValueError(f"kernel_size: expected a number or two, found {kernel_size}")
        for size in sizes:
            _check_sizes(in_channels=in_channels, out_channels=out_channels, kernel_size=size)
        super().__init__(in_channels, out_channels, sizes, padding="same", bias=bias, device=device,
                         dtype=dtype)
        _make_orthonormal(self)
        # A 1 x 1 kernel is orthogonal as it is.
        if math.prod(sizes) > 1:
            register_parametrization(self, "weight", _Scaled(math.prod(sizes) ** -0.5))

    def reset_parameters(self) -> None:
        """Draws a uniform kernel, and b as `torch.nn.Conv2d` does. torch's seed decides the numbers."""
        super().reset_parameters()
        _draw_weight(self)

    def inverse(self, y: Tensor) -> Tensor:
        """The x [.., C, H, W] of y [.., C, H, W]. Raises ValueError unless the kernel is 1 x 1 with as many
        outputs as inputs."""
        self._check_square()
        if self.bias is not None:
            y = y - self.bias[:, None, None]
        return nn.functional.conv2d(y, self.weight.transpose(0, 1))

    def log_determinant(self) -> Tensor:
        """log |det| of the map of an image, a tensor of one number, which is 0. Raises ValueError unless the
        kernel is 1 x 1 with as many outputs as inputs."""
        self._check_square()
        return _zero(self)

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


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: expected 1 or more, found {size}")


def _make_orthonormal(layer: nn.Linear | nn.Conv2d) -> None:
    """Parametrizes a weight that has orthonormal rows or columns."""
    rows = len(layer.weight)
    square = layer.weight.numel() == rows * rows
    register_parametrization(layer, "weight", Cwy() if square else TruncatedCwy())


@torch.no_grad()
def _draw_weight(layer: nn.Linear | nn.Conv2d) -> None:
    """Draws orthonormal rows or columns, uniformly. Equal numbers are drawn for every device."""
    shape = layer.weight.shape
    drawn = nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64)).to(layer.weight)
    if not is_parametrized(layer):
        layer.weight.copy_(drawn)
    else:
        scales = list(layer.parametrizations.weight)[1:]
        layer.weight = drawn * math.prod(own.factor for own in scales)


def _zero(layer: nn.Linear | nn.Conv2d) -> Tensor:
    """0 as a tensor of the type and on the device of a square layer."""
    return layer.parametrizations.weight.original.new_zeros(())
