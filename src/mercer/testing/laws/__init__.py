"""What must be true of every kernel, operator, solver and estimator."""
