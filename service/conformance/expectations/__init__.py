"""Expectations by resource: exact numbers, and the tolerance that follows from the formula."""
