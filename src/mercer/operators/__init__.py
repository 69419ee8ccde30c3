"""Matrices one can multiply by, without always having them."""

from mercer.operators.algebra import Centered, Diagonal, LowRank, Scaled, Sum
from mercer.operators.base import Dense, Operator, as_operator
from mercer.operators.gram import Gram

__all__ = [
    "Centered",
    "Dense",
    "Diagonal",
    "Gram",
    "LowRank",
    "Operator",
    "Scaled",
    "Sum",
    "as_operator",
]
