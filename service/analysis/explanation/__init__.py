"""Explanations of arrays: the table, the arithmetic that made it, and the mistakes in it."""
