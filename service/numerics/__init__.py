"""Exact arithmetic: phases, phasors, frequencies, positions, element types. No encodings here."""
