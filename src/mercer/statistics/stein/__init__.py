"""Is a sample of a given density? The kernel Stein discrepancy."""
