"""Positional encodings, one class a family: parameters, formula, source and error bound."""
