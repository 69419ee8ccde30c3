"""Regularised risk with any convex loss: logistic, Huber, quantiles, own losses."""
