"""Whether an application explains an array, and by how much it may be off."""

import numpy as np
import pytest

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.spin import Spin, Target
from service.analysis.applied.wiring import Wiring
from service.analysis.mistakes.catalogue import Mistake
from service.tables.dtypes import BFLOAT16
from tests.analysis.rotating import TYPES, Engine

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
RIGHT = Application(Wiring(16, 8))


def evidence(dtype: str = "float32", rows: int = 50, **changes: object) -> Evidence:
    want = Engine(8)
    x = np.random.default_rng(0).standard_normal((2, rows, 16)).astype(TYPES[dtype])
    y = want.having(**changes).rotate(x)
    target = Target.of(*want.tables(rows))
    least = 2.0**-23 if dtype == "float16" else 0.0
    return Evidence(x.astype(float), y.astype(float), target, ROUNDOFF[dtype], least)


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_right_is_within_what_is_allowed_but_not_far_within(dtype: str) -> None:
    seen = evidence(dtype)

    _, error, allowed = seen.errors(RIGHT, slice(None), np.arange(50))

    assert (error <= allowed).all()
    assert (error > allowed / 16).any()


def test_the_share_that_is_explained_is_told_row_by_row() -> None:
    seen = evidence()
    seen.y[0, 3, 0] += 1
    seen.y[:, 7] += 1

    share = seen.share_within(RIGHT, slice(None), np.array([2, 3, 7]))

    np.testing.assert_array_equal(share, [1, 31 / 32, 0])


def test_not_a_number_is_not_explained() -> None:
    seen = evidence()
    seen.y[0, 0, 0] = np.nan

    assert seen.share_within(RIGHT, slice(None), np.arange(1))[0] < 1


def test_all_rows_are_looked_at_a_part_at_a_time() -> None:
    target = Target.of(*Engine(8).tables(100))
    wide = Evidence(np.zeros((1000, 100, 16)), np.zeros((1000, 100, 16)), target, 2.0**-24)

    chunks = list(wide.chunks())

    assert len(chunks) == 2
    np.testing.assert_array_equal(np.concatenate(chunks), np.arange(100))


def test_channels_that_nothing_was_done_to_are_told_even_beside_rows_of_zeros() -> None:
    kept, zero = evidence(offset=4, beyond=(30, "zero")).untouched

    np.testing.assert_array_equal(np.flatnonzero(kept), [0, 1, 2, 3, 12, 13, 14, 15])
    assert not zero.any()
    assert evidence(is_rest_zero=True).untouched[1][8:].all()


def test_a_narrow_table_may_be_off_by_a_whole_step_where_it_is_in_doubt() -> None:
    seen = evidence(rows=400, table_dtype="bfloat16")
    narrow = Application(RIGHT.wiring, Spin(dtype=BFLOAT16))

    _, error, allowed = seen.errors(narrow, slice(None), np.arange(400))

    assert (error <= allowed).all()
    assert np.median(allowed) < 1e-4


def test_mistakes_and_what_they_changed_are_kept_in_order() -> None:
    first = RIGHT.having("times", Mistake("inverse"), spin=Spin(is_inverse=True))
    both = first.having("width", Mistake("partial-width"), wiring=Wiring(16, 16))

    assert both.aspects == ("times", "width")
    assert [mistake.name for mistake in both.mistakes] == ["inverse", "partial-width"]
    assert (both.spin.is_inverse, both.wiring.width) == (True, 16)
