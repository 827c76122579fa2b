"""Holds the right table of a case against the exact one of its URL: the generator's own check."""

from dataclasses import replace

import numpy as np

from tests.analysis.matrix.cases import Case, same
from tests.analysis.matrix.claims import table_of
from tests.client import Client


def check_source(client: Client, case: Case) -> str:
    """Return how the right table of a case differs from the table of its URL, or nothing."""
    recipe = case.right_recipe
    if recipe is None or case.group in {"empty-rows", "rotation"}:
        return ""
    exact = table_of(client, case.to, recipe.rows)
    if exact is None:
        return "the URL has no table"
    right = replace(recipe, kind=case.kind)
    tables, noise = right.tables(), right.noise()
    if same(tables, exact, noise, case.kind, steps=1.01):
        return ""
    if {name: array.shape for name, array in tables.items()} != {
        name: array.shape for name, array in exact.items()
    }:
        return "the shapes differ"
    largest = max(float(np.max(np.abs(tables[name] - exact[name]))) for name in tables)
    return f"the right table is off by {largest:.3g}"
