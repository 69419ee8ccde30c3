"""Is a sample of a given density? The kernel Stein discrepancy."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
