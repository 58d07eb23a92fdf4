"""Calls of operations past torch's dispatcher, which takes more time than all else of a small call.

The dispatcher goes by the keys of the tensors and by keys that the thread adds and takes away. Compilers,
autocast, modes, torch.func and jit.trace add or take away keys of the thread. Fake tensors, negated views and
tensors of transforms have keys of their own. Where the thread has the keys of a new thread, and the tensors
those of new tensors, the dispatcher does nothing but record the gradient and call the kernel.

To ask for the keys of all tensors takes a fifth of a small call. Tensors of other kinds than new ones have
another class, another device, a sign to be changed, or no numbers in memory. The last kind has no addresses,
so a kernel fails before it has done anything. Therefore keys of tensors are asked for after an error alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import has_torch_function

try:
    from torch._C import (DispatchKeySet, _dispatch_key_parse, _dispatch_keys,
                          _dispatch_tls_local_exclude_set, _dispatch_tls_local_include_set)
except ImportError:  # They are no public names: without them all calls go to the dispatcher.
    _dispatch_keys = None

# What the types of a schema are in Python. Other types, which torch may convert, are left to the dispatcher.
_TYPES = {"Tensor": {Tensor, torch.nn.Parameter}, "str": {str}, "int": {int}, "float": {float},
          "bool": {bool}}


def directly(schema: str, operation: Callable, kernel: Callable, setup: Callable | None,
             backward: Callable | None) -> Callable:
    """A function that does what an operation does: by its kernel and an autograd.Function where that is all
    that the dispatcher would do, else by the operation."""
    if _dispatch_keys is None:
        return operation
    places_of = _PlacesOfTensors(schema)
    record = operation if backward is None else _recorder(schema, kernel, setup, backward)

    def call(*arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return operation(*arguments)
        places = places_of[tuple(map(type, arguments))]
        if places is None or has_torch_function(arguments) or _keys_of_thread() not in _USUAL_KEYS:
            return operation(*arguments)
        tensors = [arguments[place] for place in places]
        if not (tensors[0].is_cpu or tensors[0].is_cuda):
            return operation(*arguments)
        way = kernel
        for x in tensors:
            if x.is_neg():
                return operation(*arguments)
            if x.requires_grad and torch.is_grad_enabled():
                way = record
        try:
            return way(*arguments)
        except Exception:
            if _are_plain(tensors):
                raise
        return operation(*arguments)

    return call


def _recorder(schema: str, kernel: Callable, setup: Callable, backward: Callable) -> Callable:
    def forward(ctx: Any, *arguments: Any) -> Any:
        result = kernel(*arguments)
        setup(ctx, arguments, result)
        return result

    name = f"orthornn_{schema[:schema.index('(')]}"
    functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (torch.autograd.Function,), functions).apply


class _PlacesOfTensors(dict):
    """By the types of all arguments, the places of those that are tensors; None unless the types are those
    that the schema names."""

    def __init__(self, schema: str) -> None:
        super().__init__()
        arguments = schema[schema.index("(") + 1:schema.index(" -> ")]
        self.allowed = [_TYPES[kind] | ({type(None)} if optional else set())
                        for kind, optional in re.findall(r"(\w+)(?:\(a!\))?(\??) \w+[,)]", arguments)]

    def __missing__(self, types: tuple[type, ...]) -> list[int] | None:
        if len(types) != len(self.allowed) or any(a not in b for a, b in zip(types, self.allowed)):
            return None
        self[types] = [i for i, own in enumerate(types) if own in _TYPES["Tensor"]]
        return self[types]


def _keys_of_thread() -> tuple[int, int]:
    return _dispatch_tls_local_include_set().raw_repr(), _dispatch_tls_local_exclude_set().raw_repr()


def _usual_keys() -> set[tuple[int, int]]:
    """Keys of a new thread, also in inference mode; this thread may be in a mode."""
    found = set()

    def look() -> None:
        found.add(_keys_of_thread())
        with torch.inference_mode():
            found.add(_keys_of_thread())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    # The backward of older torch takes away the key of named tensors, which plain ones do not have.
    return found | {(added, taken_away | _bits_of("Named")) for added, taken_away in found}


def _bits_of(key: str) -> int:
    try:
        return DispatchKeySet(_dispatch_key_parse(key)).raw_repr()
    except RuntimeError:  # a torch without this key
        return 0


_USUAL_KEYS = set() if _dispatch_keys is None else _usual_keys()


def _are_plain(tensors: list[Tensor]) -> bool:
    """Whether tensors have the keys of new ones on their devices. It is true where the device has failed."""
    plain = set()
    try:
        for device in {x.device for x in tensors}:
            for inference in False, True:
                with torch.inference_mode(inference):
                    plain.add(_dispatch_keys(torch.empty(0, device=device)).raw_repr())
    except RuntimeError:
        return True
    return all(_dispatch_keys(x).raw_repr() in plain for x in tensors)
