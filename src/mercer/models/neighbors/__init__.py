"""Neighbours and barycentres in feature space."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
