"""A first look at proposals."""

from dataclasses import replace

import numpy as np

from service.analysis.identifying.verification_glance import GLANCED_ROWS, chosen_rows, glance
from service.analysis.question import Turning
from service.routes.asked import tables
from tests.analysis import engines
from tests.analysis.engines import in_float32, proposal


def test_a_short_array_is_looked_at_whole_and_a_long_one_from_end_to_end() -> None:
    assert (chosen_rows(5) == np.arange(5)).all()
    rows = chosen_rows(100_000)

    assert (rows[0], rows[-1]) == (0, 99_999)
    assert len(rows) <= GLANCED_ROWS
    assert (np.diff(rows) > 0).all()


def test_claims_that_fail_at_once_are_left_out() -> None:
    looked = glance(engines.question(in_float32(4096, 64)), proposal(4096, 64), tables)

    assert looked is not None
    assert looked.agreeing == 1
    assert next(claim.arithmetic.name for claim in looked.claims) == "float32"


def test_the_claim_that_fails_least_is_kept_where_all_fail() -> None:
    table = in_float32(4096, 64)
    table[0, 0] = 0.5
    looked = glance(engines.question(table), proposal(4096, 64), tables)

    assert looked is not None
    assert 0.999 < looked.agreeing < 1
    assert len(looked.claims) == 1


def test_angles_that_are_not_those_of_the_table_explain_nothing() -> None:
    proposed = proposal(300, 16)
    assert proposed.turning is not None
    slower: Turning = replace(proposed.turning, omega=proposed.turning.omega / 2)
    doubled = np.arange(300)[:, None] * slower.omega
    looked = glance(
        engines.question(engines.laid_out(doubled)), replace(proposed, turning=slower), tables
    )

    assert looked is not None
    assert looked.agreeing < 1


def test_the_one_array_may_have_any_name() -> None:
    proposed = proposal(300, 16)
    assert proposed.turning is not None
    channels = {"encoding": proposed.turning.channels["x"]}
    named = replace(proposed, turning=replace(proposed.turning, channels=channels))
    looked = glance(engines.question(in_float32(300, 16)), named, tables)

    assert looked is not None
    assert looked.agreeing == 1
