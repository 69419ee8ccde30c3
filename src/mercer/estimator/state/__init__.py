"""What a fitted model holds, told as a table: the words of it, and its check."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
