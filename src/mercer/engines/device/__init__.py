"""What differs on a device: where tensors are, what memory is left, fused programs."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
