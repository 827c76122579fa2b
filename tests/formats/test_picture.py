"""What is to be seen of a table, before any of it is drawn."""

import numpy as np
import pytest

from service.formats.picture import picture, plain, spelled
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import FLOAT32
from service.tables.table import StoredTable


def document(axes: tuple[str, ...] = (), /, **parameters: ParameterValue) -> Document:
    table = StoredTable(np.zeros((3, 2), "<f4"), FLOAT32)
    return Document("encoding", parameters, {"encoding": table}, axes=axes)


def down(axes: tuple[str, ...], /, **parameters: ParameterValue) -> list[float]:
    shown = picture(document(axes, **parameters), np.zeros((3, 2)))
    numbers: list[float] = shown.down.numbers.tolist()
    return numbers


def test_a_title_says_the_kind_and_the_parameters() -> None:
    shown = picture(document(d_model=2, base=10000.0, batch=False), np.zeros((3, 2)))

    assert shown.title == "encoding: d_model=2, base=10000, batch=false"
    assert shown.label == "encoding (float32)"
    assert picture(document(), np.zeros((3, 2))).title == "encoding"


def test_long_parameters_are_cut_short() -> None:
    shown = picture(document(positions=",".join(["1234"] * 50)), np.zeros((3, 2)))

    assert shown.title == f"encoding: positions={('1234,' * 8)[:37]}..."


def test_axes_have_the_names_of_the_document_or_are_rows_and_columns() -> None:
    named = picture(document(("query", "key")), np.zeros((3, 2)))
    nameless = picture(document(), np.zeros((3, 2)))

    assert (named.down.name, named.across.name) == ("query", "key")
    assert (nameless.down.name, nameless.across.name) == ("row", "column")


@pytest.mark.parametrize(
    ("axis", "parameters", "numbers"),
    [
        ("row", {}, [0, 1, 2]),
        ("row", {"start": 7}, [0, 1, 2]),
        ("position", {"start": 7}, [7, 8, 9]),
        ("position", {"start": 2**62 - 2}, [2**62 - 2, 2**62 - 1, 2**62]),
        ("position", {"positions": "5,0,9"}, [5, 0, 9]),
        ("position", {"positions": (0.5, 1.0, -2.25)}, [0.5, 1.0, -2.25]),
        ("dimension", {"dimensions": "4:7", "start": 1}, [4, 5, 6]),
        ("query", {"query_start": -1, "start": 5}, [-1, 0, 1]),
        ("query", {"query_positions": "1:6:2"}, [1, 3, 5]),
        ("query", {"query_positions": "1,2"}, [0, 1, 2]),
    ],
)
def test_places_are_numbered_as_the_parameters_say(
    axis: str, parameters: dict[str, ParameterValue], numbers: list[float]
) -> None:
    assert down((axis, "key"), **parameters) == numbers


def test_names_from_anywhere_are_written_in_letters_that_every_font_has() -> None:
    assert plain("q.weight") == "q.weight"
    assert plain("gewicht é\n$") == "gewicht ??$"


def test_whole_numbers_are_spelled_to_their_last_digit() -> None:
    assert spelled(2**62 - 1) == "4611686018427387903"
    assert spelled(0.5) == "0.5"
    assert spelled(1e-7) == "1e-07"
