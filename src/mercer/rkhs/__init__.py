"""Functions of one point: f = Σ αᵢ k(xᵢ, ·) + b, their geometry, and mean embeddings."""

from mercer.rkhs.function import Function
from mercer.rkhs.geometry import center, distance, distance_to_set, mean_embedding

__all__ = ["Function", "center", "distance", "distance_to_set", "mean_embedding"]
