"""How the library is found and loaded, and that its prototypes are those of the header."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orthornn import _abi, _library

HEADER = Path(__file__).resolve().parents[2] / "include/orthornn/c_api.h"
V3 = "fpu sse2 ssse3 abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split()


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|^#.*?$", " ", text, flags=re.DOTALL | re.MULTILINE)


def letter_of(parameter: str) -> str:
    """The letter of _abi for a parameter of the header."""
    kind = re.sub(r"\s*\b\w+(\[\d*\])?$", lambda m: "*" if m[1] else "", parameter).replace("const", "")
    kind = kind.replace(" ", "")
    if found := re.fullmatch(r"orthornn_(\w+)\*", kind):
        struct = found[1].title().replace("_", "")
        return struct if hasattr(_abi, struct) and struct.isalpha() else "p"
    # Arrays of a caller are addresses; the others are results, which ctypes pass by reference.
    name = re.search(r"(\w+)(\[\d*\])?$", parameter)[1]
    if kind in ("int32_t*", "int64_t*") and name in ("bytes", "shape", "rank"):
        return {"int32_t*": "*i", "int64_t*": "*l"}[kind]
    if kind == "char**" and name == "text":
        return "*p"  # a text of so many bytes, of which one may be NUL
    return {"int32_t": "i", "int64_t": "l", "uint64_t": "u", "double": "d", "char*": "s", "char**": "*s",
            "orthornn_model**": "*p", "orthornn_generator**": "*p", "float**": "*p"}.get(kind, "p")


def functions_of_header() -> dict[str, str]:
    text = without_comments(HEADER.read_text())
    found = {}
    for name, parameters in re.findall(r"orthornn_(\w+)\(([^;]*?)\);", text, flags=re.DOTALL):
        split = [" ".join(parameter.split()) for parameter in parameters.split(",")]
        found[name] = " ".join(letter_of(p) for p in split if p != "void")
    return found


needs_header = pytest.mark.skipif(not HEADER.exists(), reason="the tests are away from the repository")


@needs_header
def test_prototypes_are_those_of_the_header():
    declared = _abi._FUNCTIONS | {name: letters for name, (letters, _) in _abi._OTHER_FUNCTIONS.items()}
    assert declared == functions_of_header()


@needs_header
def test_structs_have_the_members_of_the_header():
    sizes = {"int32_t": 4, "int64_t": 8, "double": 8}
    text = without_comments(HEADER.read_text())
    structs = re.findall(r"typedef struct orthornn_(\w+) \{(.*?)\}", text, flags=re.DOTALL)
    assert len(structs) >= 10
    for name, body in structs:
        struct = getattr(_abi, name.title().replace("_", ""))
        members = []
        for declaration in filter(None, (" ".join(d.split()) for d in body.split(";"))):
            kind = declaration.removeprefix("const ").split()[0]
            for member in declaration.split(","):
                members.append((re.search(r"\w+$", member)[0], 8 if "*" in member else sizes[kind]))
        assert [(field, ctypes.sizeof(kind)) for field, kind in struct._fields_] == members, name


@needs_header
def test_constants_are_those_of_the_header():
    text = without_comments(HEADER.read_text())
    values = dict(re.findall(r"ORTHORNN_(\w+) = (\d+)", text))
    assert len(values) > 30
    assert {name: getattr(_abi, name) for name in values} == {name: int(v) for name, v in values.items()}
    assert f"ABI_VERSION {_abi.ABI_VERSION}\n" in HEADER.read_text()


def test_the_build_follows_the_processor():
    assert _library.build_names(frozenset(V3), "x86_64") == ["native", "cuda", "x86-64-v3", "x86-64"]
    assert _library.build_names(frozenset(V3) - {"fma"}, "x86_64") == ["native", "x86-64"]
    assert _library.build_names(frozenset(), "x86_64") == ["native", "x86-64"]
    assert _library.build_names(frozenset(), "aarch64") == ["native"]


def test_a_package_without_a_fitting_build_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("ORTHORNN_LIBRARY", raising=False)
    monkeypatch.setattr(_library, "_FOLDER", tmp_path)
    with pytest.raises(ImportError, match="the package has none"):
        _library.find_library()
    monkeypatch.setattr(_library, "processor_flags", lambda: frozenset())
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "liborthornn_c.so").touch()
    with pytest.raises(ImportError, match="needs a processor with AVX2"):
        _library.find_library()
    (tmp_path / "x86-64").mkdir()
    (tmp_path / "x86-64" / "liborthornn_c.so").touch()
    monkeypatch.setattr(_library.platform, "machine", lambda: "aarch64")
    with pytest.raises(ImportError, match=r"this processor \(native\).*builds for cuda, x86-64 alone"):
        _library.find_library()


def test_every_build_of_the_package_computes_the_same(models):
    """A wheel has builds that this processor does not choose."""
    builds = [_library._FOLDER / name for name in _library.build_names(_library.processor_flags(), "x86_64")]
    builds = [build for build in builds if (build / "liborthornn_c.so").exists()]
    if len(builds) < 2:
        pytest.skip("the package has one build")
    outputs = []
    for build in builds:
        lines = "import sys, numpy, orthornn; x = numpy.arange(60).reshape(2, 30) % 10; " \
                "print(*orthornn.load(sys.argv[1]).predict(x).ravel())"
        library = run("-c", lines, str(models("copying")), ORTHORNN_LIBRARY=str(build / "liborthornn_c.so"))
        assert library.returncode == 0, library.stderr
        outputs.append(np.array(library.stdout.split(), dtype=float))
        program = subprocess.run([build / "orthornn", "inspect", models("copying")], timeout=60)
        assert program.returncode == 0
    # Sums of 16 and 10 numbers near 1 in float32, in another order and with FMA, over 30 steps.
    for other in outputs[1:]:
        np.testing.assert_allclose(outputs[0], other, rtol=0, atol=1e-5)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    # In another folder than python/: the package is the installed one.
    return subprocess.run([sys.executable, *arguments], env=os.environ | environment, text=True,
                          capture_output=True, timeout=60, cwd=Path(sys.prefix))


@pytest.mark.parametrize(("content", "message"), [
    (None, "there is no such file"), ("no library", "cannot be loaded"), ("libc", "is no liborthornn_c.so")])
def test_a_wrong_library_is_an_import_error(tmp_path, content, message):
    file = tmp_path / "own.so"
    if content == "libc":
        libc = next(Path("/").glob("lib*/**/libm.so.6"), None)
        if libc is None:
            pytest.skip("there is no libm.so.6 here")
        shutil.copy(libc, file)
    elif content is not None:
        file.write_text(content)
    result = run("-c", "import orthornn; orthornn.load('/dev/null')", ORTHORNN_LIBRARY=str(file))
    assert result.returncode == 1
    assert "ImportError: " in result.stderr and message in result.stderr


def test_missing_cuda_libraries_are_named(monkeypatch, tmp_path):
    def load(path: str) -> None:
        raise OSError("libcublas.so.13: cannot open shared object file: No such file or directory")

    (tmp_path / "liborthornn_c.so").touch()
    monkeypatch.setattr(ctypes, "CDLL", load)
    with pytest.raises(ImportError, match="libcublas.so.13.*pip install 'nvidia-cublas"):
        _library._load(tmp_path / "liborthornn_c.so")


def test_import_needs_numpy_alone_and_loads_no_library():
    result = run("-c", "import sys, orthornn; print('torch' in sys.modules)",
                 ORTHORNN_LIBRARY="/nonexistent")
    assert (result.returncode, result.stdout) == (0, "False\n")


def test_a_status_becomes_an_exception_that_has_the_message_of_the_library():
    with pytest.raises(ValueError, match="count"):
        _library.library().orthornn_set_thread_count(0)
    device = _abi.Device(_abi.CUDA, 1000, None)
    with pytest.raises(_library.Error):
        _library.library().orthornn_check_device(ctypes.byref(device))
