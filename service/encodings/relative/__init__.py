"""Encodings of the distance between a query and a key: biases, indices and sinusoids."""
