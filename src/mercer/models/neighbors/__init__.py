"""Neighbours and barycentres in feature space."""
