"""ALiBi: slopes, biases and forms."""

from collections.abc import Sequence

import numpy as np
import pytest

from service.analysis.array import ProposalFamily
from service.analysis.families.slope_biases import (
    Multiples,
    forms,
    propose_alibi,
    propose_slopes,
    single_slope,
    slope_rules,
)
from service.numerics.dtypes import REAL_DTYPES, largest_finite
from tests.analysis.samples import agreeing, input_from, input_of, proposed

SHARES = {"float32": 2.0**-22, "float64": 2.0**-50, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("convention", ["bloom", "mpt"])
@pytest.mark.parametrize("keys", ["key_len=5", "key_len=300", "key_len=40&head=1"])
def test_biases_of_keys_are_found(dtype: str, convention: str, keys: str) -> None:
    url = f"/relative/alibi?num_heads=12&convention={convention}&{keys}&dtype={dtype}"
    request = input_of(url)

    proposals = proposed(request, [propose_alibi])

    form = {"bloom": "key", "mpt": "last-key"}[convention]
    assert proposals[0].request.parameters["form"] == form
    assert agreeing(request, proposals[:1], SHARES[dtype])


def test_last_row_of_a_decoder_has_all_forms() -> None:
    request = input_of("/relative/alibi?num_heads=8&query_start=20&query_len=1&key_len=21")

    requests = agreeing(request, proposed(request, [propose_alibi]), 0)

    forms = {each.parameters.get("form", "linear") for each in requests}
    assert forms == {"linear", "symmetric", "last-key"}


def test_keys_with_the_lowest_number_of_a_type_are_masked() -> None:
    values = input_of("/relative/alibi?num_heads=8&query_len=6&masked=true").sample.reals()
    least = -largest_finite(REAL_DTYPES["float32"])
    request = input_from(np.where(np.isinf(values), least, values).astype(np.float32))

    assert proposed(request, [propose_alibi])[0].request.parameters["masked"] is True


def test_nearest_table_is_proposed_with_one_wrong_row() -> None:
    values = input_of("/relative/alibi?num_heads=8&query_len=30").sample.reals().copy()
    values[:, 17] = np.arange(30)[::-1]
    request = input_from(values)

    proposals = proposed(request, [propose_alibi])

    assert proposals[0].request.parameters == {"num_heads": 8, "query_len": 30, "dtype": "float64"}
    assert not agreeing(request, proposals, 0)


RAMP = 0.3 * np.arange(12)


@pytest.mark.parametrize(
    ("numbers", "family"),
    [
        (RAMP, propose_alibi),
        (np.stack([RAMP, 2 * RAMP, 5 * RAMP]), propose_alibi),
        (np.array([0.123]), propose_slopes),
        (np.array([2.0]), propose_slopes),
        (10000.0 ** (-np.arange(64) / 64), propose_slopes),
    ],
    ids=["ramp", "ramps", "irregular slope", "slope above 1", "frequencies from 1"],
)
def test_other_numbers_have_no_proposals(numbers: np.ndarray, family: ProposalFamily) -> None:
    assert not proposed(input_from(numbers), [family])


def distances(queries: Sequence[int], keys: Sequence[int]) -> np.ndarray:
    return np.subtract.outer(keys, queries).T


SQUARE = distances(range(5), range(5))
GAPS = distances([3, 7], [0, 1, 5, 7, 20])
LISTED = {"query_positions": "3,7", "key_positions": "0,1,5,7,20"}
MASKED = {"masked": True, "query_len": 5}
ODD_MASK = SQUARE > 0
ODD_MASK[4, 0] = True


@pytest.mark.parametrize(
    ("numbers", "hidden", "expected"),
    [
        (distances([3, 4, 5], range(8)), None, [{"query_start": 3, "query_len": 3, "key_len": 8}]),
        (-np.abs(SQUARE), None, [{"form": "symmetric", "query_len": 5}]),
        (GAPS, None, [LISTED]),
        (-np.abs(GAPS), None, [{"form": "symmetric", **LISTED}]),
        (SQUARE, SQUARE > 0, [MASKED, {"form": "symmetric", **MASKED}]),
        (SQUARE, ODD_MASK, []),
        (
            np.arange(-4, 1)[np.newaxis],
            None,
            [
                {"form": "last-key", "key_len": 5},
                {"query_start": 4, "query_len": 1, "key_len": 5},
                {"form": "symmetric", "query_start": 4, "query_len": 1, "key_len": 5},
            ],
        ),
        (
            np.arange(5)[np.newaxis],
            None,
            [{"form": "key", "key_len": 5}, {"query_len": 1, "key_len": 5}],
        ),
        (np.random.default_rng(0).normal(size=(4, 4)), None, []),
    ],
    ids=(
        "linear", "symmetric", "linear with gaps", "symmetric with gaps", "causal mask",
        "another mask", "one row that ends at 0", "one row that begins at 0", "noise",
    ),
)  # fmt: skip
def test_numbers_give_the_forms_of_biases(
    numbers: np.ndarray, hidden: np.ndarray | None, expected: list[dict[str, object]]
) -> None:
    is_hidden = np.zeros(numbers.shape, dtype=np.bool_) if hidden is None else hidden
    shown = np.where(is_hidden, 0.0, numbers)

    found = forms(Multiples(shown, is_hidden, 2.0**-22))

    assert [parameters for _, parameters in found] == expected


@pytest.mark.parametrize(("heads", "count"), [(8, 2), (64, 2), (12, 1), (40, 1)])
def test_both_slope_conventions_are_proposed_where_they_are_equal(heads: int, count: int) -> None:
    request = input_of(f"/relative/alibi/slopes?num_heads={heads}")

    requests = agreeing(request, proposed(request, [propose_slopes]), 2.0**-22)

    assert len(requests) == count
    assert "convention" not in requests[0].parameters


def test_unusual_alibi_bias_max_is_measured_from_the_slopes() -> None:
    request = input_of("/relative/alibi/slopes?num_heads=12&alibi_bias_max=6.125")

    (proposal, *_) = proposed(request, [propose_slopes])

    assert proposal.request.parameters["alibi_bias_max"] == 6.125


def test_rules_of_slopes_follow_from_their_ratios_alone() -> None:
    values = 7 * np.exp2(-np.arange(1.0, 9.0))

    rules = list(slope_rules(values, 2.0**-22, is_absolute=False))

    assert [(rule.convention, rule.bias_max) for rule in rules] == [("original", 8), ("paper", 8)]


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (0.5, ("original", 8, 8, 0)),
        (2.0**-8, ("original", 1, 8, 0)),
        (2.0**-2.5, ("original", 16, 8, 4)),
        (2.0**-16, ("original", 1, 16, 0)),
        (2.0 ** (-8 * 2 / 12), ("paper", 6, 8, 0)),
    ],
)
def test_single_slope_has_the_rule_of_the_fewest_heads(
    slope: float, expected: tuple[str, int, float, int]
) -> None:
    ((rule, head),) = single_slope(slope, 2.0**-22)

    assert (rule.convention, rule.count, rule.bias_max, head) == expected


@pytest.mark.parametrize("slope", [0.0, 1.0, 3.0, 0.123])
def test_other_slopes_have_no_head(slope: float) -> None:
    assert not list(single_slope(slope, 2.0**-22))
