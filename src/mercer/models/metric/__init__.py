"""Models in a metric that is learned from the data."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
