"""Tables as points: columns of numbers, categories, text and more, from any frame."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
