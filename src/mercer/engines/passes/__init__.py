"""Passes over rows: in memory, on a device, from files and on a cluster."""
