"""KERPLE and Sandwich: biases of lengths are read, fitted and proposed."""

import numpy as np
import pytest

from service.analysis.families.kernel_biases import (
    LengthKernel,
    fit_logarithm,
    fit_logarithm_of_power,
    fit_power,
    inner_factor,
    length_biases,
    propose_kerple,
    propose_sandwich,
)
from tests.analysis.samples import agreeing, input_of, proposed


def test_round_numbers_of_a_logarithm_are_exact_as_log_and_as_nemo() -> None:
    request = input_of("/relative/kerple?a=0.73,1.9&p=0.3,0.8&query_len=40")

    requests = agreeing(request, proposed(request, [propose_kerple]), 2.0**-21)

    assert requests[0].parameters == {"a": (0.73, 1.9), "p": (0.3, 0.8), "query_len": 40}
    assert {each.parameters.get("convention", "log") for each in requests} == {"log", "nemo"}


def test_untrained_nemo_kernel_is_proposed_by_num_heads() -> None:
    request = input_of("/relative/kerple?convention=nemo&num_heads=8&query_len=20")

    requests = [proposal.request.parameters for proposal in proposed(request, [propose_kerple])]

    assert {"convention": "nemo", "num_heads": 8, "query_len": 20} in requests


@pytest.mark.parametrize("form", ["linear", "symmetric"])
def test_alibi_biases_have_no_kerple_proposal(form: str) -> None:
    url = f"/relative/alibi?num_heads=8&query_len=9&form={form}"

    assert not proposed(input_of(url), [propose_kerple])


def falling(distances: np.ndarray) -> np.ndarray:
    return np.asarray(-np.sqrt(np.abs(distances)))


def distances(queries: int, keys: int) -> np.ndarray:
    return np.arange(keys) - np.arange(queries)[:, np.newaxis]


@pytest.mark.parametrize("causal", [True, False])
def test_biases_of_keys_after_the_query_decide_whether_a_kernel_is_causal(causal: bool) -> None:
    signed = distances(6, 9)

    (found,) = length_biases(np.where(causal & (signed > 0), 0.0, falling(signed)), 2.0**-40)

    expected: dict[str, object] = {"query_len": 6, "key_len": 9}
    assert found.parameters == (expected if causal else {**expected, "causal": False})
    assert np.allclose(found.sizes[0], np.sqrt(found.lengths))
    assert found.lengths.max() == (5 if causal else 8)


@pytest.mark.parametrize("causal", [True, False])
def test_queries_with_gaps_are_located_by_their_zeros(causal: bool) -> None:
    signed = distances(40, 40)[[3, 9, 30]]
    matrix = np.where(causal & (signed > 0), 0.0, falling(signed))

    (found,) = length_biases(matrix, 2.0**-40)

    expected: dict[str, object] = {"query_positions": "3,9,30", "key_len": 40}
    assert found.parameters == (expected if causal else {**expected, "causal": False})
    assert np.allclose(found.sizes[0], np.sqrt(found.lengths))


def test_heads_share_queries_and_keys() -> None:
    block = np.array([1.0, 2.0, 0.5])[:, np.newaxis, np.newaxis] * falling(distances(6, 6))

    (found,) = length_biases(block, 2.0**-40)

    assert found.sizes.shape == (3, 5)


SQUARE = falling(distances(6, 6))


@pytest.mark.parametrize(
    "matrix",
    [
        -SQUARE,
        np.where(distances(6, 6) > 0, 2 * SQUARE, SQUARE),
        SQUARE - np.outer(np.arange(6) == 5, np.arange(6) == 1),
        SQUARE - 1,
    ],
    ids=["positive", "asymmetric", "one changed number", "not 0 at distance 0"],
)
def test_other_arrays_are_no_biases_of_lengths(matrix: np.ndarray) -> None:
    assert not list(length_biases(matrix, 2.0**-40))


def test_long_kernels_are_sampled() -> None:
    (found,) = length_biases(falling(distances(1500, 1500)), 2.0**-40)

    assert found.lengths[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert found.lengths[-1] == 1499
    assert len(found.lengths) <= 64


LENGTHS = np.arange(1.0, 30.0)


@pytest.mark.parametrize("inner", [0.02, 0.3, 1.0, 7.0, 400.0])
def test_factor_in_a_logarithm_follows_from_a_ratio(inner: float) -> None:
    found = inner_factor(LENGTHS, 3 * np.log1p(inner * LENGTHS))

    assert found == pytest.approx(inner, rel=1e-9)


def test_straight_line_has_no_factor() -> None:
    assert inner_factor(LENGTHS, 3 * LENGTHS) is None
    assert inner_factor(LENGTHS, np.full_like(LENGTHS, 3)) is None


@pytest.mark.parametrize("inner", [0.02, 1.3, 40.0])
def test_logarithm_is_fitted_through_the_rounding_of_sizes(inner: float) -> None:
    sizes = (0.7 * np.log1p(inner * LENGTHS)).astype(np.float32).astype(np.float64)

    found = fit_logarithm(LENGTHS, sizes)

    assert found is not None
    assert found.outer == pytest.approx(0.7, rel=1e-4)
    assert found.inner == pytest.approx(inner, rel=1e-4)
    assert found.error(LENGTHS, sizes) < 2.0**-23


def test_power_is_a_straight_line_of_logarithms() -> None:
    found = fit_power(LENGTHS, 0.4 * LENGTHS**1.7)

    assert found.outer == pytest.approx(0.4)
    assert found.exponent == pytest.approx(1.7)


@pytest.mark.parametrize(("inner", "exponent"), [(0.5, 1.3), (0.7, 0.6), (2.0, 1.9)])
def test_three_numbers_are_fitted_together(inner: float, exponent: float) -> None:
    sizes = 0.3 * np.log1p(inner * LENGTHS**exponent)

    found = fit_logarithm_of_power(LENGTHS, sizes)

    assert found.error(LENGTHS, sizes) < 1e-9
    assert found.exponent == pytest.approx(exponent, rel=1e-6)


def test_error_of_a_logarithm_allows_for_float32_cancellation() -> None:
    fit = LengthKernel(2.0, 0.01, 1.0)
    sizes = 2.0 * np.log((1 + (0.01 * LENGTHS).astype(np.float32)).astype(np.float64))

    assert fit.error(LENGTHS, sizes) < 2.0**-22
    assert fit.error(LENGTHS, 1.001 * sizes) > 2.0**-22


def test_another_sandwich_base_is_found_with_a_usual_head_dim() -> None:
    request = input_of("/relative/sandwich?num_heads=4&head_dim=64&base=500000&query_len=40")

    requests = agreeing(request, proposed(request, [propose_sandwich]), 2.0**-21)

    assert requests[0].parameters["base"] == 500000
    assert requests[0].parameters["head_dim"] == 64


def test_default_sandwich_base_is_preferred() -> None:
    # 10^8 and twice as many channels: the same first frequencies, and more that are nearly 0.
    request = input_of("/relative/sandwich?num_heads=4&head_dim=16&query_len=6")

    requests = [proposal.request.parameters for proposal in proposed(request, [propose_sandwich])]

    assert requests[0] == {"num_heads": 4, "head_dim": 16, "query_len": 6}
    assert 1e8 not in {each.get("base") for each in requests}


@pytest.mark.parametrize(
    "url",
    ["/relative/alibi?num_heads=8&query_len=9", "/relative/kerple?a=1,1&p=1,0.5&query_len=9"],
)
def test_other_kernels_have_no_sandwich_proposal(url: str) -> None:
    assert not proposed(input_of(url), [propose_sandwich])
