"""Support vector machines: classes, numbers and one class."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
