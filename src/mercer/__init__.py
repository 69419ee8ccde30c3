"""Kernel methods: any positive definite kernel, any data, any method, with a certificate."""

from mercer.doors import door

__version__ = "0.1.0"
__getattr__, __dir__ = door(__name__)
