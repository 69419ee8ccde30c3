"""Functions of two points: positive definite kernels and their algebra."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
