"""What a point is: collections of points, checked once and handed on in canonical form."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
