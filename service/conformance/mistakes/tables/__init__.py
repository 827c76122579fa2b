"""Mistakes of all other tables, of position ids and of resizes."""
