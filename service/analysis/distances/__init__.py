"""Integers and biases that distances decide, told by their numbers."""
