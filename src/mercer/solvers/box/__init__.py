"""Quadratic problems in a box with sums: the dual of every margin machine."""
