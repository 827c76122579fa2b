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
from service.numerics.document import ParameterValue
from tests.analysis.samples import input_of

SIZES = ["height=6&width=9", "height=7&width=4", "height=8&width=8"]


def test_defaults_are_left_out() -> None:
    question = input_of("/encoding/grid?convention=mae&height=3&width=5&d_model=16")

    expected: dict[str, ParameterValue] = {
        "convention": "mae",
        "height": 3,
        "width": 5,
        "d_model": 16,
    }
    assert next(propose_grid(question)).request == TableRequest("encoding/grid", expected)


def test_two_conventions_with_the_same_numbers_are_both_named() -> None:
    question = input_of("/encoding/grid?convention=mae&height=16&width=16&d_model=16")

    named = {proposal.request.parameters["convention"] for proposal in propose_grid(question)}
    assert {"mae", "diffusers"} <= named


def test_a_corrupted_axis_is_of_no_convention() -> None:
    question = input_of("/encoding/grid?convention=mae&height=6&width=6&d_model=16")
    question.sample.values[:, 3] *= 0.5

    assert list(propose_grid(question)) == []


@pytest.mark.parametrize("size", SIZES)
def test_the_usual_resolution_goes_unsaid_where_it_gives_the_same_numbers(size: str) -> None:
    question = input_of(f"/encoding/grid?convention=timm-fourier&num_bands=8&{size}")

    said = [proposal.request.parameters for proposal in propose_grid(question)]

    assert any("max_resolution" not in parameters for parameters in said)


def read(url: str) -> list[TokenRows]:
    """Read the table of a URL in both orientations."""
    return list(orientations(input_of(url).sample))


def test_channels_may_come_last_or_first() -> None:
    last, first = read("/encoding/grid?convention=positional-encodings&height=3&width=5&d_model=8")

    assert (last.rows.shape, last.shape, last.channels_first) == ((15, 8), (3, 5), False)
    assert (first.rows.shape, first.shape, first.channels_first) == ((40, 3), (5, 8), True)


def test_rows_of_zeros_are_counted_and_left_out() -> None:
    table = "convention=diffusers&d_model=16&cls_token=true&extra_tokens=2"
    rows = read(f"/encoding/grid?{table}&height=3&width=5")[0]

    assert rows.zero_rows == 2
    assert len(rows.rows) == 15


def test_larger_numbers_are_no_sines() -> None:
    question = input_of("/encoding/grid?convention=mae&height=3&width=5&d_model=16")
    question.sample.values[0, 0] = 2

    assert list(orientations(question.sample)) == []


@pytest.mark.parametrize(("name", "count"), [("mae", 1), ("timm", 4), ("detr", 0)])
def test_a_convention_has_its_channels_in_each_of_its_ways(name: str, count: int) -> None:
    rows = read("/encoding/grid?convention=mae&height=3&width=5&d_model=16")[0]

    assert len(list(candidates(name, (3, 5), rows))) == count


def test_tokens_that_run_down_columns_have_their_lengths_the_other_way_round() -> None:
    rows = read("/encoding/grid?convention=mae&height=3&width=5&d_model=16")[0]

    [(candidate, layout)] = candidates("moco-v3", (3, 5), rows)

    assert candidate.lengths == {"height": 5, "width": 3}
    assert np.prod([along.tokens.length for along in layout.along.values()]) == 15


def test_channels_hold_what_is_listed() -> None:
    channels = ListedChannels.of([1, 0, 1], [True, False, False])

    frequency, is_sine = channels.indices()

    assert frequency.tolist() == [1, 0, 1]
    assert is_sine.tolist() == [True, False, False]
    assert (channels.width, channels.zeros) == (3, 0)


def test_no_channel_is_blank() -> None:
    rows = np.ones((2, 3))

    ListedChannels.of([1, 0, 1], [True, False, False]).blank(rows)

    assert rows.all()


@pytest.mark.parametrize(
    ("channels", "concat_pos", "sine_only", "count"),
    [(18, True, False, 4), (16, False, False, 4), (10, True, True, 4), (17, True, False, None)],
)
def test_bands_follow_from_channels(
    channels: int, concat_pos: bool, sine_only: bool, count: int | None
) -> None:
    assert band_count(channels, 2, concat_pos=concat_pos, sine_only=sine_only) == count
