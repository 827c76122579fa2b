"""What becomes of channels, and by what they were turned."""

from typing import Any

import numpy as np
import pytest

from service.analysis.applied.wiring import Wiring
from tests.analysis.rotating import Engine

X = np.random.default_rng(0).standard_normal((3, 7, 12))
WIRINGS: dict[str, tuple[Wiring, dict[str, Any]]] = {
    "half": (Wiring(12, 8), {}),
    "interleaved": (
        Wiring(12, 8, read="interleaved", written="interleaved"),
        {"layout": "interleaved"},
    ),
    "mixed": (
        Wiring(12, 8, read="interleaved"),
        {"layout": "interleaved", "written": "half"},
    ),
    "elsewhere": (Wiring(12, 8, 4), {"offset": 4}),
    "no minus": (Wiring(12, 8, form="no-minus"), {"signs": (1, 1)}),
    "both minus": (Wiring(12, 8, form="both-minus"), {"signs": (-1, -1)}),
    "own": (Wiring(12, 8, form="own-minus-last"), {"is_own": True, "signs": (1, -1)}),
    "exchanged": (Wiring(12, 8, is_exchanged=True), {"is_written_reversed": True}),
    "tiled": (Wiring(12, 8, is_tiled_otherwise=True), {"is_tiled_otherwise": True}),
    "zeros": (Wiring(12, 8, is_rest_zero=True), {"is_rest_zero": True}),
}


@pytest.mark.parametrize("name", WIRINGS)
def test_channels_become_what_an_engine_makes_of_them(name: str) -> None:
    wiring, changes = WIRINGS[name]
    engine = Engine(8, **changes)

    made = wiring.apply(X, *engine.tables(7))

    np.testing.assert_array_equal(made, engine.rotate(X))


@pytest.mark.parametrize("name", WIRINGS)
def test_cosines_and_sines_are_measured_on_what_they_made(name: str) -> None:
    wiring, changes = WIRINGS[name]
    engine = Engine(8, **changes)
    cosine, sine = engine.tables(7)

    turns, weights = wiring.measure(X, engine.rotate(X))

    np.testing.assert_allclose(turns, cosine + 1j * sine, atol=1e-13)
    assert (weights > 0).all()


def test_zeros_measure_nothing() -> None:
    turns, weights = Wiring(12, 8).measure(0 * X, 0 * X)

    assert not turns.any()
    assert not weights.any()


def test_sizes_are_those_of_both_channels_of_a_pair() -> None:
    x = np.arange(1.0, 7.0).reshape(1, 1, 6)

    half = Wiring(6, 4).sizes(x)
    interleaved = Wiring(6, 4, 2, "interleaved", "interleaved").sizes(x)

    np.testing.assert_array_equal(half, [[[4, 6, 4, 6, 5, 6]]])
    np.testing.assert_array_equal(interleaved, [[[1, 2, 7, 7, 11, 11]]])
