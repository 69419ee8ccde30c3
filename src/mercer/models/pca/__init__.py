"""Principal components, of the points or of their images in feature space."""

__all__: list[str] = []
