"""Lists of frequencies, and the bands of Perceiver."""

import pytest

from service.analysis.families.wavelength_lists import propose_bands, propose_encoding_frequencies
from tests.analysis.samples import input_from, sample_of


def test_numbers_that_are_no_series_are_no_frequencies() -> None:
    numbers = sample_of("encoding/frequencies", d_model=32, part="frequency").reals()
    numbers[5] *= 1.01

    assert not list(propose_encoding_frequencies(input_from(numbers)))
    assert not list(propose_encoding_frequencies(input_from(-numbers)))


def test_even_widths_of_all_conventions_come_before_odd_ones() -> None:
    sample = sample_of("encoding/frequencies", d_model=64, convention="whisper", part="frequency")

    found = [each.request.parameters for each in propose_encoding_frequencies(input_from(sample))]
    widths = [each["d_model"] for each in found]

    assert widths == sorted(widths)
    assert "whisper" in {each.get("convention") for each in found if each["d_model"] == 64}


def test_sinusoids_of_positions_are_no_bands() -> None:
    sample = sample_of("encoding", seq_len=50, d_model=32, layout="concatenated")

    assert not list(propose_bands(input_from(sample)))


@pytest.mark.parametrize("resolution", [8, 224, 512])
def test_usual_resolutions_with_equal_tables_are_all_proposed(resolution: int) -> None:
    sample = sample_of(
        "encoding", seq_len=4, d_model=15, convention="perceiver", max_resolution=resolution
    )

    found = [each.request.parameters for each in propose_bands(input_from(sample))]

    assert [each["max_resolution"] for each in found] == [8, 224, 512]
