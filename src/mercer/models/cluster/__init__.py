"""Groups of points that are near one another in feature space."""

__all__: list[str] = []
