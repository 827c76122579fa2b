"""Mistakes of rotary tables, rotations, and the tables of models."""
