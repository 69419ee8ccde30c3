"""Functions of one point: f = Σ αᵢ k(xᵢ, ·) + b, their geometry, and mean embeddings."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
