"""Learned tables of positions that are resized to other grids, windows and lengths."""
