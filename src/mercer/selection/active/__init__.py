"""Which label to ask for next."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
