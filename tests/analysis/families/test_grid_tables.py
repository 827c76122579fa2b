"""Tables of grids: orientations, conventions and bands."""

import pytest

from service.analysis.array import TableRequest
from service.analysis.families.grid_tables import (
    TokenRows,
    candidates,
    orientations,
    propose_grid,
)
from tests.analysis.samples import input_of

MAE = "/encoding/grid?convention=mae&d_model=16"


def test_default_parameters_are_left_out() -> None:
    proposal = next(propose_grid(input_of(f"{MAE}&height=3&width=5")))

    assert proposal.request == TableRequest(
        "encoding/grid", {"convention": "mae", "height": 3, "width": 5, "d_model": 16}
    )


def test_all_conventions_with_equal_tables_are_proposed() -> None:
    request = input_of(f"{MAE}&height=16&width=16")

    names = {proposal.request.parameters["convention"] for proposal in propose_grid(request)}

    assert {"mae", "diffusers"} <= names


def test_a_corrupted_channel_has_no_proposal() -> None:
    request = input_of(f"{MAE}&height=6&width=6")
    request.sample.values[:, 3] *= 0.5

    assert list(propose_grid(request)) == []


@pytest.mark.parametrize("size", ["height=6&width=9", "height=7&width=4", "height=8&width=8"])
def test_the_default_resolution_is_left_out_where_it_gives_the_same_table(size: str) -> None:
    request = input_of(f"/encoding/grid?convention=timm-fourier&num_bands=8&{size}")

    assert any("max_resolution" not in each.request.parameters for each in propose_grid(request))


def readings_of(url: str) -> list[TokenRows]:
    return list(orientations(input_of(url).sample))


def test_an_array_with_numbers_above_1_has_no_orientation() -> None:
    request = input_of(f"{MAE}&height=3&width=5")
    request.sample.values[0, 0] = 2

    assert list(orientations(request.sample)) == []


@pytest.mark.parametrize(("name", "count"), [("mae", 1), ("timm", 4), ("detr", 0)])
def test_a_convention_is_laid_out_once_for_each_choice_of_switches(name: str, count: int) -> None:
    rows = readings_of(f"{MAE}&height=3&width=5")[0]

    assert len(list(candidates(name, (3, 5), rows))) == count
