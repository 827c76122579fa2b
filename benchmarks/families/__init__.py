"""The tables of every family, read as a server reads them, beside NumPy's formulas."""
