"""Sinusoidal encodings of grids: images, videos and masks."""
