"""Sinusoidal encodings told by their numbers: conventions, series, rows."""
