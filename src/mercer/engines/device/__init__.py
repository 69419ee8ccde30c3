"""What differs on a device: where tensors are, what memory is left, fused programs."""
