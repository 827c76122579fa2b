import numpy as np
import pytest

from service.analysis.distances.slopes import lone_slope, slope_rules, slopes
from tests.analysis.asked_arrays import agreeing, proposed, question_of, served

SHARES = {"float32": 2.0**-22, "float64": 2.0**-50, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("convention", ["original", "paper"])
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 16, 20, 32, 40, 112])
@pytest.mark.parametrize("bias_max", ["8", "16"])
def test_slopes_are_found_by_where_their_series_ends(
    dtype: str, convention: str, heads: int, bias_max: str
) -> None:
    url = f"/relative/alibi/slopes?num_heads={heads}&alibi_bias_max={bias_max}"
    question = served(f"{url}&convention={convention}&dtype={dtype}")

    proposals = proposed(question, [slopes])

    assert agreeing(question, proposals, SHARES[dtype])


@pytest.mark.parametrize(("heads", "count"), [(8, 2), (64, 2), (12, 1), (40, 1)])
def test_both_conventions_are_named_where_they_are_the_same(heads: int, count: int) -> None:
    question = served(f"/relative/alibi/slopes?num_heads={heads}")

    calls = agreeing(question, proposed(question, [slopes]), 2.0**-22)

    assert len(calls) == count
    assert "convention" not in calls[0].parameters


def test_an_odd_end_of_many_slopes_is_measured() -> None:
    question = served("/relative/alibi/slopes?num_heads=12&alibi_bias_max=6.125")

    (proposal, *_) = proposed(question, [slopes])

    assert proposal.call.parameters["alibi_bias_max"] == 6.125


def test_one_number_is_a_slope_only_where_its_series_is_plain() -> None:
    assert not proposed(question_of(np.array([0.123])), [slopes])
    assert not proposed(question_of(np.array([2.0])), [slopes])


def test_frequencies_that_start_at_1_are_no_slopes() -> None:
    frequencies = 10000.0 ** (-np.arange(64) / 64)

    assert not proposed(question_of(frequencies), [slopes])


def test_slopes_are_known_by_their_ratios_alone() -> None:
    values = 7 * np.exp2(-np.arange(1.0, 9.0))

    rules = list(slope_rules(values, 2.0**-22, is_absolute=False))

    assert [(rule.convention, rule.bias_max) for rule in rules] == [("original", 8), ("paper", 8)]


@pytest.mark.parametrize(
    ("slope", "heads", "head", "bias_max"),
    [(0.5, 8, 0, 8), (2.0**-8, 1, 0, 8), (2.0**-2.5, 16, 4, 8), (2.0**-16, 1, 0, 16)],
)
def test_a_head_alone_is_one_of_the_fewest(
    slope: float, heads: int, head: int, bias_max: float
) -> None:
    ((rule, place),) = lone_slope(slope, 2.0**-22)

    assert (rule.count, rule.bias_max, place) == (heads, bias_max, head)


def test_a_head_of_the_paper_has_as_many_as_its_exponent_says() -> None:
    ((rule, place),) = lone_slope(2.0 ** (-8 * 2 / 12), 2.0**-22)

    assert (rule.convention, rule.count, place) == ("paper", 6, 0)


@pytest.mark.parametrize("slope", [0.0, 1.0, 3.0, 0.123])
def test_other_slopes_are_of_no_head(slope: float) -> None:
    assert not list(lone_slope(slope, 2.0**-22))
