"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_state_norms(models):
    result = subprocess.run([sys.executable, EXAMPLES / "state_norms.py", models("lstm")], text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("<orthornn.Model of copying")
    assert "layer 0, state h [16]" in lines and "layer 0, state c [16]" in lines
    assert len(lines) == 1 + 2 * (1 + 10)
