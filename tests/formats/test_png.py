"""png: the values, titles and axis numbers of pictures, before they are drawn."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from service.formats import drawing
from service.formats.png import (
    PNG,
    Picture,
    axis_numbers,
    number_text,
    picture,
    plain,
)
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    Elements,
)
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Curves,
    Document,
    ParameterValue,
    StoredTable,
    Table,
)
from service.routes.table_urls import read_url

ROOT = Path(__file__).parents[2]


class Counting:
    """A table of flat indices that records the ranges that are read."""

    dtype = INT64
    element_seconds = ELEMENT_SECONDS

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.reads: list[tuple[int, int]] = []

    def read(self, start: int, stop: int) -> Elements:
        self.reads.append((start, stop))
        return np.arange(start, stop, dtype=np.int64)


def document(table: Table, axes: tuple[str, ...] = (), curves: Curves | None = None) -> Document:
    return Document("encoding", {}, {"encoding": table}, axes=axes, curves=curves)


def shown(
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    curves: Curves | None = None,
    axes: tuple[str, ...] = (),
) -> Picture:
    """Return the picture of a table instead of drawing it."""
    pictures: list[Picture] = []

    def noted(picture: Picture) -> bytes:
        pictures.append(picture)
        return b"picture"

    monkeypatch.setattr(drawing, "draw", noted)
    assert b"".join(PNG.body(document(table, axes, curves)).blocks()) == b"picture"
    (picture,) = pictures
    return picture


@pytest.mark.parametrize(
    ("elements", "dtype"),
    [
        (np.array([[1, -2]], "<f4"), FLOAT32),
        (np.array([[1, -2]], "<f8"), FLOAT64),
        (np.array([[1, -2]], "<f2"), FLOAT16),
        (np.array([[0x3F80, 0xC000]], "<u2"), BFLOAT16),
        (np.array([[1, -2]], "<i4"), INT32),
        (np.array([[1, -2]], "<i8"), INT64),
    ],
)
def test_numbers_of_every_real_type_are_shown(
    elements: NDArray[np.float64], dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = shown(StoredTable(elements, dtype), monkeypatch)

    assert picture.values.tolist() == [[[1.0], [-2.0]]]


def test_a_table_is_read_once_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Counting(700, 1000)

    picture = shown(table, monkeypatch)

    assert [start for start, _ in table.reads] == [0, *(stop for _, stop in table.reads[:-1])]
    assert table.reads[-1][1] == 700_000
    assert max(stop - start for start, stop in table.reads) <= 2**17
    assert (picture.values.ravel() == np.arange(700_000)).all()


def test_an_empty_block_follows_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "draw", lambda _: b"picture")

    blocks = list(PNG.body(document(Counting(700, 1000))).blocks())

    assert blocks == [b""] * 6 + [b"picture"]


def test_a_picture_shows_means_of_more_elements_than_pixels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, columns = 2 * 912 + 1, 1520 + 3
    picture = shown(Counting(rows, columns), monkeypatch)

    assert picture.parts == (3, 2)
    assert picture.values.shape == (609, 762, 1)
    elements = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    assert picture.values[5, 7] == elements[15:18, 14:16].mean()
    assert picture.values[-1, -1] == elements[1824:, 1522:].mean()
    assert len(picture.down.numbers) == rows


def test_curves_show_every_element(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = shown(Counting(5000, 2), monkeypatch, "columns")

    assert picture.values.shape == (5000, 2, 1)
    assert picture.curves == "columns"


def test_a_table_of_one_axis_is_a_curve_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = shown(Counting(200_000), monkeypatch)

    assert picture.values.shape == (200_000, 1, 1)
    assert (picture.curves, picture.across.name) == ("columns", "")


def test_components_are_panels_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Counting(913, 4, 2)

    picture = shown(table, monkeypatch, axes=("position", "pair", "component"))

    assert picture.values.shape == (457, 4, 2)
    elements = np.arange(913 * 8, dtype=np.float64).reshape(913, 4, 2)
    assert (picture.values[0] == elements[:2].mean(axis=0)).all()
    assert (picture.values[-1] == elements[-1]).all()
    assert picture.headings == ("pair: 0", "pair: 1")


def test_numbers_beyond_1e300_are_clipped_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    elements = np.array([[1.7e308, -1.7e308, np.inf, np.nan]])

    picture = shown(StoredTable(elements, FLOAT64), monkeypatch)

    assert picture.values[0, :3, 0].tolist() == [1e300, -1e300, np.inf]
    assert np.isnan(picture.values[0, 3])


def test_the_mean_of_both_infinities_is_not_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    elements = np.tile([np.inf, -np.inf], (1, 1520))

    picture = shown(StoredTable(elements, FLOAT64), monkeypatch)

    assert np.isnan(picture.values).all()


@pytest.mark.full
@pytest.mark.parametrize("values", [0.0, np.random.default_rng(0).standard_normal((912, 1520))])
def test_a_picture_is_no_longer_than_its_limit(values: NDArray[np.float64]) -> None:
    body = PNG.body(document(StoredTable(np.broadcast_to(values, (912, 1520)), FLOAT64)))

    assert 1000 < len(b"".join(body.blocks())) <= body.limit_bytes


TABLE_ONLY = """
import sys
from service.app import create_app
from service.settings import default_settings
from tests.client import client_of
if __name__ == "__main__":
  with client_of(create_app(default_settings())) as client:
    url = "/encoding{}?seq_len=4&d_model=4"
    assert client.get(url.format(".npy")).status_code == 200
    assert client.get(url.format("")).headers["Link"].count("image/png") == 1
    assert client.head(url.format(".png")).status_code == 200
    assert client.get("/docs").status_code == client.get("/openapi.json").status_code == 200
    assert client.get("/relative.png?d_model=4&offsets=1").status_code == 422
    assert client.get(url.format(".png")).status_code == 200
    # A child process has drawn it.
    assert "PIL" not in sys.modules
"""


@pytest.mark.full
def test_pillow_is_imported_by_children_only() -> None:
    words = [sys.executable, "-W", "error", "-c", TABLE_ONLY]

    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


def picture_document(axes: tuple[str, ...] = (), /, **parameters: ParameterValue) -> Document:
    table = StoredTable(np.zeros((3, 2), "<f4"), FLOAT32)
    return Document("encoding", parameters, {"encoding": table}, axes=axes)


def down(axes: tuple[str, ...], /, **parameters: ParameterValue) -> list[float]:
    shown = picture(picture_document(axes, **parameters), np.zeros((3, 2)))
    numbers: list[float] = shown.down.numbers.tolist()
    return numbers


def test_a_title_has_the_kind_and_the_parameters() -> None:
    shown = picture(picture_document(d_model=2, base=10000.0, batch=False), np.zeros((3, 2)))

    assert shown.title == "encoding: d_model=2, base=10000, batch=false"
    assert shown.label == "encoding (float32)"
    assert picture(picture_document(), np.zeros((3, 2))).title == "encoding"


def test_long_parameters_are_cut_short() -> None:
    shown = picture(picture_document(positions=",".join(["1234"] * 50)), np.zeros((3, 2)))

    assert shown.title == f"encoding: positions={('1234,' * 8)[:37]}..."


def test_axes_have_the_names_of_the_document_or_are_rows_and_columns() -> None:
    named = picture(picture_document(("query", "key")), np.zeros((3, 2)))
    nameless = picture(picture_document(), np.zeros((3, 2)))

    assert (named.down.name, named.across.name) == ("query", "key")
    assert (nameless.down.name, nameless.across.name) == ("row", "column")


@pytest.mark.parametrize(
    ("axis", "parameters", "numbers"),
    [
        ("row", {"start": 7}, [0, 1, 2]),
        ("position", {"start": 2**62 - 2}, [2**62 - 2, 2**62 - 1, 2**62]),
        ("position", {"positions": (0.5, 1.0, -2.25)}, [0.5, 1.0, -2.25]),
        ("dimension", {"dimensions": "4:7", "start": 1}, [4, 5, 6]),
        ("query", {"query_start": -1, "start": 5}, [-1, 0, 1]),
        ("query", {"query_positions": "1:6:2"}, [1, 3, 5]),
        ("query", {"query_positions": "1,2"}, [0, 1, 2]),
    ],
)
def test_places_are_numbered_by_the_parameters(
    axis: str, parameters: dict[str, ParameterValue], numbers: list[float]
) -> None:
    assert down((axis, "key"), **parameters) == numbers


@pytest.mark.parametrize(
    ("url", "down", "headings"),
    [
        ("/rope?head_dim=8&seq_len=3&start=7", "position", ("pair: cos", "pair: sin")),
        ("/rope?head_dim=8&seq_len=3&pack=flat", "position", ()),
        ("/relative/alibi/slopes?num_heads=4", "head", ()),
    ],
)
def test_axes_and_panels_are_named(url: str, down: str, headings: tuple[str, ...]) -> None:
    shown = picture(read_url(url).document, np.zeros((3, 4, 2)))

    assert (shown.down.name, shown.headings) == (down, headings)


def test_names_are_reduced_to_printable_ascii() -> None:
    assert plain("q.weight") == "q.weight"
    assert plain("gewicht é\n$") == "gewicht ??$"


def test_integers_of_an_axis_are_written_in_full() -> None:
    assert number_text(2**62 - 1) == "4611686018427387903"
    assert number_text(0.5) == "0.5"
    assert number_text(1e-7) == "1e-07"


@pytest.mark.parametrize(
    ("url", "axis", "expected"),
    [
        ("/encoding?seq_len=3&d_model=4&start=7", "position", [7, 8, 9]),
        ("/encoding?positions=5,1,9:13:2&d_model=4", "position", [5, 1, 9, 11]),
        ("/encoding/timesteps?timesteps=999,0.5&d_model=4", "timestep", [999.0, 0.5]),
        ("/relative/t5?query_len=2&query_start=3&key_len=2", "query", [3, 4]),
        ("/relative/transformer-xl?key_len=3&d_model=4", "position", [2, 1, 0]),
        ("/rope?head_dim=8&seq_len=3&start=7", "pair", [0, 1, 2, 3]),
    ],
)
def test_places_are_numbered_by_the_document(url: str, axis: str, expected: list[float]) -> None:
    document = read_url(url).document
    (table,) = document.arrays.values()
    count = table.shape[document.axes.index(axis)]

    assert axis_numbers(axis, count, document).tolist() == expected
    assert axis_numbers(axis, count, document, 2).tolist() == expected[:2]


def test_numbering_the_first_places_does_not_number_all() -> None:
    document = read_url("/encoding?positions=3:9000000000:2&d_model=4").document
    (table,) = document.arrays.values()

    assert axis_numbers("position", table.shape[0], document, 3).tolist() == [3, 5, 7]
