"""The C interface of include/orthornn/c_api.h as ctypes see it: structs, constants and prototypes.

Arrays are passed as addresses: integers such as ``array.ctypes.data`` and ``tensor.data_ptr()``, or None.
Structs are passed by ``ctypes.byref``. The header says what each function does.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p

ABI_VERSION = 2

# Statuses
OK, INVALID_ARGUMENT, INVALID_SHAPE, INVALID_VALUE = range(4)
FILE_ERROR, DEVICE_ERROR, OUT_OF_MEMORY, INTERNAL_ERROR = range(4, 8)
# Kinds of devices
CPU, CUDA = range(2)
# Types of numbers
F32, F64, BF16 = range(3)
# Precisions
PRECISION_FP32, PRECISION_TF32, PRECISION_BF16 = range(3)
# Parametrizations
CWY, HOUSEHOLDER, CAYLEY, EXPM, OWN = range(5)
# What makes a matrix with orthonormal columns.
STIEFEL_TCWY, STIEFEL_OWN = range(2)
# Initializations
INIT_HENAFF, INIT_CAYLEY, INIT_HAAR, INIT_NORMAL = range(4)
# Activations
TANH, RELU, ABS, MODRELU, IDENTITY = range(5)
# Orders of the rows of a layout
SEQUENCE_MAJOR, TIME_MAJOR, PACKED = range(3)
# Decays of a delta product
NO_DECAY, DECAY_OF_HEAD, DECAY_OF_ROW = range(3)
# Forms of a delta product
RECURRENT, CHUNKED, BEST_FORM = range(3)


def _struct(name: str, **members: type) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(members.items())})


def _pointers(names: str) -> dict[str, type]:
    return dict.fromkeys(names.split(), c_void_p)


Device = _struct("Device", kind=c_int32, index=c_int32, stream=c_void_p)
Transition = _struct("Transition", dtype=c_int32, kind=c_int32, size=c_int64, reflections=c_int64,
                     negative_signs=c_int64)
Stiefel = _struct("Stiefel", dtype=c_int32, kind=c_int32, rows=c_int64, columns=c_int64)
Affine = _struct("Affine", dtype=c_int32, precision=c_int32, length=c_int64, batch=c_int64, inputs=c_int64,
                 outputs=c_int64)
Rollout = _struct("Rollout", dtype=c_int32, activation=c_int32, precision=c_int32, reserved=c_int32,
                  length=c_int64, batch=c_int64, size=c_int64)
Layout = _struct("Layout", order=c_int32, reserved=c_int32, batch=c_int64, length=c_int64,
                 **_pointers("lengths offsets"))
DeltaProduct = _struct("DeltaProduct", dtype=c_int32, form=c_int32, unit_keys=c_int32, precision=c_int32,
                       decay=c_int32, removals=c_int32, scale=c_double, chunk=c_int64, segments=c_int64,
                       factors=c_int64, heads=c_int64, key=c_int64, value=c_int64)
DeltaInputs = _struct("DeltaInputs", **_pointers(
    "queries keys values betas log_decays removals initial_states"))
DeltaGradients = _struct("DeltaGradients", **_pointers(
    "d_outputs d_final_states d_queries d_keys d_values d_betas d_log_decays d_removals d_initial_states"))
RankOneChain = _struct("RankOneChain", dtype=c_int32, reserved=c_int32, chunk=c_int64, heads=c_int64,
                       size=c_int64, columns=c_int64)
ChainInputs = _struct("ChainInputs", **_pointers("left right left_scales right_scales initial_states"))
ChainGradients = _struct("ChainGradients", **_pointers(
    "d_outputs d_final_states d_left d_right d_left_scales d_right_scales d_initial_states"))

# Types of arguments, by the letters of the prototypes below. Structs are passed by reference.
_TYPES = {
    "i": c_int32,
    "l": c_int64,
    "u": c_uint64,
    "d": c_double,
    "p": c_void_p,  # an array, a model, a generator
    "s": c_char_p,
    "*i": ctypes.POINTER(c_int32),
    "*l": ctypes.POINTER(c_int64),
    "*p": ctypes.POINTER(c_void_p),
    "*s": ctypes.POINTER(c_char_p),
} | {struct.__name__: ctypes.POINTER(struct) for struct in (
    Device, Transition, Stiefel, Affine, Rollout, Layout, DeltaProduct, DeltaInputs, DeltaGradients, RankOneChain,
    ChainInputs, ChainGradients)}

# Functions that return a status, without their prefix orthornn_.
_FUNCTIONS = {
    "check_device": "Device",
    "synchronize": "Device",
    "set_thread_count": "i",
    "transition_parameter_shape": "Transition *l",
    "transition_initialize": "Transition i u p",
    "transition_parameters_of": "Transition p p",
    "transition_forward_workspace": "Device Transition *l",
    "transition_forward": "Device Transition p p p l",
    "transition_backward_workspace": "Device Transition *l",
    "transition_backward": "Device Transition p p p p l",
    "stiefel_initialize": "Stiefel u p",
    "stiefel_parameters_of": "Stiefel p p",
    "stiefel_forward_workspace": "Device Stiefel *l",
    "stiefel_forward": "Device Stiefel p p p l",
    "stiefel_backward_workspace": "Device Stiefel *l",
    "stiefel_backward": "Device Stiefel p p p p l",
    "affine_forward_workspace": "Device Affine *l",
    "affine_forward": "Device Affine p p p p p l",
    "affine_backward_workspace": "Device Affine *l",
    "affine_backward": "Device Affine p p p p p p p p p l",
    "rollout_forward_workspace": "Device Rollout *l",
    "rollout_forward": "Device Rollout p p p p p p p p p l",
    "rollout_backward_workspace": "Device Rollout *l",
    "rollout_backward": "Device Rollout p p p p p p p p p p p p l",
    "delta_product_saved": "Device DeltaProduct Layout *l",
    "delta_product_forward_workspace": "Device DeltaProduct Layout i *l",
    "delta_product_forward": "Device DeltaProduct Layout DeltaInputs p p p l p l",
    "delta_product_backward_workspace": "Device DeltaProduct Layout *l",
    "delta_product_backward": "Device DeltaProduct Layout DeltaInputs DeltaGradients p l p l",
    "delta_product_step": "Device DeltaProduct l DeltaInputs p p",
    "rank_one_chain_saved": "Device RankOneChain Layout *l",
    "rank_one_chain_forward_workspace": "Device RankOneChain Layout i *l",
    "rank_one_chain_forward": "Device RankOneChain Layout ChainInputs p p p l p l",
    "rank_one_chain_backward_workspace": "Device RankOneChain Layout *l",
    "rank_one_chain_backward": "Device RankOneChain Layout ChainInputs ChainGradients p l p l",
    "model_load": "s Device i *p",
    "model_create": "s u Device i *p",
    "layer_check": "s",
    "model_save": "p s",
    "model_describe": "p *s",
    "model_get_parameter": "p s p l",
    "model_set_parameter": "p s p l",
    "model_output_shape": "p l l *l *i",
    "model_outputs": "p l l p p p p *p *p",
    "model_translate": "p *s l l *s",
    "model_generate": "p s l d u *p *l",
    "generator_create": "p l *p",
    "generator_step": "p p p p",
    "generator_reset": "p",
    "generator_get_state": "p l p l",
    "generator_set_state": "p l p l",
}

# Functions that return something else, or nothing.
_OTHER_FUNCTIONS = {
    "abi_version": ("", c_int32),
    "version": ("", c_char_p),
    "last_message": ("", c_char_p),
    "built_with_cuda": ("", c_int32),
    "thread_count": ("", c_int32),
    "model_free": ("p", None),
    "generator_free": ("p", None),
}


def declare(library: ctypes.CDLL, check_result) -> None:
    """Gives all functions their types. ``check_result(status, function, arguments)`` gets each status."""
    for name, letters in _FUNCTIONS.items():
        function = getattr(library, f"orthornn_{name}")
        function.argtypes = [_TYPES[letter] for letter in letters.split()]
        function.restype = c_int32
        function.errcheck = check_result
    for name, (letters, result) in _OTHER_FUNCTIONS.items():
        function = getattr(library, f"orthornn_{name}")
        function.argtypes = [_TYPES[letter] for letter in letters.split()]
        function.restype = result
