"""The examples for PyTorch, run as a user runs them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(*command, folder=None):
    """What a command prints. Fails with all that it says."""
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# Runs a script as `python SCRIPT` does, and ends without the destructors of the interpreter. A thread of gloo
# may still run then in torch 2.11 to 2.15: on one machine a third of the runs of a plain DDP, without
# orthornn, were aborted after all their work.
WITHOUT_DESTRUCTORS = """
import os, runpy, sys
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
os._exit(0)
"""


def numbers(text, name):
    return [float(x) for x in re.findall(rf"{name} ([0-9.e+-]+)", text)]


def test_copying_is_learned():
    text = run(sys.executable, EXAMPLES / "torch_copying.py", 10, 300)
    assert numbers(text, "loss")[-1] < 0.1 * numbers(text, "guesser")[-1]
    lines = (EXAMPLES / "torch_copying.py").read_text().splitlines()
    assert sum(1 for line in lines if line.strip() and not line.startswith(('"', "import", "from"))) <= 25


def test_ddp_has_the_losses_of_one_process(tmp_path):
    file, script = EXAMPLES / "torch_ddp.py", tmp_path / "script.py"
    script.write_text(WITHOUT_DESTRUCTORS)
    one = numbers(run(sys.executable, file, 10), "loss")
    torchrun = sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2
    two = numbers(run(*torchrun, script, file, 10), "loss")
    assert len(one) == 10
    # Sums are rounded in another order, and the optimizer divides by their roots.
    assert two == pytest.approx(one, rel=1e-7)
    assert one[-1] < one[0]


def test_filters_stay_orthonormal():
    text = run(sys.executable, EXAMPLES / "torch_orthogonal_convolution.py")
    assert numbers(text, "right")[0] > 0.7
    # The rounding of float sums over nine numbers.
    assert float(text.split()[-1]) < 1e-5


def plot_of(tmp_path):
    """The file of a plot, if there is matplotlib, which plots alone need."""
    return [tmp_path / "plot.png"] if importlib.util.find_spec("matplotlib") else []


def test_flow(tmp_path):
    file = plot_of(tmp_path)
    text = run(sys.executable, EXAMPLES / "torch_flow.py", 250, *file, folder=tmp_path)
    assert all(x.stat().st_size > 10000 for x in file)
    # A Gaussian has one mode, the moons have a bent line.
    assert numbers(text, "flow")[0] < numbers(text, "Gaussian")[0] - 0.5


def test_a_flow_without_training_says_why_it_fails():
    done = subprocess.run([sys.executable, str(EXAMPLES / "torch_flow.py"), "0"], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 1
    assert "not better than a Gaussian by 0.5 after 0 steps" in done.stderr and "Traceback" not in done.stderr


def test_hidden_norms(tmp_path):
    file = plot_of(tmp_path)
    text = run(sys.executable, EXAMPLES / "torch_hidden_norms.py", *file, folder=tmp_path)
    assert all(x.stat().st_size > 10000 for x in file)
    # The gradient of an orthogonal recurrence arrives; that of nn.RNN vanishes.
    cwy, plain = (float(x) for x in re.findall(r"= ([0-9.e+-]+)", text))
    assert cwy > 1e-2 and plain < 1e-10
