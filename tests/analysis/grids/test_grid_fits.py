import pytest

from service.analysis.grids.grid_fits import band_count, common


def test_measurements_of_one_number_are_the_most_exact_of_them() -> None:
    assert common([(2.001, 1e-3), (2.00001, 1e-5)]) == (2.00001, 1e-5)


def test_measurements_of_different_numbers_have_nothing_in_common() -> None:
    assert common([(2.0, 1e-5), (2.1, 1e-5)]) is None


@pytest.mark.parametrize(
    ("channels", "concat_pos", "sine_only", "count"),
    [(18, True, False, 4), (16, False, False, 4), (10, True, True, 4), (17, True, False, None)],
)
def test_bands_follow_from_channels(
    channels: int, concat_pos: bool, sine_only: bool, count: int | None
) -> None:
    assert band_count(channels, 2, concat_pos=concat_pos, sine_only=sine_only) == count
