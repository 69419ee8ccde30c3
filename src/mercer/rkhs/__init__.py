"""Functions of one point: f = Σ αᵢ k(xᵢ, ·) + b, their geometry, and mean embeddings."""

from mercer.rkhs.embedding import mean_embedding
from mercer.rkhs.function import Function
from mercer.rkhs.geometry import center, distance, distance_to_set

__all__ = ["Function", "center", "distance", "distance_to_set", "mean_embedding"]
