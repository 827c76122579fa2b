"""A table of every group of the matrix is identified."""

import pytest

from tests.analysis.matrix import Case, cases, outcome

pytestmark = pytest.mark.full

FIRST = {case.group: case for case in reversed([*cases()])}


@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST)
def test_a_table_of_every_convention_pack_and_rule_is_identified(case: Case) -> None:
    assert outcome(case) in {"named", "ambiguous", "same"}
