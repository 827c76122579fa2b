"""Tables of grids: orientations, conventions and listed channels."""

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.families.grid_tables import (
    ListedChannels,
    TokenRows,
    band_count,
    candidates,
    orientations,
    propose_grid,
)
from service.numerics.tables import ParameterValue
from tests.analysis.samples import input_of

SIZES = ["height=6&width=9", "height=7&width=4", "height=8&width=8"]


def test_default_parameters_are_left_out() -> None:
    question = input_of("/encoding/grid?convention=mae&height=3&width=5&d_model=16")

    expected: dict[str, ParameterValue] = {
        "convention": "mae",
        "height": 3,
        "width": 5,
        "d_model": 16,
    }
    assert next(propose_grid(question)).request == TableRequest("encoding/grid", expected)


def test_both_conventions_with_equal_tables_are_proposed() -> None:
    question = input_of("/encoding/grid?convention=mae&height=16&width=16&d_model=16")

    named = {proposal.request.parameters["convention"] for proposal in propose_grid(question)}
    assert {"mae", "diffusers"} <= named


def test_a_corrupted_channel_has_no_proposal() -> None:
    question = input_of("/encoding/grid?convention=mae&height=6&width=6&d_model=16")
    question.sample.values[:, 3] *= 0.5

    assert list(propose_grid(question)) == []


@pytest.mark.parametrize("size", SIZES)
def test_the_default_resolution_is_left_out_where_it_gives_the_same_table(size: str) -> None:
    question = input_of(f"/encoding/grid?convention=timm-fourier&num_bands=8&{size}")

    said = [proposal.request.parameters for proposal in propose_grid(question)]

    assert any("max_resolution" not in parameters for parameters in said)


def read(url: str) -> list[TokenRows]:
    """Read the table of a URL in both orientations."""
    return list(orientations(input_of(url).sample))


def test_an_array_is_read_with_channels_last_and_first() -> None:
    last, first = read("/encoding/grid?convention=positional-encodings&height=3&width=5&d_model=8")

    assert (last.rows.shape, last.shape, last.channels_first) == ((15, 8), (3, 5), False)
    assert (first.rows.shape, first.shape, first.channels_first) == ((40, 3), (5, 8), True)


def test_leading_rows_of_zeros_are_counted_and_left_out() -> None:
    table = "convention=diffusers&d_model=16&cls_token=true&extra_tokens=2"
    rows = read(f"/encoding/grid?{table}&height=3&width=5")[0]

    assert rows.zero_rows == 2
    assert len(rows.rows) == 15


def test_an_array_with_numbers_above_1_has_no_orientation() -> None:
    question = input_of("/encoding/grid?convention=mae&height=3&width=5&d_model=16")
    question.sample.values[0, 0] = 2

    assert list(orientations(question.sample)) == []


@pytest.mark.parametrize(("name", "count"), [("mae", 1), ("timm", 4), ("detr", 0)])
def test_a_convention_is_laid_out_once_for_each_choice_of_switches(name: str, count: int) -> None:
    rows = read("/encoding/grid?convention=mae&height=3&width=5&d_model=16")[0]

    assert len(list(candidates(name, (3, 5), rows))) == count


def test_column_major_conventions_exchange_height_and_width() -> None:
    rows = read("/encoding/grid?convention=mae&height=3&width=5&d_model=16")[0]

    [(candidate, layout)] = candidates("moco-v3", (3, 5), rows)

    assert candidate.lengths == {"height": 5, "width": 3}
    assert np.prod([along.tokens.length for along in layout.along.values()]) == 15


def test_listed_channels_return_their_frequencies_and_components() -> None:
    channels = ListedChannels.of([1, 0, 1], [True, False, False])

    frequency, is_sine = channels.indices()

    assert frequency.tolist() == [1, 0, 1]
    assert is_sine.tolist() == [True, False, False]
    assert (channels.width, channels.zeros) == (3, 0)


def test_listed_channels_have_no_blank_channel() -> None:
    rows = np.ones((2, 3))

    ListedChannels.of([1, 0, 1], [True, False, False]).blank(rows)

    assert rows.all()


@pytest.mark.parametrize(
    ("channels", "concat_pos", "sine_only", "count"),
    [(18, True, False, 4), (16, False, False, 4), (10, True, True, 4), (17, True, False, None)],
)
def test_the_number_of_bands_follows_from_the_channels(
    channels: int, concat_pos: bool, sine_only: bool, count: int | None
) -> None:
    assert band_count(channels, 2, concat_pos=concat_pos, sine_only=sine_only) == count
