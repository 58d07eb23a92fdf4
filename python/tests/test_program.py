"""The command `orthornn` that the package installs is the program: status, signals and output are its own."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orthornn import _library

COMMAND = Path(sys.prefix) / "bin" / "orthornn"
pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason="the package is not installed here")


def test_status_and_output(tmp_path):
    installed = next(wheel for wheel in importlib.metadata.distributions()
                     if wheel.metadata["Name"] in ("orthornn", "orthornn-cu13"))
    version = subprocess.run([COMMAND, "--version"], text=True, capture_output=True, timeout=60)
    assert version.returncode == 0
    assert installed.version in version.stdout
    wrong = subprocess.run([COMMAND, "eval", tmp_path / "none.h5"], text=True, capture_output=True,
                           timeout=60)
    assert wrong.returncode == 1 and wrong.stderr.startswith("orthornn: ")
    assert subprocess.run([COMMAND, "nothing"], capture_output=True, timeout=60).returncode == 2


def test_signals_reach_the_program(tmp_path):
    training = subprocess.Popen(
        [COMMAND, "train", "copying", "--delay", "20", "--hidden", "16", "--steps", "1000000", "--threads",
         "1", "--out", tmp_path / "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        # A shell starts its background jobs with this signal ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    for line in training.stdout:
        if line.startswith("step "):
            break
    # No process stands between: what runs under this number is the program.
    assert os.readlink(f"/proc/{training.pid}/exe") == os.fspath(_library.find_program())
    training.send_signal(signal.SIGINT)
    training.communicate(timeout=60)
    assert training.returncode == 128 + signal.SIGINT
    assert (tmp_path / "run" / "model.h5").exists()


def test_a_missing_program_is_one_sentence(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", f"""
from pathlib import Path
from orthornn import _library, _program
_library._FOLDER = Path({os.fspath(tmp_path)!r})
_program.main()"""], text=True, capture_output=True, timeout=60, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("orthornn: expected orthornn for this processor")
    assert len(result.stderr.splitlines()) == 1
