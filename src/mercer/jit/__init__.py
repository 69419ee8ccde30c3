"""Tight loops: compiled functions only, flat arrays in and out, no parallel=True."""
