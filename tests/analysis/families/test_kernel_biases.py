"""KERPLE and Sandwich: biases of lengths are read, fitted and proposed."""

import numpy as np
import pytest

from service.analysis.families.kernel_biases import (
    LengthKernel,
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
