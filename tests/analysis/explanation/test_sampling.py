"""The rows of a sample: the guarantees of the module, for every number of rows."""

from math import comb

import numpy as np
import pytest

from service.analysis.explanation.sampling import ALL_ROWS, DESCRIPTION, sampled_rows

ROWS = (513, 600, 1000, 2048, 4096, 7919, 8192, 10007, 15838, 65536, 131072, 1048576)


def sample(rows: int) -> set[int]:
    return set(sampled_rows(rows).tolist())


@pytest.mark.parametrize("rows", [0, 1, 2, 16, 96, 511, ALL_ROWS])
def test_of_few_rows_all_are_sampled(rows: int) -> None:
    assert sampled_rows(rows).tolist() == list(range(rows))


@pytest.mark.parametrize("rows", ROWS)
def test_rows_rise_and_are_inside(rows: int) -> None:
    found = sampled_rows(rows)

    assert (np.diff(found) > 0).all()
    assert found[0] == 0
    assert found[-1] == rows - 1


@pytest.mark.parametrize("rows", ROWS)
def test_a_sample_is_small(rows: int) -> None:
    assert len(sampled_rows(rows)) <= 96 + 16 + 64 + 64 + 3 * rows.bit_length()


def test_a_table_of_131072_rows_has_267_sampled_ones() -> None:
    assert len(sampled_rows(131072)) == pytest.approx(267, abs=12)


@pytest.mark.parametrize("rows", ROWS)
def test_the_first_96_and_the_last_16_rows_are_sampled(rows: int) -> None:
    assert sample(rows) >= {*range(96), *range(rows - 16, rows)}


@pytest.mark.parametrize("rows", ROWS)
def test_rows_around_powers_of_two_are_sampled(rows: int) -> None:
    powers = {2**k + near for k in range(1, 40) for near in (-1, 0, 1)}

    assert sample(rows) >= {each for each in powers if each < rows}


@pytest.mark.parametrize("rows", ROWS)
def test_a_fault_that_goes_on_to_the_end_is_seen(rows: int) -> None:
    for first in range(0, rows, max(1, rows // 500)):
        assert max(sample(rows)) >= first


@pytest.mark.parametrize("rows", ROWS)
def test_a_run_of_a_sixty_third_of_the_rows_is_seen(rows: int) -> None:
    longest = int(np.diff(sampled_rows(rows)).max())

    assert longest <= -(-(rows - 1) // 63)


@pytest.mark.parametrize("rows", ROWS)
def test_every_period_up_to_96_is_seen(rows: int) -> None:
    found = sampled_rows(rows)

    for period in range(1, 97):
        assert len(np.unique(found % period)) == period


@pytest.mark.parametrize("rows", [10007, 131072, 1048576])
@pytest.mark.parametrize("share", [0.02, 0.05])
def test_a_random_share_of_the_rows_is_missed_as_rarely_as_is_said(rows: int, share: float) -> None:
    rng, found = np.random.default_rng(1), sampled_rows(rows)
    trials = 400
    missed = sum(not (rng.random(len(found)) < share).any() for _ in range(trials))

    expected = (1 - share) ** 128
    # The 99.9 % quantile of the binomial distribution.
    total, most = 0.0, 0
    while total < 0.999:
        total += comb(trials, most) * expected**most * (1 - expected) ** (trials - most)
        most += 1
    assert missed <= most
    assert len(found) >= 128


def test_the_description_says_what_is_sampled() -> None:
    for number in ("96", "16", "128", "powers of two"):
        assert number in DESCRIPTION
