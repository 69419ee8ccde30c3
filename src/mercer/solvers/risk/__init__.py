"""Regularised risks: smooth losses by Newton steps, losses with kinks, sparse weights, streams."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
