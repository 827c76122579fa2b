"""Grids: channels of two axes, cosines and sines, and tokens that are exchanged."""

from collections.abc import Callable

import numpy as np
import pytest

from service.routes.expected_tables import expected_at, numbers_of
from tests.analysis.rotating import Array
from tests.client import Client
from tests.routes.test_diagnose import diagnose, names, table


def grid(convention: str, height: int = 6, width: int = 6) -> str:
    return f"/encoding/grid?convention={convention}&height={height}&width={width}&d_model=32"


def halves(array: Array) -> Array:
    return np.roll(array, 16, axis=-1)


def quarters(array: Array) -> Array:
    return array.reshape(*array.shape[:-1], 2, 2, 8)[..., ::-1, :].reshape(array.shape)


def neighbours(array: Array) -> Array:
    return array.reshape(*array.shape[:-1], 16, 2)[..., ::-1].reshape(array.shape)


def of_first(order: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda array: np.moveaxis(order(np.moveaxis(array, 0, -1)), -1, 0)


@pytest.mark.parametrize(
    ("convention", "exchange"),
    [
        ("mae", halves),
        ("moco-v3", halves),
        ("timm", quarters),
        ("positional-encodings", halves),
        ("detr", of_first(halves)),
        ("mae&cls_token=true", halves),
    ],
)
def test_exchanged_channels_of_two_axes_are_no_cosines_for_sines(
    client: Client, convention: str, exchange: Callable[[Array], Array]
) -> None:
    to = grid(convention)

    report = diagnose(client, to=to, have=exchange(np.array(table(client, to))))

    (mistake,) = report["mistakes"]
    assert mistake["name"] == "axes-swapped"
    assert "channels of" in mistake["sentence"]
    assert {mistake["first"], mistake["second"]} == {"height", "width"}


@pytest.mark.parametrize(
    ("convention", "exchange"),
    [
        ("mae", quarters),
        ("diffusers", quarters),
        ("timm", halves),
        ("positional-encodings", neighbours),
        ("detr", of_first(neighbours)),
    ],
)
def test_exchanged_cosines_and_sines_of_a_grid_are_named(
    client: Client, convention: str, exchange: Callable[[Array], Array]
) -> None:
    to = grid(convention, 6, 4)

    assert names(diagnose(client, to=to, have=exchange(np.array(table(client, to))))) == [
        "halves-swapped"
    ]


@pytest.mark.parametrize("is_padded", [False, True])
def test_tokens_along_the_other_axis_are_the_only_mistake(client: Client, is_padded: bool) -> None:
    more = "&cls_token=true" * is_padded
    have, to = grid("mae", 6, 4) + more, grid("moco-v3", 6, 4) + more

    report = diagnose(client, to=to, have=table(client, have))

    (mistake,) = report["mistakes"]
    assert mistake["sentence"] == (
        "Tokens are numbered along width, then height; they should be numbered along height, then "
        "width."
    )


def test_rows_of_a_grid_run_along_its_last_axis_first() -> None:
    expected = [expected_at(grid(each, 6, 4), 24) for each in ("mae", "moco-v3")]
    found = [numbers_of(each.request, each.document, 24 * 32).grid for each in expected]

    assert found == [(6, 4), (4, 6)]
