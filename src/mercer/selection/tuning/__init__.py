"""Parameters without a grid, by left-out errors, evidence and folds."""
