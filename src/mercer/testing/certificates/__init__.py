"""Every certificate computed a second time, from the definitions."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
