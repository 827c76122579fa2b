"""What a convention is filled in with; test_conventions holds the tables that come of it."""

from typing import Any

import pytest

from service.tables.conventions import CONVENTIONS
from service.tables.recipes import bands, ends, recipe


@pytest.mark.parametrize(
    ("name", "given", "names", "numbers", "frequencies"),
    [
        ("vaswani", {}, ("min_timescale", "base"), (1.0, 10000.0), (1e-4, 1.0)),
        ("whisper", {"base": 100.0}, ("min_timescale", "base"), (1.0, 100.0), (0.01, 1.0)),
        (
            "tensor2tensor",
            {"min_timescale": 2.0, "max_timescale": 8.0},
            ("min_timescale", "max_timescale"),
            (2.0, 8.0),
            (0.5, 2.0),
        ),
        ("mlx", {"max_freq": 4.0}, ("min_freq", "max_freq"), (1e-4, 4.0), (1e-4, 4.0)),
        ("mlx", {"min_freq": 3.0}, ("min_freq", "max_freq"), (3.0, 1.0), (1.0, 3.0)),
    ],
)
def test_frequencies_lie_between_two_parameters(
    name: str,
    given: dict[str, Any],
    names: tuple[str, str],
    numbers: tuple[float, float],
    frequencies: tuple[float, float],
) -> None:
    found = ends(CONVENTIONS[name], given)

    assert (found.least_name, found.greatest_name) == names
    assert (found.least, found.greatest) == numbers
    assert found.frequencies == frequencies


@pytest.mark.parametrize("name", [name for name in CONVENTIONS if name != "perceiver"])
def test_every_frequency_is_between_the_slowest_and_the_fastest(name: str) -> None:
    given = {"min_timescale": 3.0} if "min_timescale" in CONVENTIONS[name].takes else {}

    frequencies = recipe(name, 16, given).rule.exact()

    slowest, fastest = ends(CONVENTIONS[name], given).frequencies
    assert float(min(frequencies)) >= slowest * (1 - 1e-15)
    assert float(max(frequencies)) <= fastest * (1 + 1e-15)


@pytest.mark.parametrize(
    ("d_model", "concat_pos", "sine_only", "count"),
    [
        (9, True, False, 4),
        (8, True, False, 0),
        (8, False, False, 4),
        (5, True, True, 4),
        (1, 1, 0, 0),
    ],
)
def test_bands_are_counted_only_where_they_fit(
    d_model: int, concat_pos: bool, sine_only: bool, count: int
) -> None:
    assert bands(d_model, concat_pos=concat_pos, sine_only=sine_only) == count
