"""Finds liborthornn_c.so, loads it, and turns its statuses into exceptions.

    lib = library()                       # loaded once
    lib.orthornn_transition_forward(...)  # raises what the status means, with the library's message

``_abi`` has the types of all functions.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from pathlib import Path

from . import _abi

__all__ = ["Error", "find_library", "find_program", "library"]

_FOLDER = Path(__file__).resolve().parent / "lib"

# What a processor must have for code of x86-64-v3, by the names of /proc/cpuinfo.
_X86_64_V3 = frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())


class Error(RuntimeError):
    """An error of the library: a damaged file, no GPU, too little memory."""


def processor_flags() -> frozenset[str]:
    """Flags of the processor as /proc/cpuinfo names them; empty where that file cannot be read."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def build_names(flags: frozenset[str], machine: str) -> list[str]:
    """Names of the builds that a processor can run, the fastest first."""
    names = ["native"]
    if machine == "x86_64":
        if _X86_64_V3 <= flags:
            names += ["cuda", "x86-64-v3"]
        names += ["x86-64"]
    return names


def _find(name: str) -> Path:
    names = build_names(processor_flags(), platform.machine())
    for build in names:
        file = _FOLDER / build / name
        if file.is_file():
            return file
    have = sorted(path.parent.name for path in _FOLDER.glob(f"*/{name}"))
    if have == ["cuda"]:
        raise ImportError("orthornn-cu13 needs a processor with AVX2 and FMA (x86-64-v3), which this one "
                          "lacks; install orthornn, which runs on every x86-64 processor")
    found = f"the package has builds for {', '.join(have)} alone" if have else "the package has none"
    raise ImportError(f"expected {name} for this processor ({' or '.join(names)}) in {_FOLDER}; {found}. "
                      "Install the wheel again, or set ORTHORNN_LIBRARY to the path of liborthornn_c.so")


def find_library() -> Path:
    """Path of liborthornn_c.so: ``ORTHORNN_LIBRARY`` if it is set, else that of the package.

    Raises ImportError if there is none that this processor can run.
    """
    own = os.environ.get("ORTHORNN_LIBRARY")
    return Path(own) if own else _find("liborthornn_c.so")


def find_program() -> Path:
    """Path of the program ``orthornn`` of the package. Raises ImportError if there is none."""
    return _find("orthornn")


def _load(file: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(os.fspath(file))
    except OSError as error:
        reason = str(error)
    if not file.is_file():
        raise ImportError(f"ORTHORNN_LIBRARY is '{file}', and there is no such file; "
                          "expected the path of liborthornn_c.so")
    if any(name in reason for name in ("libcublas", "libcusolver", "libcusparse", "libnvJitLink")):
        raise ImportError(f"the CUDA libraries of orthornn-cu13 are missing ({reason}); "
                          "pip install 'nvidia-cublas>=13,<14' 'nvidia-cusolver>=12,<13'")
    raise ImportError(f"{file} cannot be loaded: {reason}")


# What a status raises.
_EXCEPTIONS = {
    _abi.INVALID_ARGUMENT: ValueError,
    _abi.INVALID_SHAPE: ValueError,
    _abi.INVALID_VALUE: ValueError,
    _abi.OUT_OF_MEMORY: MemoryError,
}


@functools.cache
def library() -> ctypes.CDLL:
    """The library, whose functions return None or raise what their status means.

    Raises ImportError if it cannot be loaded, or has another interface than this package. The functions raise
    ValueError for arguments, MemoryError, and :class:`Error` for files, devices and the rest.
    """
    file = find_library()
    loaded = _load(file)

    def check_result(status: int, function: object, arguments: object) -> None:
        if status != _abi.OK:
            message = loaded.orthornn_last_message().decode("utf-8", "replace")
            raise _EXCEPTIONS.get(status, Error)(message)

    try:
        found = loaded.orthornn_abi_version()
        if found == _abi.ABI_VERSION:
            _abi.declare(loaded, check_result)
            # The threads of OpenMP do not live on in a child process, which would wait for them forever.
            os.register_at_fork(after_in_child=lambda: loaded.orthornn_set_thread_count(1))
            return loaded
    except AttributeError as error:
        raise ImportError(f"{file} is no liborthornn_c.so of this package: {error}") from None
    raise ImportError(f"{file} has version {found} of the C interface; this package needs {_abi.ABI_VERSION}")
