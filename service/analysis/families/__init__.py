"""Propose candidate tables: each module measures the array and proposes tables of one kind."""
