"""Verify proposed tables against an array, number by number, and rank those that match."""
