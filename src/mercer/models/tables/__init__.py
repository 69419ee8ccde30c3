"""Models of tables with columns of several kinds."""
