"""``GET /describe``: the meaning of a table's URL, and the matrices that its numbers make up."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from service.analysis.array import COMPONENT_DTYPES, TableRequest
from service.analysis.precision import rounded
from service.delivery.endpoints import RESOURCES, Endpoint, NoInput, Report
from service.delivery.negotiation import possible_formats
from service.delivery.parameters import read_parameters
from service.delivery.representation import is_whole, represent
from service.encodings.family import Parameters, TableFamily, about
from service.encodings.meaning import ChannelColumns, Meaning, Places, Selection
from service.errors import InvalidParameters, PosrefError
from service.formats.raw import RAW
from service.grammar import to_query
from service.numerics.dtypes import INDEX_DTYPES, REAL_DTYPES
from service.numerics.positions import Positions
from service.numerics.tables import Document, ParameterValue, axis_names, size_bytes
from service.routes.table_urls import TableUrl, Url, read_url, url_of
from service.settings import Settings

# Axes along which a table is several matrices, one after the other or one by one.
_STACKED = {"batch", "head", "offset", "coordinate"}
# Places that no parameter of the URL lists are listed up to this count.
_MOST_LISTED = 4096

Digits: TypeAlias = str
"""An integer, which may exceed 2^53, in decimal."""


class DescribeParameters(Parameters):
    """The parameters of ``GET /describe``."""

    url: str = about(
        "Path and query of a table of this server, percent-encoded as one value.",
        "/rope?head_dim=4&seq_len=2",
    )


class DescribedArray(Report):
    """An array of a table."""

    name: str
    shape: list[int]
    axes: list[str] = Field(description="What each axis counts.")
    dtype: str
    bytes: Digits
    url: Url = Field(description="This array alone.")


class DescribedFormat(Report):
    """A format that can hold a table: whole, or a binary one by ranges."""

    extension: str
    media_type: str
    url: Url


class DescribedAxis(Report):
    """An axis of a matrix, or of several ones."""

    axis: str
    count: Digits
    first: Digits = Field(description="The position of the first place.")
    step: Digits
    parameter: str | None = Field(description="Selects places, as first:end:stride, or one place.")
    values: str | None = Field(description="The list of places that are not equidistant.")


class TableView(Report):
    """The matrices that the numbers of a table make up, and the requests for parts of them."""

    url: Url = Field(
        description="Binary numbers of one array; append each parameter of the axes, and part."
    )
    dtype: str = Field(description="That of each part, unless parts have others in the arrays.")
    parts: list[str]
    leading: DescribedAxis | None
    rows: DescribedAxis
    columns: DescribedAxis
    is_even: bool = Field(
        description="Rows are equidistant, and every column is the same sine or cosine throughout."
    )
    grid: list[int] | None = Field(
        description="Rows are its tokens: the place along the last axis changes from row to row."
    )
    is_by_columns: bool = Field(
        description="The last axis of the grid is its height, not its width."
    )


class Description(Report):
    """The meaning of the URL of a table."""

    entry: str | None = Field(description="The id of its entry in /catalogue.")
    url: Url = Field(description="The same table, with every default that matters.")
    parameters: dict[str, Any]
    arrays: list[DescribedArray]
    axes: list[str] = Field(description="The axes of the first array.")
    revision: int
    formats: list[DescribedFormat]
    value_range: list[float] | None
    is_index: bool
    frequencies: Url | None
    unscaled_frequencies: Url | None
    turns_by: Literal["position", "coordinate"] = Field(
        description="What the frequencies multiply: the position of a row, or the coordinates of "
        "its place, which may be other numbers than those that count rows."
    )
    trained_length: Digits | None
    channels: list[ChannelColumns] | None = Field(
        description="The channels of the table. The columns of the view are all of them, or those "
        "that the URL selects."
    )
    view: TableView


def describe(parameters: DescribeParameters, settings: Settings) -> Description:
    """Return what a URL means; raises the PosrefError of a GET of it."""
    try:
        return _described(read_url(parameters.url), settings)
    except PosrefError as error:
        error.url = parameters.url
        raise


def _described(given: TableUrl, settings: Settings) -> Description:
    document = given.document
    represent(document, given.representation)
    table = _canonical(given, document)
    family, values, url = _family(table), table.request.parameters, partial(url_of, table.request)
    meaning = family.meaning()
    unscaled = {name: values[name] for name in meaning.unscaled}
    length = document.parameters.get("original_max_position_embeddings", meaning.trained_length)
    formats = [
        {"extension": form.extension, "media_type": form.media_type, "url": url(form.extension)}
        for form in possible_formats(document)
        if not (form.is_text or form.is_drawn) or is_whole(document, form, settings)
    ]
    has_parts = len(document.arrays) > 1
    arrays = [
        {
            "name": name,
            "shape": each.shape,
            "axes": _axes(family, document, len(each.shape)),
            "dtype": each.dtype.name,
            "bytes": str(size_bytes(each)),
            "url": url_of(table.request.with_parameters(part=name)) if has_parts else url(),
        }
        for name, each in document.arrays.items()
    ]
    return Description.model_validate(
        {
            "entry": _family(given).entry,
            "url": url(),
            "parameters": values,
            "arrays": arrays,
            "axes": arrays[0]["axes"],
            "revision": document.revision,
            "formats": formats,
            "value_range": value_range(meaning, document),
            "is_index": all(array["dtype"] in INDEX_DTYPES for array in arrays),
            "frequencies": _frequencies(meaning, values),
            "unscaled_frequencies": _frequencies(meaning, unscaled) if unscaled else None,
            "turns_by": meaning.turns_by,
            "trained_length": None if length is None else str(length),
            "channels": meaning.columns or None,
            "view": _view(table),
        }
    )


def _family(table: TableUrl) -> TableFamily:
    assert isinstance(table.parameters, TableFamily)
    return table.parameters


def _table(table: TableUrl, values: Mapping[str, ParameterValue]) -> TableUrl:
    """Return the table of the same resource with other parameters; raises InvalidParameters."""
    texts = {name: to_query(value) for name, value in values.items()}
    return replace(table, parameters=read_parameters(table.resource.parameters, texts))


def _canonical(table: TableUrl, document: Document) -> TableUrl:
    """Return the same table by its canonical parameters, or by those given where these are none."""
    dtype = getattr(table.parameters, "dtype", None)
    values = {**document.parameters, **({} if dtype is None else {"dtype": dtype})}
    with suppress(InvalidParameters):
        canonical = _table(table, values)
        if canonical.document.parameters == document.parameters:
            return canonical
    given = {name: value for name, value in table.request.parameters.items() if name != "revision"}
    return _table(table, given)


def value_range(meaning: Meaning, document: Document) -> list[float] | None:
    """Return bounds of all numbers, which the rounding to their types may move outwards."""
    if meaning.value_range is None:
        return None
    types = {COMPONENT_DTYPES.get(each.dtype, each.dtype) for each in document.arrays.values()}
    exact = np.array(meaning.value_range, dtype=np.float64)
    every = [exact, *(rounded(exact, each) for each in types if each.name in REAL_DTYPES)]
    return [float(np.min(every)), float(np.max(every))]


def _frequencies(meaning: Meaning, values: Mapping[str, ParameterValue]) -> str | None:
    """Return the URL of the frequencies of the pairs of a table with these parameters."""
    has_pairs = not meaning.columns or any(each.pair is not None for each in meaning.columns)
    if meaning.frequencies is None or not has_pairs:
        return None
    known = RESOURCES[meaning.frequencies].parameters.model_fields.keys()
    own = {name: value for name, value in values.items() if name in known - {"part"}}
    return url_of(TableRequest(meaning.frequencies[1:], {**own, **meaning.of_frequencies}))


def _axes(family: TableFamily, document: Document, rank: int) -> list[str]:
    """Return the names of the axes of an array."""
    return [*axis_names(document.axes or family.axes, rank)]


def _view(table: TableUrl) -> dict[str, Any]:
    """Return the matrices of a table: the content of a TableView."""
    values = {**table.request.parameters, **_family(table).as_matrix()}
    matrix = _table(table, values)
    family, document, meaning = _family(matrix), matrix.document, _family(matrix).meaning()
    first, *_ = document.arrays.values()
    parts = [name for name, each in document.arrays.items() if each.shape == first.shape]
    if len(document.arrays) > 1:
        values = {**values, "part": parts[0]}
    names = [name.partition("(")[0] for name in _axes(family, document, len(first.shape))]
    lengths = dict(zip(names, first.shape, strict=True))
    stacked = [name for name in names if name in _STACKED and len(names) > family.row_axes][:1]
    others = [name for name in names if name not in stacked]
    leading = stacked if any(lengths[name] > 1 for name in stacked) else []
    rows, columns = others[: family.row_axes], others[family.row_axes :]
    known = family.selections()

    def place(axes: Sequence[str]) -> tuple[Selection | None, Places | None]:
        """Return how places along an axis are selected, and what they are if not 0, 1, …."""
        if len(axes) != 1:
            return None, None
        way = known.get(axes[0])
        return way, way.places if way else document.places.get(axes[0])

    def described(axes: Sequence[str], name: str) -> dict[str, Any]:
        """Return an axis of matrices, of which several axes may be the places."""
        way, places = place(axes)
        first, step = _series(places) or (0, 1)
        count = prod(lengths[each] for each in axes)
        is_uneven = places is not None and not _series(places)
        is_listed = is_uneven and (way is not None or count <= _MOST_LISTED)
        is_named = len(axes) == 1 and is_listed == is_uneven
        return {
            "axis": axes[0] if is_named else name,
            "count": str(count),
            "first": str(first),
            "step": str(step),
            "parameter": way.parameter if way else None,
            "values": to_query(places).replace("e+", "e") if is_listed else None,
        }

    appended = {"part"} if len(parts) > 1 else set()
    for axes in (leading, rows, columns):
        way, _ = place(axes)
        appended |= {way.parameter, *way.replaces} if way else set()
    are_waves = meaning.frequencies and meaning.columns and all(c.part for c in meaning.columns)
    is_series = _series(place(rows)[1])
    url = {name: value for name, value in values.items() if name not in appended}
    return {
        "leading": described(leading, "") if leading else None,
        "rows": described(rows, "token" if len(rows) != 1 else "row"),
        "columns": described(columns, columns[-1] if columns else "value"),
        "url": url_of(TableRequest(table.request.resource, url), RAW.extension),
        "dtype": first.dtype.name,
        "parts": parts if len(parts) > 1 else [],
        "is_even": bool(meaning.is_steady and are_waves and is_series),
        "grid": [*meaning.grid] if len(meaning.grid) > 1 else None,
        "is_by_columns": meaning.is_by_columns,
    }


def _series(places: Places | None) -> tuple[int, int] | None:
    """Return the first place and the step to the next of equidistant ones; None for others."""
    if not isinstance(places, Positions) or places.columns.shape[1] > 1:
        return None
    first, step, _ = places.columns[:, 0].tolist()
    return (first, step) if step else None


DESCRIBE = Endpoint(
    path="/describe",
    operation="Describe",
    summary="What the URL of a table means, and how its numbers are read as matrices",
    parameters=DescribeParameters,
    inputs=NoInput(),
    answer=describe,
    example="url=%2Frope%3Fhead_dim%3D4%26seq_len%3D2%26pack%3Dcomplex",
    report=Description,
)
