"""The slips of tutorials, as loops write them."""

import numpy as np
import pytest

from service.analysis.mistakes.diagnosis import Wanted, diagnose
from service.analysis.mistakes.slips import slips
from service.analysis.mistakes.waves import waves_of
from service.tables.dtypes import FLOAT32
from tests.analysis.mistaken import Made, stored

RIGHT = Made(20, 8, "interleaved").table()["table"]


def loop(sine: str, cosine: str) -> np.ndarray:
    table = np.zeros((20, 8))
    for position in range(20):
        for i in range(0, 8, 2):
            exponents = {
                "i/d": i / 8,
                "(i + 1)/d": (i + 1) / 8,
                "(i + 2)/d": (i + 2) / 8,
                "2i/d": 2 * i / 8,
                "2(i + 1)/d": 2 * (i + 1) / 8,
            }
            table[position, i] = np.sin(position / 10000 ** exponents[sine])
            table[position, i + 1] = np.cos(position / 10000 ** exponents[cosine])
    return table


@pytest.mark.parametrize(
    ("sine", "cosine", "said"),
    [
        ("i/d", "(i + 1)/d", "(i + 1)/d"),
        ("i/d", "(i + 2)/d", "(i + 2)/d"),
        ("2i/d", "2(i + 1)/d", "2(i + 1)/d, and 2i/d for sines"),
    ],
)
def test_loops_of_tutorials_are_recognized(sine: str, cosine: str, said: str) -> None:
    have = {"table": stored(loop(sine, cosine), FLOAT32)}

    diagnosis = diagnose(have, Wanted({"table": stored(RIGHT, FLOAT32)}, FLOAT32))

    assert diagnosis is not None
    (mistake,) = diagnosis.mistakes
    assert (mistake.name, mistake.values["exponent"]) == ("tutorial-slip", said)


def test_frequencies_without_a_base_have_no_exponent() -> None:
    angles = np.outer(np.arange(20), [1.0, 0.7, 0.11, 0.013])
    table = np.hstack([np.sin(angles), np.cos(angles)])
    waves = waves_of(table, is_pair=False, positions=None)
    assert waves is not None

    assert list(slips(waves, table)) == []


@pytest.mark.parametrize("start", [-3, 1, 40])
def test_a_slip_is_found_where_counting_starts_elsewhere(start: int) -> None:
    places, pairs = start + np.arange(20), np.arange(4)
    sines = np.sin(np.outer(places, 10000.0 ** (-2 * pairs / 8)))
    cosines = np.cos(np.outer(places, 10000.0 ** (-(2 * pairs + 1) / 8)))
    have = {"table": stored(np.stack([sines, cosines], axis=-1).reshape(20, 8), FLOAT32)}

    diagnosis = diagnose(have, Wanted({"table": stored(RIGHT, FLOAT32)}, FLOAT32))

    assert diagnosis is not None
    assert [mistake.name for mistake in diagnosis.mistakes] == ["tutorial-slip", "position-offset"]
    assert diagnosis.mistakes[1].values == {"rows": start}
