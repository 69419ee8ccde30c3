"""Regularised risks: smooth losses by Newton steps, losses with kinks, sparse weights, streams."""
