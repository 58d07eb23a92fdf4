"""Recurrent networks whose transition is orthogonal by construction.

    model = orthornn.load("model.h5")
    outputs = model.predict(array)

``orthornn.torch`` has layers and functions for PyTorch.
"""

from ._library import Error
from .model import Generator, Model, load

__all__ = ["Error", "Generator", "Model", "load"]
