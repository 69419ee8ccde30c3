"""Models of tables with columns of several kinds."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
