"""Mistakes that are made on purpose: the wrong numbers that a flag stands for."""
