"""Are samples of one distribution? MMD and its relatives."""
