"""Numbers of which nothing is known: a factor and a shift are found by the numbers alone."""

import numpy as np

from service.analysis.mistakes.diagnosis import Wanted, diagnose
from service.analysis.sample import Sample
from service.tables.dtypes import FLOAT32
from service.tables.table import StoredTable

LEARNED = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)


def names(have: np.ndarray, want: np.ndarray) -> list[str]:
    sides = [{"x": Sample.of(StoredTable(each, FLOAT32))} for each in (have, want)]
    found = diagnose(sides[0], Wanted(sides[1], FLOAT32))
    assert found is not None
    return [mistake.name for mistake in found.mistakes] if found.verdict == "diagnosed" else []


def test_a_factor_is_found_in_a_learned_table() -> None:
    assert names(LEARNED * np.float32(0.5), LEARNED) == ["missing-factor"]


def test_rows_from_another_on_are_found_in_a_learned_table() -> None:
    assert "position-offset" in names(LEARNED[3:33], LEARNED[:30])


def test_another_learned_table_is_not_explained() -> None:
    other = np.random.default_rng(1).standard_normal((40, 24)).astype(np.float32)

    assert names(other, LEARNED) == []
