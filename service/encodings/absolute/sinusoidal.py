"""Sinusoidal encodings: the table, its frequencies, its curves, and its sum with embeddings.

The table is that of "Attention Is All You Need" (Vaswani et al. 2017), §3.5,

    PE(pos, 2i) = sin(pos · base^(−2i/d_model))     PE(pos, 2i+1) = cos(pos · base^(−2i/d_model))

or the table of a library with other frequencies or another order of channels (``conventions``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from math import sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from service.encodings.absolute.conventions import (
    ALIASES,
    CONVENTIONS,
    ConventionParameters,
    FrequencyParameters,
    Sinusoids,
    SpreadSinusoids,
)
from service.encodings.absolute.timesteps import TimestepEmbedding
from service.encodings.family import (
    ChannelCount,
    ChannelTable,
    PositionList,
    RealDType,
    TableFamily,
    about,
    impossible,
    optional,
    refuse_excluded,
)
from service.encodings.grid.grid_encoding import GridEncoding
from service.encodings.meaning import Meaning, NamedVariant, Selection
from service.encodings.position_parameters import PositionParameters, StartParameters, check_rank
from service.encodings.transforms import TransformFamily, Vectors
from service.errors import InvalidBody
from service.grammar import Boolean
from service.numerics.dtypes import FLOAT64, DType, Elements, round_results, to_float64
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s, wavelengths
from service.numerics.positions import AnyPositions, Positions
from service.numerics.tables import ColumnsTable, DecimalTable, Document, ParameterValue, Table
from service.numerics.transformed import TransformedTable


class SinusoidRows(PositionParameters, ConventionParameters, TableFamily):
    """Base class of sinusoidal tables: a matrix of positions by channels."""

    related: ClassVar = {"/encoding/grid": GridEncoding, "/encoding/timesteps": TimestepEmbedding}

    d_model: ChannelCount
    dtype: RealDType = "float32"

    @cached_property
    def rows(self) -> Sinusoids:
        return self.sinusoids(self.d_model)

    @cached_property
    def row_positions(self) -> AnyPositions:
        """The position of each row; raises InvalidParameters if the table has no such row."""
        return _checked(self, self.rows, self.resolved_positions())

    def canonical(self) -> dict[str, ParameterValue]:
        return {**self.rows.canonical, **self.rows.canonical_rows(self.row_positions)}

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.row_positions.shape, self.rows.width

    def selections(self) -> Mapping[str, Selection]:
        return {} if isinstance(self.rows, SpreadSinusoids) else super().selections()

    def meaning(self) -> Meaning:
        rows, positions, scale = self.rows, self.row_positions, self.rows.scale
        has_padding = (
            rows.padding_idx is not None
            and isinstance(positions, Positions)
            and positions.least <= rows.padding_idx - rows.offset <= positions.most
        )
        return Meaning(
            rows.columns,
            (-scale, scale),
            is_steady=not has_padding,
            frequencies="/encoding/frequencies",
            turns_by=self.known_convention.turns_by,
        )

    def table(self) -> Table:
        return self.rows.table(self.row_positions, self.element_type, self.shape)


def _checked(
    parameters: "SinusoidRows | SinusoidSum", rows: Sinusoids, positions: AnyPositions
) -> AnyPositions:
    """Return the positions; raises InvalidParameters if the encoding has no such row."""
    check_rank(positions)
    if isinstance(rows, SpreadSinusoids):
        names = [
            "positions",
            "cu_seqlens",
            "seqlen_offsets",
            *(["start"] if parameters.start else []),
        ]
        refuse_excluded(parameters, dict.fromkeys(names, f"convention={parameters.convention}"))
    if not positions.is_whole:
        if rows.padding_idx is not None:
            rule = (
                f"convention={parameters.convention} looks up rows, so positions must be integers"
            )
            raise impossible("positions", positions, rule)
        parameters.check_slowest()
    elif positions.farthest_from(-rows.offset) > MAX_POSITION:
        raise impossible("offset", rows.offset, "offset moves positions beyond 2^62")
    return positions


class SinusoidalEncoding(SinusoidRows, ChannelTable, path="/encoding"):
    """The sinusoidal table of positions by channels.

    The shape is (rows, d_model), or (1, rows, d_model) with batch=true. Positions may be fractions:
    each is rounded to the nearest float64, and must be 0 or at least 1e-30 in size.

    Formula: sin(pos·ω_k) and cos(pos·ω_k), ω_k = base^(−2k/d_model); a convention may have other
        frequencies and a scale that multiplies sines and cosines.
    Source: Vaswani et al. 2017, §3.5; each convention has its own source.
    Bound: 5u, u = 2^-53, before the single rounding to the element type; with a scale, 6u times the
        scale. For angles below 1, 8u relative.
    Trap: the exponent is 2k/d_model, where k numbers pairs of channels; formulas where k numbers
        channels give other values from position 1 on.
    """

    example: ClassVar[str] = "seq_len=4&d_model=4&base=100"
    array: ClassVar[str] = "encoding"
    states_axes: ClassVar[bool] = False

    batch: Boolean = about(
        "Whether the table has a leading axis of length 1.", False, default=False
    )

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, known in CONVENTIONS.items():
            takes = known.parameters - (set() if known.is_free else {"layout"})
            takes |= set() if known.spacing == "bands" else {*StartParameters.model_fields}
            others = [alias for alias, meant in ALIASES.items() if meant == name]
            source = known.source + (f"; also {', '.join(others)}" if others else "")
            formula = f"{known.formula}. {known.notes}".rstrip(". ") + "."
            docs = {"formula": formula, "source": source, "trap": known.trap}
            sizes, models = known.published, known.models
            yield NamedVariant.of(name, known.example, takes, sizes, models, **docs)

    @property
    def axes(self) -> tuple[str, ...]:
        return ("batch", "position", "channel")[-len(self.shape) :]

    def removable_axes(self) -> Mapping[str, str]:
        return {"batch": "leave out batch"} if self.batch else {}

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), "batch": self.batch}

    @property
    def shape(self) -> tuple[int, ...]:
        shape = super().shape
        if self.batch and len(shape) > 2:
            raise impossible("batch", True, "positions have a batch axis: leave batch out")
        return (1, *shape) if self.batch else shape


class SinusoidalFrequencies(FrequencyParameters, TableFamily, path="/encoding/frequencies"):
    """The frequency of each pair of channels, in radians per position, and its wavelength.

    Formula: ω_k of the convention, and the wavelength 2π/ω_k; for the paper, base^(−2k/d_model) and
        2π·base^(2k/d_model).
    Source: see ``/encoding``.
    Bound: each is the float64 nearest to the formula.
    Trap: a wavelength is a number of positions; it is not a frequency in rotations per position.
    """

    example: ClassVar[str] = "d_model=4&base=100"
    axes: ClassVar[tuple[str, ...]] = ("pair",)

    d_model: ChannelCount
    part: Literal["frequency", "wavelength"] | None = optional(
        "Return only this array; both unless given.", "wavelength"
    )

    def meaning(self) -> Meaning:
        return Meaning(turns_by=self.known_convention.turns_by)

    def document(self) -> Document:
        rule, canonical = self.frequencies(self.d_model)
        known = self.known_convention
        if known.zeros(self.d_model) == known.width(self.d_model):
            raise impossible("d_model", self.d_model, "one channel of zeros has no frequency")
        arrays = {
            "frequency": DecimalTable((rule.count,), rule.exact),
            "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact())),
        }
        return self.describe(arrays, canonical, has_parts=True)


class SinusoidSum(StartParameters, ConventionParameters, TransformFamily, path="/encoding/apply"):
    """The sum of embeddings x and the sinusoidal table P.

    Formula: x + P, or √d_model·x + P, in float64, rounded once to the type of x. NaN and infinity
        stay as they are; a sum too large for the type becomes infinite. x has at most 65,536
        channels.
    Source: Vaswani et al. 2017, §3.4 and §3.5.
    Bound: the bound of P (``/encoding``), plus u·|sum| for its rounding, u = 2^-53; with
        scale_embeddings=true also 2u·|√d_model·x| for the root and the product.
    Trap: models that multiply embeddings by √d_model do so before the sum, not after it.
    """

    example: ClassVar[str] = "start=3"

    scale_embeddings: Boolean = about(
        "Whether the embeddings are multiplied by √d_model before the sum.", False, default=False
    )

    def apply(self, x: Vectors) -> tuple[TransformedTable, Mapping[str, ParameterValue]]:
        width = x.width
        if width > MAX_CHANNELS:
            rule = f"it has {width} channels, but at most {MAX_CHANNELS} are possible"
            raise InvalidBody(rule)
        rows = self.sinusoids(width)
        if rows.width != width:
            raise InvalidBody(
                f"convention={self.convention} has {rows.width} channels for d_model={width}"
            )
        positions = _checked(self, rows, self.positions_of(x.rows))
        table = rows.table(positions, FLOAT64, (positions.count, width))
        return x.transformed(table, positions.shape, partial(self._add, x.dtype)), {
            **rows.canonical,
            **rows.canonical_rows(positions),
            "scale_embeddings": self.scale_embeddings,
        }

    def _add(
        self,
        dtype: DType,
        source: Callable[[range], Elements],
        factors: Float64s,
        columns: range,
        block: Elements,
    ) -> None:
        """Fill a block (…, columns) with embeddings plus factors, the rows of the table."""
        factor = sqrt(factors.shape[-1]) if self.scale_embeddings else 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            total = to_float64(source(columns), dtype) * factor
            total += factors[0, ..., columns.start : columns.stop]
        round_results(total, block, dtype)


MAX_CURVES = 64
"""The most curves in a picture."""


def _bounded_list(value: Any) -> Any:
    """Return the list; raises ValueError before its items are parsed if there are too many."""
    items = value.count(",") + 1 if isinstance(value, str) else 0
    items = len(value) if isinstance(value, list) else items
    if items > MAX_CURVES:
        raise ValueError(f"names {items} curves or more, but at most {MAX_CURVES} are possible")
    return value


class SinusoidCurves(SinusoidRows, path="/encoding/curves"):
    """Selected channels as curves over the positions, or positions as curves over the channels.

    With dimensions=4,5 the shape is (positions, dimensions), and each dimension is a curve; without
    it the shape is (positions, d_model), and each of at most 64 positions is a curve. The png
    format draws the curves.

    Formula: that of ``/encoding``.
    Source: that of the convention.
    Bound: that of ``/encoding``; the numbers are the same to the last bit.
    Trap: with layout=interleaved, the curve of a position jumps between sine and cosine at every
        channel; layout=concatenated has the curve of the sines, then that of the cosines.
    """

    example: ClassVar[str] = "seq_len=8&d_model=8&dimensions=4,5,6,7"
    array: ClassVar[str] = "curves"

    dimensions: Annotated[PositionList, BeforeValidator(_bounded_list)] | None = optional(
        "The channels to draw as curves over the positions: integers from 0 and half-open ranges. "
        f"Unless given, each position is a curve over all channels. At most {MAX_CURVES} curves.",
        "4,5,6,7",
    )

    @property
    def axes(self) -> tuple[str, ...]:
        return ("position", "dimension")

    def canonical(self) -> dict[str, ParameterValue]:
        if self.dimensions is None:
            return super().canonical()
        return {**super().canonical(), "dimensions": str(self.dimensions)}

    @property
    def places(self) -> Mapping[str, Positions]:
        return {} if self.dimensions is None else {"dimension": self.dimensions}

    def meaning(self) -> Meaning:
        return replace(super().meaning(), columns=(), is_steady=False)

    def table(self) -> Table:
        if len(self.row_positions.shape) > 1:
            rule = "curves are of one sequence: positions must have one axis"
            raise impossible("positions", self.positions, rule)
        matrix = super().table()
        if self.dimensions is None:
            self._check_few_positions()
            return matrix
        self._check_dimensions(self.dimensions)
        return ColumnsTable(matrix, 1, self.dimensions)

    def document(self) -> Document:
        return replace(super().document(), curves="rows" if self.dimensions is None else "columns")

    def _check_few_positions(self) -> None:
        if self.row_positions.count <= MAX_CURVES:
            return
        rule = f"each position is a curve, and at most {MAX_CURVES} are possible: give dimensions"
        positions = self.positions
        if positions is None:
            raise impossible("seq_len", self.seq_len, rule)
        raise impossible("positions", positions, rule)

    def _check_dimensions(self, dimensions: Positions) -> None:
        width = self.rows.width
        if dimensions.count > MAX_CURVES:
            rule = (
                f"dimensions has {dimensions.count} curves, but at most {MAX_CURVES} are possible"
            )
            raise impossible("dimensions", str(dimensions), rule)
        if dimensions.least < 0 or dimensions.most >= width:
            rule = f"dimensions must be 0 to {width - 1}, the channels of the table"
            raise impossible("dimensions", str(dimensions), rule)
