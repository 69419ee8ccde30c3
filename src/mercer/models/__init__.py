"""Fit and predict: scikit-learn estimators for any kernel."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
