import numpy as np
import pytest

from service.analysis.progression import Geometric
from service.analysis.sample import Sample
from service.analysis.sinusoids.conventions import (
    Candidate,
    candidates,
    digits,
    falling,
    is_no_chance,
    usable_bases,
)
from service.analysis.sinusoids.series import courses
from service.tables.document import ParameterValue
from tests.analysis.sinusoid_tables import sample_of, view_of


def found(sample: Sample, layout: str = "concatenated") -> list[Candidate]:
    view = view_of(sample, layout)
    return candidates(view, next(courses(view)), None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"convention": "fairseq", "base": 500.0},
        {"convention": "tensor2tensor", "min_timescale": 0.5, "max_timescale": 3000.0},
        {"convention": "mlx", "min_freq": 0.003, "max_freq": 0.5, "full_turns": True},
        {"convention": "x-transformers", "scale": 3.0},
        {"convention": "transformer-xl"},
        {"convention": "whisper"},
    ],
    ids=lambda parameters: parameters["convention"],
)
def test_a_convention_is_among_the_candidates_with_its_numbers(
    parameters: dict[str, ParameterValue],
) -> None:
    asked = {**parameters}
    asked["max_timescale" if parameters["convention"] == "none" else "d_model"] = 16
    sample = sample_of("encoding", seq_len=40, start=3, **asked)

    assert {**parameters, "d_model": 16} in [dict(each.parameters) for each in found(sample)]


def test_conventions_that_give_the_same_numbers_are_all_candidates() -> None:
    sample = sample_of("encoding", seq_len=40, d_model=16, layout="concatenated")

    assert [each.name for each in found(sample)] == [
        "vaswani",
        "marian",
        "mae",
        "diffusers",
        "transformer-xl",
        "x-transformers",
    ]


def test_odd_channels_are_those_of_the_conventions_that_have_them() -> None:
    cut = sample_of("encoding", seq_len=40, d_model=9, convention="positional-encodings")
    more = sample_of("encoding", seq_len=40, d_model=15, convention="transformer-xl")

    assert [each.name for each in found(cut, "interleaved")] == ["positional-encodings"]
    assert [dict(each.parameters) for each in found(more)] == [
        {"d_model": 15, "convention": "transformer-xl"}
    ]


def test_frequencies_fall_from_one_to_one_over_the_base() -> None:
    assert falling(100.0, 4, 3) == pytest.approx([1, 0.1, 0.01], rel=1e-15)


def test_a_series_that_says_nothing_has_the_usual_base() -> None:
    assert usable_bases(Geometric(1.0, 1.0, np.inf, np.inf), 8) == (10000.0,)
    assert usable_bases(Geometric(1.0, 0.1, 1e-9, 1e-9), 8) == (10000.0,)


def test_few_digits_are_no_chance() -> None:
    assert [digits(number) for number in (10000.0, 9646.6, 1 / 3)] == [1, 5, 15]
    assert is_no_chance(1, 1e-4)
    assert not is_no_chance(5, 1e-6)
