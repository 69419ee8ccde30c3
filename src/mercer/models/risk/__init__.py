"""Regularised risk with any convex loss: logistic, Huber, quantiles, own losses."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
