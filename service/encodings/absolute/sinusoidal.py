"""The sinusoidal encoding of "Attention Is All You Need" (Vaswani et al. 2017), §3.5.

    PE(pos, 2i) = sin(pos · base^(−2i/d_model))     PE(pos, 2i+1) = cos(pos · base^(−2i/d_model))

and of all who have it with other frequencies or in another order. Every value is within 5·2^-53 of
its formula before it is rounded once to its element type; within 6·2^-53 times its scale where a
convention has one.

``/encoding``: the sinusoidal table, its frequencies, and embeddings with it added.

Some rows, or some columns, of an encoding: the curves it is known by.

``/encoding/curves``: chosen dimensions over positions, or chosen positions over dimensions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from service.delivery.resources import Resource, Transform
from service.encodings.absolute.conventions import ConventionParameters, FrequencyParameters, Recipe
from service.encodings.absolute.timesteps import TimestepsParameters
from service.encodings.fields import (
    ArrayParameters,
    PositionList,
    RealDType,
    RealPositionParameters,
    StartParameters,
    d_model_field,
    dtype_field,
    impossible,
)
from service.encodings.grid.grid_conventions import GridParameters
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import Boolean, Integer, to_query
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType, Elements, round_results, to_float64
from service.numerics.frequencies import Geometric, wavelengths
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s, Int64s
from service.numerics.positions import Positions
from service.numerics.real_positions import AnyPositions, RealPositions
from service.numerics.tables import (
    DecimalTable,
    RowTable,
    StoredTable,
    Table,
    row_steps,
    setup_work,
)

# Arrays of float64 that a sum goes through.
_ARRAYS = 8


def geometric(d_model: int, base: float) -> Geometric:
    """Name the frequencies of the encoding; an odd d_model ends with a sine of its own."""
    return Geometric(base, d_model, -(-d_model // 2))


def encoding(*, recipe: Recipe, positions: AnyPositions, batch: bool, dtype: DType) -> Document:
    """Describe the table of positions by channels.

    Args:
        recipe: frequencies, channels and what else a convention fixes.
        positions: one for each row.
        batch: whether the shape is (1, rows, channels) instead of (rows, channels).
        dtype: a real element type.
    """
    parameters: dict[str, ParameterValue] = {
        **recipe.parameters(),
        **recipe.rows(positions),
        "batch": batch,
    }
    shape = (*((1,) if batch else ()), positions.count, recipe.width)
    axes = (*(("batch",) if batch else ()), "position", "channel")
    table = recipe.table(positions, dtype, shape)
    return Document("encoding", parameters, {"encoding": table}, axes=axes)


def frequencies(*, recipe: Recipe) -> Document:
    """Describe the frequency of each pair of channels and its wavelength 2π/ω.

    Both are float64 arrays with a number for each, the nearest to the formula; the wavelength of
    the paper's ω_i is 2π·base^(2i/d_model).
    """
    rule = recipe.rule
    arrays = {
        "frequency": DecimalTable((rule.count,), rule.exact),
        "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact())),
    }
    return Document("encoding-frequencies", recipe.of_frequencies, arrays, has_parts=True)


@dataclass(frozen=True)
class Sum:
    """The addition of the encoding to embeddings: x + P, or √d_model·x + P.

    Computed in float64 and rounded once to x's type. The error before that rounding is below
    5·2^-53, that of P, or 6·2^-53 of its scale where it has one, plus 2^-53 of the sum's size for
    its rounding, and with the factor 2·2^-53 of the size of √d_model·x for those of the root and
    the product. NaN and infinity pass through; what is too large for the type becomes infinite.
    """

    recipe: Recipe
    positions: Positions
    scale_embeddings: bool

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell what is added."""
        return {
            **self.recipe.parameters(),
            **self.recipe.rows(self.positions),
            "scale_embeddings": self.scale_embeddings,
        }

    def of(self, x: StoredTable) -> StoredTable:
        """Add to x, of shape (…, L, d_model)."""
        *leading, rows, d_model = x.shape
        source = x.elements.reshape(prod(leading), rows, d_model)
        result = np.empty_like(source)
        is_finite = True
        table = self.recipe.table(self.positions, FLOAT64, (rows, d_model))
        for part in row_steps(rows, _ARRAYS * d_model):
            encoded = table.read(part.start * d_model, part.stop * d_model).reshape(-1, d_model)
            for group in row_steps(len(source), _ARRAYS * encoded.size):
                with np.errstate(over="ignore", invalid="ignore"):
                    total = self._scaled(to_float64(source[group, part], x.dtype)) + encoded
                is_finite &= round_results(total, result[group, part], x.dtype)
        return StoredTable(result.reshape(x.shape), x.dtype, is_finite)

    def _scaled(self, embeddings: Float64s) -> Float64s:
        return embeddings * sqrt(self.recipe.width) if self.scale_embeddings else embeddings


class RowsParameters(RealPositionParameters, ConventionParameters):
    """Parameters of rows of the sinusoidal table."""

    related: ClassVar = {
        "/encoding/grid": GridParameters,
        "/encoding/timesteps": TimestepsParameters,
    }

    d_model: Integer = d_model_field()
    dtype: RealDType = dtype_field()


class EncodingParameters(RowsParameters):
    """Parameters of the sinusoidal table."""

    batch: Boolean = Field(
        default=False, description="Add a leading axis of length 1.", examples=[False]
    )

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the batch."""
        return {"batch": "leave out batch"}


class FrequenciesParameters(ArrayParameters, FrequencyParameters):
    """Parameters of the frequencies."""

    d_model: Integer = d_model_field()
    part: Literal["frequency", "wavelength"] | None = Field(
        default=None,
        description="Answer one of the two arrays alone.",
        examples=["wavelength"],
    )

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


class ApplyParameters(StartParameters, ConventionParameters):
    """Parameters of an addition to embeddings."""

    scale_embeddings: Boolean = Field(
        default=False,
        description="Multiply the embeddings by the square root of d_model first.",
        examples=[False],
    )


def _encoding(parameters: EncodingParameters) -> Document:
    return encoded_rows(parameters, batch=parameters.batch)


def encoded_rows(parameters: RowsParameters, *, batch: bool = False) -> Document:
    """Describe rows of the sinusoidal table, with a leading axis where they are a batch."""
    recipe = parameters.recipe(parameters.d_model)
    return encoding(
        recipe=recipe,
        positions=_turning(parameters, recipe),
        batch=batch,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _turning(parameters: RowsParameters, recipe: Recipe) -> AnyPositions:
    """Give the positions, which must be such as the recipe can turn."""
    positions = parameters.resolved_positions()
    if recipe.is_spread:
        _check_counted(parameters)
    if isinstance(positions, RealPositions):
        if recipe.padding_idx is not None:
            rule = f"convention={parameters.convention} looks rows up, at whole positions only"
            raise impossible("positions", positions.values, rule)
        parameters.check_slowest()
        return positions
    if positions.moved(recipe.offset).farthest > MAX_POSITION:
        raise impossible("offset", recipe.offset, "offset moves positions beyond 2^62")
    return positions


def _check_counted(parameters: RowsParameters | ApplyParameters) -> None:
    """Refuse positions where rows are spread evenly, however many there are."""
    given = {"positions": parameters.positions, "start": parameters.start or None}
    which = f"convention={parameters.convention}"
    faults = [
        Fault(name, shortened(to_query(value)), f"{name} does not go with {which}")
        for name, value in given.items()
        if value is not None
    ]
    if faults:
        raise InvalidParameters(*faults)


def _frequencies(parameters: FrequenciesParameters) -> Document:
    recipe = parameters.recipe(parameters.d_model)
    if recipe.channels.zeros == recipe.width:
        raise impossible("d_model", parameters.d_model, "one channel of zeros has no frequency")
    return frequencies(recipe=recipe)


def _apply(parameters: ApplyParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    if x.shape[-1] > MAX_CHANNELS:
        rule = f"it has {x.shape[-1]} channels, and at most {MAX_CHANNELS} are possible"
        raise InvalidBody(rule)
    recipe = parameters.recipe(x.shape[-1])
    if recipe.width != x.shape[-1]:
        raise InvalidBody(
            f"convention={parameters.convention} has {recipe.width} channels for the "
            f"{x.shape[-1]} there are"
        )
    if recipe.is_spread:
        _check_counted(parameters)
    positions = parameters.positions_of(x.shape[-2])
    if positions.moved(recipe.offset).farthest > MAX_POSITION:
        raise impossible("offset", recipe.offset, "offset moves positions beyond 2^62")
    sum_ = Sum(recipe, positions, parameters.scale_embeddings)
    return sum_.of(x), sum_.parameters()


ENCODING = Resource(
    path="/encoding",
    operation="Encoding",
    summary="The sinusoidal table of positions by channels",
    parameters=EncodingParameters,
    document=_encoding,
    example="seq_len=4&d_model=4&base=100",
)
FREQUENCIES = Resource(
    path="/encoding/frequencies",
    operation="EncodingFrequencies",
    summary="Frequency and wavelength of each pair of channels",
    parameters=FrequenciesParameters,
    document=_frequencies,
    example="d_model=4&base=100",
)
APPLY = Transform(
    path="/encoding/apply",
    operation="EncodingApply",
    summary="Embeddings with the sinusoidal table added: X + P",
    parameters=ApplyParameters,
    kind="encoding-apply",
    apply=_apply,
    example="start=3",
)


MAX_CURVES = 64
"""Curves that are shown together."""


def curves(encoding: Document, dimensions: Positions | None) -> Document:
    """Describe curves of an encoding, with the numbers and the error of its table.

    Args:
        encoding: a document of one table of positions by channels, without a leading axis.
        dimensions: the channels that are a curve over the positions each, shape (positions,
            dimensions); without them each position is a curve over all channels.
    """
    (table,) = encoding.arrays.values()
    parameters = {name: value for name, value in encoding.parameters.items() if name != "batch"}
    axes = ("position", "dimension")
    if dimensions is None:
        arrays = {"curves": table}
        return Document(
            "encoding-curves", parameters, arrays, axes=axes, states_axes=True, curves="rows"
        )
    parameters["dimensions"] = str(dimensions)
    return Document(
        "encoding-curves",
        parameters,
        {"curves": ColumnsTable(table, dimensions)},
        axes=axes,
        states_axes=True,
        curves="columns",
    )


@dataclass(frozen=True, eq=False)
class ColumnsTable(RowTable):
    """Chosen columns of a matrix, the bytes of each element unchanged.

    Attributes:
        table: the matrix.
        columns: the numbers of the columns, in any order.
    """

    table: Table
    columns: Positions

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """That of the matrix."""
        return self.table.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As many rows as the matrix has, and the columns chosen."""
        return self.table.shape[0], self.row_width

    @property
    def work_per_element(self) -> int:
        """Its share of a whole row, which is read for it."""
        return -(-self.table.work_per_element * self.table.shape[1] // self.row_width)

    @property
    def setup_work(self) -> int:
        """That of the matrix."""
        return setup_work(self.table)

    @property
    def row_width(self) -> int:
        """Columns chosen."""
        return self.columns.count

    def fill(self, first: int, rows: Elements) -> None:
        """Pick the elements of rows from the one numbered first on."""
        width = self.table.shape[1]
        for part in row_steps(len(rows), width):
            start, stop = (first + edge for edge in (part.start, part.stop))
            whole = self.table.read(start * width, stop * width).reshape(-1, width)
            rows[part] = whole[:, self._numbers]

    @cached_property
    def _numbers(self) -> Int64s:
        return self.columns.at(0, self.columns.count)


def _few(value: Any) -> Any:
    """Refuse a list of more dimensions than are shown before it is read."""
    items = value.count(",") + 1 if isinstance(value, str) else 0
    items = len(value) if isinstance(value, list) else items
    if items > MAX_CURVES:
        raise ValueError(f"names {items} curves or more, and at most {MAX_CURVES} are shown")
    return value


class CurvesParameters(RowsParameters):
    """Parameters of curves of an encoding."""

    dimensions: Annotated[PositionList, BeforeValidator(_few)] | None = Field(
        default=None,
        description="Channels that are a curve over the positions each, integers from 0 on and "
        "half-open ranges; without them, each position is a curve over all channels. At most "
        f"{MAX_CURVES} curves.",
        examples=["4,5,6,7"],
    )


def _curves(parameters: CurvesParameters) -> Document:
    table = encoded_rows(parameters)
    assert table.shape is not None
    rows, width = table.shape
    dimensions = parameters.dimensions
    if dimensions is None:
        if rows > MAX_CURVES:
            raise _too_many_positions(parameters)
        return curves(table, None)
    if dimensions.count > MAX_CURVES:
        rule = f"dimensions names {dimensions.count} curves, and at most {MAX_CURVES} are shown"
        raise impossible("dimensions", str(dimensions), rule)
    ends = [end for run in dimensions.runs for end in (run.first, run.last)]
    if min(ends) < 0 or max(ends) >= width:
        rule = f"dimensions are counted from 0, and here they end with {width - 1}"
        raise impossible("dimensions", str(dimensions), rule)
    return curves(table, dimensions)


def _too_many_positions(parameters: CurvesParameters) -> InvalidParameters:
    rule = f"each position is a curve, and at most {MAX_CURVES} are shown: name dimensions"
    positions = parameters.positions
    if positions is None:
        return impossible("seq_len", parameters.seq_len, rule)
    listed = positions.values if isinstance(positions, RealPositions) else positions
    return impossible("positions", listed, rule)


CURVES = Resource(
    path="/encoding/curves",
    operation="EncodingCurves",
    summary="Chosen dimensions over positions, or positions over dimensions; curves as png",
    parameters=CurvesParameters,
    document=_curves,
    example="seq_len=8&d_model=8&dimensions=4,5,6,7",
)
