"""Encodings of positions along one axis, and of tokens, boxes and timesteps."""
