"""Numbers that were printed with a few decimals, and read again."""

import numpy as np
import pytest

from service.analysis.mistakes.decimals import cuts, decimals_of, rounded

NUMBERS = np.sin(np.arange(1.0, 40.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("decimals", [1, 3, 4, 6])
def test_decimals_are_counted(decimals: int, dtype: type) -> None:
    printed = np.round(NUMBERS, decimals).astype(dtype).astype(np.float64)

    assert decimals_of(printed) == decimals


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_numbers_with_all_their_digits_have_no_few_decimals(dtype: type) -> None:
    assert decimals_of(NUMBERS.astype(dtype).astype(np.float64)) is None


@pytest.mark.parametrize("numbers", [[0.0, 1.0, 2.0], [0.5, 1.0], [0.1, np.nan, 0.2, 0.3]])
def test_too_few_numbers_say_nothing(numbers: list[float]) -> None:
    assert decimals_of(np.array(numbers)) is None


def test_the_mistake_says_how_many() -> None:
    assert "4 decimals" in rounded(4).sentence


def test_what_was_cut_may_be_off_by_half_of_the_last_decimal() -> None:
    (cut, mistakes), (none, nothing) = cuts(np.round(NUMBERS, 3))

    assert (cut, mistakes) == (0.0005, (rounded(3),))
    assert (none, nothing) == (0.0, ())
