"""Expected rotations, evidence and error bounds of applied rotations.

``test_rotation.py`` compares each wiring and each change of angles with an engine.
"""

import numpy as np
import pytest

from service.analysis.diagnosis.applied_rotation import (
    Application,
    Evidence,
    RotationAngles,
    Target,
    Wiring,
    steps_of,
)
from service.analysis.diagnosis.mistakes import Mistake
from service.numerics.dtypes import BFLOAT16
from tests.analysis.rotating import TYPES, Engine


def test_measurements_of_zeros_have_no_weight() -> None:
    zeros = np.zeros((3, 7, 12))

    phasors, weights = Wiring(12, 8).measure(zeros, zeros)

    assert not phasors.any()
    assert not weights.any()


def test_size_of_a_channel_is_the_sum_over_its_pair() -> None:
    x = np.arange(1.0, 7.0).reshape(1, 1, 6)

    half = Wiring(6, 4).sizes(x)
    interleaved = Wiring(6, 4, 2, "interleaved", "interleaved").sizes(x)

    np.testing.assert_array_equal(half, [[[4, 6, 4, 6, 5, 6]]])
    np.testing.assert_array_equal(interleaved, [[[1, 2, 7, 7, 11, 11]]])


ENGINE = Engine(16, factor=1.2)


def test_frequencies_positions_and_scale_of_a_target_are_measured() -> None:
    far = Target.of(*ENGINE.with_changes(start=900).tables(40))

    assert far.omega is not None
    np.testing.assert_allclose(far.omega, ENGINE.frequencies(), atol=1e-14)
    np.testing.assert_array_equal(far.positions, np.arange(900, 940))
    np.testing.assert_allclose(far.size, 1.2)
    assert far.position(5) == 905


def test_target_has_no_frequencies_unless_angles_are_linear_in_positions() -> None:
    angles = np.random.default_rng(0).uniform(-3, 3, (20, 4))

    target = Target.of(np.cos(angles), np.sin(angles))

    assert target.omega is None
    assert target.position(3) is None


def test_target_of_one_row_has_the_given_frequencies_alone() -> None:
    tables = ENGINE.with_changes(start=9).tables(1)

    assert Target.of(*tables).omega is None
    assert Target.of(*tables, np.array([9.0]), ENGINE.frequencies()).position(0) == 9


@pytest.mark.parametrize("steps", [1, -1, 77, -3000, 9000])
def test_steps_are_found_from_noisy_phasors(steps: int) -> None:
    omega = Engine(64).frequencies()
    noise = np.exp(1j * np.random.default_rng(0).uniform(-0.003, 0.003, 32))

    assert steps_of(np.exp(1j * steps * omega) * noise, np.ones(32), omega) == steps


def test_steps_are_none_where_all_frequencies_are_zero() -> None:
    assert steps_of(np.ones(3, complex), np.ones(3), np.zeros(3)) is None


ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
CORRECT = Application(Wiring(16, 8))


def evidence(dtype: str = "float32", rows: int = 50, **changes: object) -> Evidence:
    engine = Engine(8)
    x = np.random.default_rng(0).standard_normal((2, rows, 16)).astype(TYPES[dtype])
    y = engine.with_changes(**changes).rotate(x)
    target = Target.of(*engine.tables(rows))
    least = 2.0**-23 if dtype == "float16" else 0.0
    return Evidence(x.astype(float), y.astype(float), target, ROUNDOFF[dtype], least)


@pytest.mark.parametrize("dtype", TYPES)
def test_errors_of_a_correct_rotation_are_within_a_tight_bound(dtype: str) -> None:
    _, error, allowed = evidence(dtype).errors(CORRECT, slice(None), np.arange(50))

    assert (error <= allowed).all()
    assert (error > allowed / 16).any()


def test_error_bound_of_narrow_tables_has_a_step_only_where_rounding_may_go_either_way() -> None:
    narrow = Application(CORRECT.wiring, RotationAngles(dtype=BFLOAT16))

    rounded = evidence(rows=400, table_dtype="bfloat16")
    _, error, allowed = rounded.errors(narrow, slice(None), np.arange(400))

    assert (error <= allowed).all()
    assert np.median(allowed) < 1e-4


def test_explained_share_is_counted_for_each_row() -> None:
    sent = evidence()
    sent.y[0, 3, 0] += 1
    sent.y[:, 7] += 1
    sent.y[0, 8, 0] = np.nan

    share = sent.explained_shares(CORRECT, slice(None), np.array([2, 3, 7, 8]))

    np.testing.assert_array_equal(share, [1, 31 / 32, 0, 31 / 32])


def test_chunks_have_all_rows_of_a_wide_array_once() -> None:
    target = Target.of(*Engine(8).tables(100))
    wide = Evidence(np.zeros((1000, 100, 16)), np.zeros((1000, 100, 16)), target, 2.0**-24)

    chunks = list(wide.chunks())

    assert len(chunks) == 2
    np.testing.assert_array_equal(np.concatenate(chunks), np.arange(100))


def test_untouched_channels_are_found_beside_rows_of_zeros() -> None:
    kept, zero = evidence(offset=4, beyond=(30, "zero")).untouched

    np.testing.assert_array_equal(np.flatnonzero(kept), [0, 1, 2, 3, 12, 13, 14, 15])
    assert not zero.any()
    assert evidence(is_rest_zero=True).untouched[1][8:].all()


def test_mistakes_and_changed_aspects_keep_their_order() -> None:
    first = CORRECT.with_angles("times", Mistake("inverse"), is_inverse=True)
    both = first.with_wiring("width", Mistake("partial-width"), width=16)

    assert both.aspects == ("times", "width")
    assert [mistake.name for mistake in both.mistakes] == ["inverse", "partial-width"]
    assert (both.angles.is_inverse, both.wiring.width) == (True, 16)
