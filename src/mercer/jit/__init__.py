"""Tight loops: compiled functions only, flat arrays in and out, no threads of their own."""
