"""Rotations that were applied to arrays: what was done in place of what should have been."""
