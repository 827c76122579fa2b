"""What places along an axis are numbered by."""

import pytest

from service.formats.numbering import numbers
from service.routes.asked import document_of


@pytest.mark.parametrize(
    ("url", "axis", "expected"),
    [
        ("/encoding?seq_len=3&d_model=4", "position", [0, 1, 2]),
        ("/encoding?seq_len=3&d_model=4&start=7", "position", [7, 8, 9]),
        ("/encoding?positions=5,1,9:13:2&d_model=4", "position", [5, 1, 9, 11]),
        ("/encoding?positions=0.5,2&d_model=4", "position", [0.5, 2.0]),
        ("/encoding/timesteps?timesteps=999,0.5&d_model=4", "timestep", [999.0, 0.5]),
        ("/relative/t5?query_len=2&query_start=3&key_len=2", "query", [3, 4]),
        ("/relative/transformer-xl?key_len=3&d_model=4", "position", [2, 1, 0]),
        ("/rope?head_dim=8&seq_len=3&start=7", "pair", [0, 1, 2, 3]),
    ],
)
def test_places_are_numbered_as_the_document_says(
    url: str, axis: str, expected: list[float]
) -> None:
    document = document_of(url)
    (table,) = document.arrays.values()
    count = table.shape[document.axes.index(axis)]

    assert numbers(axis, count, document).tolist() == expected
    assert numbers(axis, count, document, 2).tolist() == expected[:2]


def test_the_first_of_very_many_are_numbered_at_once() -> None:
    document = document_of("/encoding?positions=3:9000000000:2&d_model=4")
    (table,) = document.arrays.values()

    assert numbers("position", table.shape[0], document, 3).tolist() == [3, 5, 7]
