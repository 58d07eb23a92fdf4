"""What all operations share: tensors as arguments of the C interface, and how an operation is defined."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _abi
from .._library import library
from ._direct import directly

LIBRARY = torch.library.Library("orthornn", "DEF")

DTYPES = {torch.float32: _abi.F32, torch.float64: _abi.F64}
ROUNDED_DTYPES = {**DTYPES, torch.bfloat16: _abi.BF16}  # of vectors of a delta product, on a GPU


class _Threads:
    """Threads of the C library follow those of torch. A forked child keeps to one: the threads of an OpenMP
    runtime do not live on in it."""

    def __init__(self) -> None:
        self.count = 0
        self.forked = False
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self.count, self.forked = 0, True

    def follow(self) -> None:
        wanted = 1 if self.forked else torch.get_num_threads()
        if wanted != self.count:
            library().orthornn_set_thread_count(wanted)
            self.count = wanted


_threads = _Threads()


@functools.lru_cache(maxsize=256)
def _gpu(index: int, stream: int | None) -> ctypes.Structure:
    return _abi.Device(_abi.CUDA, index, stream)


# torch's own way to the address of the current stream, which makes no object; else the public way.
_stream_of = getattr(torch._C, "_cuda_getCurrentRawStream",
                     lambda index: torch.cuda.current_stream(index).cuda_stream)


def device_of(tensor: Tensor) -> ctypes.Structure | None:
    """The argument `device` of an operation: None for the CPU, else a GPU with torch's current stream. The
    questions about sizes have the stream too: a first one in a capture is refused."""
    if tensor.is_cpu:
        _threads.follow()
        return None
    index = tensor.get_device()
    return _gpu(index, _stream_of(index))


# What calls with the same key have in common, such as structures and sizes. Making it may come with checks of
# the arguments, which a key that is kept has passed.
_plans = {}
_most_plans = 4096


def kept(key: tuple, make: Callable, *arguments: Any) -> Any:
    """The plan of a key, which the first call makes of the arguments."""
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _most_plans:
            _plans.clear()
        plan = _plans[key] = make(*arguments)
    return plan


def key_of(*tensors: Tensor | None) -> tuple:
    """All of tensors that checks and sizes depend on, without the numbers."""
    return tuple([None if x is None else (x.shape, x.dtype, x.device) for x in tensors])


def bytes_of(function: Callable, *arguments: Any) -> int:
    """What a function that asks for a size answers."""
    count = ctypes.c_int64()
    function(*arguments, ctypes.byref(count))
    return count.value


def workspaces_of(name: str, tensor: Tensor, structure: ctypes.Structure) -> tuple[int, int]:
    """Bytes of workspace of the forward and the backward of an operation `name` of the C interface, on the
    device of a tensor."""
    on = device_of(tensor)
    asked = (getattr(library(), f"orthornn_{name}_{pass_}_workspace") for pass_ in ("forward", "backward"))
    forward, backward = (bytes_of(ask, on, structure) for ask in asked)
    return forward, backward


def addresses(*tensors: Tensor | None) -> list[int]:
    """Addresses of tensors, 0 for None. Raises RuntimeError for numbers that are nowhere in memory: to the C
    interface 0 is an array that was left out."""
    return [0 if x is None else x.data_ptr() or _no_address(x) for x in tensors]


def _no_address(tensor: Tensor) -> int:
    if tensor.numel() > 0:
        raise RuntimeError("expected tensors with numbers in memory")
    return 0


def memory(like: Tensor, count: int) -> Tensor:
    """`count` bytes on the device of a tensor."""
    return like.new_empty(count, dtype=torch.uint8)


def workspace_of(like: Tensor, count: int) -> Tensor | None:
    """`count` bytes on the device of a tensor, None for none."""
    return memory(like, count) if count else None


def empty_as(tensor: Tensor) -> Tensor:
    """Memory for a contiguous tensor of the shape, the type and the device of another one. This takes half
    the time of `new_empty` of a shape; that of numbers, `new_empty(2, 3)`, takes no longer."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def shape_of_rows(tensor: Tensor, other: Tensor) -> tuple[int, ...]:
    """The shape of a tensor with the last size of another one."""
    return *tensor.shape[:-1], other.shape[-1]


def empty_rows(tensor: Tensor, other: Tensor) -> Tensor:
    """Memory for a tensor like `tensor` with the last size of another one."""
    return tensor.new_empty(*shape_of_rows(tensor, other))


def contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    """Tensors as the C interface reads them; those that are contiguous are not copied."""
    return [None if x is None else x.contiguous() for x in tensors]


def wants_gradient(*tensors: Tensor | None) -> bool:
    """Whether a gradient of one of the tensors may be asked for."""
    return torch.is_grad_enabled() and any([x is not None and x.requires_grad for x in tensors])


def precision_of(tensor: Tensor) -> int:
    """The precision that torch allows products of floats to have."""
    return _abi.PRECISION_TF32 if not tensor.is_cpu and _allows_tf32() else _abi.PRECISION_FP32


_matmul = torch.backends.cuda.matmul
# torch 2.9 and newer, where reading allow_tf32 may raise.
_names_precision = hasattr(_matmul, "fp32_precision")
# What `fp32_precision` calls, in a fifth of its time; else the public way.
_precision_name = getattr(torch._C, "_get_fp32_precision_getter", lambda *_: _matmul.fp32_precision)


def _allows_tf32() -> bool:
    return _precision_name("cuda", "matmul") == "tf32" if _names_precision else _matmul.allow_tf32


def check_shape(name: str, tensor: Tensor, *shape: int | None) -> None:
    """Raises ValueError, naming the argument, unless the tensor has this shape; None is a free size."""
    found = tensor.shape
    if len(found) != len(shape) or any(n is not None and n != m for n, m in zip(shape, found)):
        wanted = ", ".join("*" if n is None else str(n) for n in shape)
        raise ValueError(f"{name}: expected shape [{wanted}], found {list(found)}")


def check_like(name: str, tensor: Tensor, reference: str, like: Tensor,
               dtype: torch.dtype | None = None) -> None:
    """Raises TypeError or ValueError, naming the argument, unless a tensor has the device of another and its
    type, or `dtype` in place of it."""
    wanted = like.dtype if dtype is None else dtype
    if tensor.dtype != wanted:
        as_reference = f"as {reference}" if wanted == like.dtype else f"beside {reference} of {like.dtype}"
        raise TypeError(f"{name}: expected {wanted} {as_reference}, found {tensor.dtype}")
    if tensor.device != like.device:
        raise ValueError(f"{name}: expected the device of {reference}, {like.device}, found {tensor.device}")


def check_sizes(**sizes: int) -> None:
    """Raises ValueError, naming the argument, for a size below 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: expected 1 or more, found {size}")


def check_number_type(name: str, tensor: Tensor, known: dict[torch.dtype, int] = DTYPES) -> None:
    """Raises TypeError, naming the argument, unless operations take the tensor's type."""
    if tensor.dtype not in known:
        raise TypeError(f"{name}: expected {' or '.join(map(str, known))}, found {tensor.dtype}")


def check_parameters(module: torch.nn.Module) -> None:
    """Raises TypeError, naming a parameter, unless operations take the types of the parameters of a module.
    Autocast makes numbers of another type float32 for its operations."""
    for name, parameter in module.named_parameters():
        if parameter.dtype not in DTYPES and not torch.is_autocast_enabled(parameter.device.type):
            raise TypeError(f"{type(module).__name__}: expected parameters of "
                            f"{' or '.join(map(str, DTYPES))}, found {parameter.dtype} in {name}; call "
                            "float(), and use torch.autocast to compute other layers with fewer bits")


def check_lengths(lengths: Tensor | None, batch: int) -> None:
    """Raises TypeError or ValueError unless `lengths` is None or a tensor [B] of whole numbers."""
    if lengths is None:
        return
    if lengths.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"lengths: expected torch.int32 or torch.int64, found {lengths.dtype}")
    check_shape("lengths", lengths, batch)


def int32_lengths(lengths: Tensor) -> Tensor:
    """Lengths as the C interface takes them, where they are. Raises ValueError for one in host memory that
    int32 does not hold, and so would become another."""
    own = lengths.to(torch.int32).contiguous()
    if lengths.is_cpu and own is not lengths and bool((own != lengths).any()):
        raise ValueError(f"lengths: expected 0 to the number of steps, found {lengths.tolist()}")
    return own


def choice(name: str, value: str, known: dict[str, int]) -> int:
    """The number of a named choice. Raises ValueError, naming the argument, for an unknown one."""
    try:
        return known[value]
    except KeyError:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, found '{value}'") from None


def full_precision(arguments: Sequence[Any]) -> list[Any]:
    """Autocast: Q and everything that follows from it is not rounded."""
    half = torch.float16, torch.bfloat16
    return [x.float() if isinstance(x, Tensor) and x.dtype in half else x for x in arguments]


def define(schema: str, kernel: Callable, fake: Callable, *, setup: Callable | None = None,
           backward: Callable | None = None, autocast: Callable | None = full_precision) -> Callable:
    """Defines an operation orthornn::NAME by its schema, its kernel for both devices, the kernel that knows
    shapes alone, and its gradient. Returns a function that calls it. A kernel may leave out results, as None:
    the operation gives empty tensors for them, the function None or an empty tensor."""
    name = schema[:schema.index("(")]
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    for device in "CPU", "CUDA":
        LIBRARY.impl(name, _complete(kernel), device)
    torch.library.register_fake(f"orthornn::{name}", _complete(fake), lib=LIBRARY)
    if backward is not None:
        torch.library.register_autograd(f"orthornn::{name}", backward, setup_context=setup, lib=LIBRARY)
    operation = getattr(torch.ops.orthornn, name).default
    if autocast is not None:
        for device in "cpu", "cuda":
            LIBRARY.impl(name, _autocasting(operation, device, autocast), f"Autocast{device.upper()}")
    return directly(schema, operation, kernel, setup, backward)


def _complete(kernel: Callable) -> Callable:
    """A kernel with empty tensors for the results that it leaves out, which torch's schemas do not allow."""
    @functools.wraps(kernel)
    def complete(*arguments: Any) -> Any:
        results = kernel(*arguments)
        if isinstance(results, Tensor):
            return results
        like = next(x for x in results if x is not None)
        return tuple(like.new_empty(0) if x is None else x for x in results)

    return complete


def _autocasting(operation: Callable, device: str, cast: Callable) -> Callable:
    def kernel(*arguments: Any) -> Any:
        with torch.autocast(device, enabled=False):
            return operation(*cast(arguments))

    return kernel


def no_second_derivatives() -> None:
    """Raises RuntimeError where a gradient is to be differentiated again."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError("orthornn has no second derivatives; call backward without create_graph")
