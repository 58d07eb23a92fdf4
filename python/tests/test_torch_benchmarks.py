"""The benchmark of calls, which uses what is within the package, runs."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")

FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "torch_cpu.py"


def test_the_benchmark_of_calls_times_each():
    spec = importlib.util.spec_from_file_location("torch_cpu", FILE)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    quartiles = benchmark.calls(2)
    assert {"C interface alone", "rollout without a gradient", "torch.add"} <= set(quartiles)
    assert all(min(seconds) > 0 for seconds in quartiles.values())
