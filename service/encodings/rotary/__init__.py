"""Rotary embeddings: frequency rules, packs, positions on several axes."""
