"""Orthogonal layers, parametrizations and operations for PyTorch.

Models of orthornn: to_torch, from_torch. Layers: CwyRnn, HouseholderRnn, CayleyRnn, ExpRnn, OwnRnn,
MatrixRnn, DeltaProduct, OrthogonalLinear, OrthogonalConv2d. Parametrizations of weights: Cwy, TruncatedCwy.
Operations with gradients: transition, stiefel, rollout, delta_product, rank_one_chain; and
delta_product_step.
"""

from ._delta_product import delta_product, delta_product_step
from .delta_layer import DeltaProduct
from .exchange import SequenceModel, from_torch, to_torch
from .linear import OrthogonalConv2d, OrthogonalLinear
from .parametrize import Cwy, TruncatedCwy
from ._rank_one_chain import rank_one_chain
from .rnn import CayleyRnn, CwyRnn, ExpRnn, HouseholderRnn, MatrixRnn, OwnRnn
from ._rollout import rollout
from ._transition import stiefel, transition

__all__ = ["CayleyRnn", "Cwy", "CwyRnn", "DeltaProduct", "ExpRnn", "HouseholderRnn", "MatrixRnn",
           "OrthogonalConv2d", "OrthogonalLinear", "OwnRnn", "SequenceModel", "TruncatedCwy", "delta_product",
           "delta_product_step", "from_torch", "rank_one_chain", "rollout", "stiefel", "to_torch",
           "transition"]
