"""A grid of parameters with the answer of GridSearchCV, one Gram matrix a kernel."""
