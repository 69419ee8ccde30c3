"""What does a fitted model say of its columns?"""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
