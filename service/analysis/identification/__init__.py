"""Compare an array with each proposed table, element by element, and rank the matching tables."""
