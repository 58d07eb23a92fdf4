"""Where the tokens of sequences are: tensors [B, T, ..] with lengths, or rows [R, ..] with cu_seqlens."""

from __future__ import annotations

import torch

from .. import _abi
from .._library import library
from ._calls import bytes_of, check_lengths, device_of, int32_lengths, kept, key_of


def check_places(name, tensor, lengths, cu_seqlens, inner):
    """Raises ValueError, naming the argument, unless a tensor has `inner` dimensions beside those of its
    tokens, and lengths or cu_seqlens fit. Returns the number B of sequences."""
    if cu_seqlens is None:
        if tensor.ndim != inner + 2:
            raise ValueError(f"{name}: expected [B, T] and {inner} dimensions more, found "
                             f"{list(tensor.shape)}; packed rows need cu_seqlens")
        check_lengths(lengths, tensor.shape[0])
        return tensor.shape[0]
    if lengths is not None:
        raise ValueError("lengths: expected None beside cu_seqlens")
    if tensor.ndim != inner + 1:
        raise ValueError(f"{name}: expected [R] and {inner} dimensions more beside cu_seqlens, found "
                         f"{list(tensor.shape)}")
    if cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"cu_seqlens: expected torch.int32 or torch.int64, found {cu_seqlens.dtype}")
    if cu_seqlens.ndim != 1 or cu_seqlens.shape[0] < 1:
        raise ValueError(f"cu_seqlens: expected shape [B + 1], found {list(cu_seqlens.shape)}")
    return cu_seqlens.shape[0] - 1


def size_of_saved(size, lengths, cu_seqlens, *tensors):
    """Bytes that a forward keeps, for fake tensors: `size` of the layout of the first tensor [B, T, ..].
    Where lengths are numbers in tensors, or the sizes of the tensors are symbols, only the run knows it."""
    symbols = any(type(n) is not int for x in tensors for n in x.shape)
    if lengths is not None or cu_seqlens is not None or symbols:
        return torch.library.get_ctx().new_dynamic_size()
    return size(Places(tensors[0].shape, None, None).layout)


class PlacedPlans:
    """Plans of the forward and the backward of one operation `name` of the C interface. A plan has what
    `make` makes of its arguments for a new key after its checks, a tuple whose first part is the structure,
    and then the places and sizes of memory in bytes. Only without lengths and cu_seqlens a key decides the
    last two."""

    def __init__(self, name):
        self.name = name

    def forward(self, key, like, lengths, cu_seqlens, keeps, make, *arguments):
        """What `make` makes, the places, and the bytes of what is kept, 0 unless `keeps`, and of
        workspace."""
        return self._plan((self.name, keeps, key), self._forward_sizes, like, lengths, cu_seqlens, make,
                          *arguments)

    def backward(self, key, like, lengths, cu_seqlens, make, *arguments):
        """What `make` makes, the places, and the bytes of workspace."""
        return self._plan((self.name, key), self._backward_sizes, like, lengths, cu_seqlens, make, *arguments)

    def _forward_sizes(self, key, *problem):
        _, keeps, _ = key
        saved = bytes_of(self._function("saved"), *problem) if keeps else 0
        return saved, bytes_of(self._function("forward_workspace"), *problem, int(keeps))

    def _backward_sizes(self, _key, *problem):
        return (bytes_of(self._function("backward_workspace"), *problem),)

    def _function(self, what):
        return getattr(library(), f"orthornn_{self.name}_{what}")

    def _plan(self, key, sizes, like, lengths, cu_seqlens, make, *arguments):
        if lengths is None and cu_seqlens is None:
            return kept(key, self._plan_without_lengths, key, sizes, like, make, *arguments)
        made = kept((key, key_of(lengths, cu_seqlens)), make, *arguments)
        return self._placed(made, key, sizes, like, lengths, cu_seqlens)

    def _plan_without_lengths(self, key, sizes, like, make, *arguments):
        return self._placed(make(*arguments), key, sizes, like, None, None)

    def _placed(self, made, key, sizes, like, lengths, cu_seqlens):
        places = Places(like.shape, lengths, cu_seqlens)
        return *made, places, *sizes(key, device_of(like), made[0], places.layout)


class Places:
    """A layout of the C interface, and the tensors in host memory that it points to."""

    def __init__(self, tokens, lengths, cu_seqlens):
        self.kept = None
        if cu_seqlens is not None:
            self.kept = cu_seqlens.to("cpu", torch.int64).contiguous()
            rows = int(self.kept[-1])
            if rows != tokens[0]:
                raise ValueError(f"cu_seqlens: expected {tokens[0]}, the number of rows, at its end, found "
                                 f"{rows}")
            self.layout = _abi.Layout(_abi.PACKED, 0, len(self.kept) - 1, 0, None, self.kept.data_ptr())
            return
        if lengths is not None:
            self.kept = int32_lengths(lengths.cpu())
        self.layout = _abi.Layout(_abi.SEQUENCE_MAJOR, 0, tokens[0], tokens[1],
                                  None if self.kept is None else self.kept.data_ptr(), None)
