"""Rows that arrive in blocks: from arrays, files, generators and clusters."""
