"""The sinusoids of libraries and models: one series of sines and cosines in many conventions.

A convention says how frequencies are spaced, in which order sines and cosines lie, what becomes of
an odd number of channels, and what rows count. Sources name library, version and function.

Sinusoidal encodings by convention: the same kernel, with frequencies and channels filled in.

Conventions filled in: from what was asked for to frequencies and channels.

Parameters of the conventions of absolute encodings, under the names of who has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from pydantic import Field

from service.encodings.fields import AbsoluteLayout, Parameters, impossible
from service.encodings.grid.grids import GridAxis, pixels
from service.encodings.grid.sincos import Along, ChannelBlock, GridTable
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.axes import AxesTable, RowPositions
from service.numerics.document import ParameterValue
from service.numerics.dtypes import DType, Elements
from service.numerics.frequencies import FrequencyRule, Geometric, PixelBands, ScaledGeometric
from service.numerics.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_FACTOR,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)
from service.numerics.phase import MAX_FREQUENCY, MAX_POSITION, exact_context
from service.numerics.phasors import Channels, Component, PhasorTable
from service.numerics.real_positions import AnyPositions, RealPhasorTable, RealPositions
from service.numerics.tables import RowTable, Table, setup_work

Spacing: TypeAlias = Literal["paired", "ends", "guarded_ends", "bands"]
Odd: TypeAlias = Literal["sine", "zero", "more", "fewer", "cut", "refused"]
Layout: TypeAlias = Literal["interleaved", "concatenated"]

_TIMESCALES = ("min_timescale", "max_timescale")
_ROWS = ("offset", "padding_idx")


@dataclass(frozen=True)
class SinusoidConvention:
    """How a library or a model makes an absolute encoding.

    Attributes:
        source: library, version and name there.
        spacing: the exponent of frequency k of n: ``paired``, 2k/d, or ``ends``, k/(n − 1), from
            one end of the range to the other; ``guarded_ends`` has one frequency of 1 for n = 1.
            ``bands`` are no powers of a base, but evenly spaced.
        layout: what comes unless another layout is asked for.
        odd: what an odd d_model has: one sine more, a channel of zeros at the end, one channel
            more or fewer, the even table above it without its last channel, or no table at all.
        takes: parameters that it has beside base.
        is_free: whether another layout may be asked for.
        offset: what is added to positions unless given otherwise; None for what leads to the row
            after that of padding.
        skips_padding: whether tokens are numbered with padding left out of the count.
        padding_idx: the row, counted with the offset, that is zero unless given otherwise.
        scale: what the encoding is multiplied by unless given otherwise: the square root of this
            over d_model; None for 1.
    """

    source: str
    spacing: Spacing = "paired"
    layout: Layout = "concatenated"
    odd: Odd = "refused"
    takes: tuple[str, ...] = ()
    is_free: bool = False
    offset: int | None = 0
    padding_idx: int | None = None
    skips_padding: bool = False
    scale: int | None = None

    @property
    def has_bounds(self) -> bool:
        """Tell whether its frequencies lie between two that may be given."""
        return "max_freq" in self.takes

    @property
    def has_base(self) -> bool:
        """Tell whether its frequencies are powers of a base."""
        return self.spacing != "bands" and not self.has_bounds

    def count(self, d_model: int) -> int:
        """Count the frequencies of d_model channels."""
        if self.odd in {"sine", "more", "cut"}:
            return -(-d_model // 2)
        return d_model // 2

    def width(self, d_model: int) -> int:
        """Count the channels of the table that is asked for with d_model."""
        return d_model + {"more": 1, "fewer": -1}.get(self.odd, 0) * (d_model % 2)

    def zeros(self, d_model: int) -> int:
        """Count the channels of zeros at the end."""
        return d_model % 2 if self.odd == "zero" else 0

    def span(self, d_model: int) -> int:
        """Give s of the exponents 2k/s; 0 where the library divides by zero."""
        if self.spacing == "paired":
            return d_model + d_model % 2 if self.odd == "cut" else d_model
        steps = self.count(d_model) - 1
        return 2 * (max(steps, 1) if self.spacing == "guarded_ends" else abs(steps))


CONVENTIONS: Mapping[str, SinusoidConvention] = MappingProxyType(
    {
        "vaswani": SinusoidConvention(
            '"Attention Is All You Need" (2017), §3.5',
            layout="interleaved",
            odd="sine",
            is_free=True,
        ),
        "positional-encodings": SinusoidConvention(
            "positional-encodings 6.0.3 PositionalEncoding1D", layout="interleaved", odd="cut"
        ),
        "tensor2tensor": SinusoidConvention(
            "tensor2tensor 1.15.7 get_timing_signal_1d",
            spacing="guarded_ends",
            odd="zero",
            takes=_TIMESCALES,
        ),
        "tf-models": SinusoidConvention(
            "tf-models-official 2.20.0 RelativePositionEmbedding",
            spacing="ends",
            odd="fewer",
            takes=_TIMESCALES,
        ),
        "fairseq": SinusoidConvention(
            "fairseq 0.12.2 SinusoidalPositionalEmbedding.get_embedding",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            padding_idx=1,
            skips_padding=True,
        ),
        "m2m100": SinusoidConvention(
            "transformers 5.23.0 M2M100SinusoidalPositionalEmbedding",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            offset=None,
            padding_idx=1,
            skips_padding=True,
        ),
        "xglm": SinusoidConvention(
            "transformers 5.23.0 XGLMSinusoidalPositionalEmbedding",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            offset=2,
            padding_idx=1,
        ),
        "ddpm": SinusoidConvention(
            "DDPM (Ho et al. 2020) get_timestep_embedding", spacing="ends", odd="zero"
        ),
        "whisper": SinusoidConvention(
            "transformers 5.23.0 whisper sinusoids", spacing="ends", takes=("max_timescale",)
        ),
        "marian": SinusoidConvention(
            "transformers 5.23.0 MarianSinusoidalPositionalEmbedding", odd="sine"
        ),
        "mae": SinusoidConvention("mae commit efb2a80 get_1d_sincos_pos_embed_from_grid"),
        "diffusers": SinusoidConvention(
            "diffusers 0.42.1 get_1d_sincos_pos_embed_from_grid", takes=("flip_sin_to_cos",)
        ),
        "x-transformers": SinusoidConvention(
            "x-transformers 2.31.10 ScaledSinusoidalEmbedding", takes=("scale",), scale=1
        ),
        "transformer-xl": SinusoidConvention(
            "transformer-xl commit 44781ed PositionalEmbedding", odd="more"
        ),
        "mlx": SinusoidConvention(
            "mlx 0.32.4 SinusoidalPositionalEncoding",
            spacing="guarded_ends",
            takes=("min_freq", "max_freq", "full_turns", "cos_first", "scale"),
            scale=2,
        ),
        "perceiver": SinusoidConvention(
            "transformers 5.23.0 PerceiverFourierPositionEncoding",
            spacing="bands",
            odd="sine",
            takes=("max_resolution", "concat_pos", "sine_only"),
        ),
    }
)

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "keras": "vaswani",
        "xlm": "vaswani",
        "distilbert": "vaswani",
        "pegasus": "marian",
        "roformer": "marian",
        "speech-to-text": "m2m100",
        "xlnet": "transformer-xl",
    }
)
"""Libraries and models whose convention goes by another's name: keras-hub 0.32.0
SinePositionEncoding, and classes of transformers 5.23.0."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """A convention with its numbers filled in.

    Attributes:
        rule: the frequencies.
        channels: what a row holds.
        of_frequencies: the canonical parameters that fix the frequencies.
        of_channels: the others.
        scale: multiplies sines and cosines.
        offset: is added to positions before they turn; only to integers.
        padding_idx: the position, offset included, whose row is zero; none unless given.
    """

    rule: FrequencyRule
    channels: Channels
    of_frequencies: Mapping[str, ParameterValue]
    of_channels: Mapping[str, ParameterValue]
    scale: float = 1.0
    offset: int = 0
    padding_idx: int | None = None

    @property
    def is_spread(self) -> bool:
        """Tell whether rows have no positions but their place among all there are."""
        return False

    @property
    def width(self) -> int:
        """Channels of a row."""
        return self.channels.width

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it as canonical parameters."""
        return {**self.of_frequencies, **self.of_channels}

    def rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Spell positions as canonical parameters."""
        return positions.parameters()

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe the rows of positions, in any shape whose size is rows × channels."""
        if isinstance(positions, RealPositions):
            return RealPhasorTable(self.rule, self.channels, positions, dtype, shape, self.scale)
        turning = positions.moved(self.offset)
        table = PhasorTable(self.rule, self.channels, turning, dtype, shape, self.scale)
        if self.padding_idx is None:
            return table
        return ZeroRow(table, turning, self.padding_idx)


@dataclass(frozen=True, eq=False)
class SpreadRecipe(Recipe):
    """A convention whose n rows lie evenly from −1 to 1, whatever their number.

    Attributes:
        has_coordinates: whether each row begins with its place between the two.
    """

    has_coordinates: bool = False

    @property
    def is_spread(self) -> bool:
        """Tell that rows have no positions but their place among all there are."""
        return True

    @property
    def width(self) -> int:
        """Channels of a row."""
        return self.channels.width + self.has_coordinates

    def rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Spell how many there are."""
        return {"seq_len": positions.count}

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe as many rows as there are positions, which are 0, 1, …."""
        count = positions.count
        places = pixels(count, Fraction(0))
        unit = places.unit
        axis = GridAxis(int(places.first / unit), int(places.step / unit), count, 1)
        coordinate = ChannelBlock(("coordinate",), ("x",), int(self.has_coordinates))
        bands = [
            ChannelBlock((name,), ("x",), self.rule.count) for name in self.channels.components
        ]
        along = {"x": Along(axis, unit, self.rule)}
        return GridTable(along, (coordinate, *bands), self.width, 0, dtype, shape)


@dataclass(frozen=True, eq=False)
class ZeroRow(RowTable):
    """A table of positions in which the row of one of them is zero: that of padding.

    Attributes:
        table: the other rows.
        positions: the position of each row.
        zero: the position whose row is zero.
    """

    table: PhasorTable | AxesTable
    positions: RowPositions
    zero: int

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The type of the other rows."""
        return self.table.dtype

    @property
    def work_per_element(self) -> int:
        """As much as the other rows."""
        return self.table.work_per_element

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        return self.table.shape

    @property
    def setup_work(self) -> int:
        """That of the other rows."""
        return setup_work(self.table)

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return self.table.row_width

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        self.table.fill(first, rows)
        rows[self.positions.at(first, first + len(rows)) == self.zero] = 0


_DEFAULTS: Mapping[str, float] = MappingProxyType(
    {
        "base": 10000.0,
        "max_timescale": 10000.0,
        "min_timescale": 1.0,
        "max_freq": 1.0,
        "min_freq": 1e-4,
    }
)


@dataclass(frozen=True)
class Ends:
    """The two numbers that the frequencies of a convention lie between.

    Attributes:
        least_name, greatest_name: the parameters that they are.
        least, greatest: the numbers, the second of which may be the smaller one.
        is_of_frequencies: whether they are those, not timescales (of which a base is one).
    """

    least_name: str
    greatest_name: str
    least: float
    greatest: float
    is_of_frequencies: bool

    @property
    def frequencies(self) -> tuple[float, float]:
        """Give the slowest frequency there may be, and the fastest."""
        first, last = self.least, self.greatest
        if not self.is_of_frequencies:
            last = self.least / self.greatest * self.least
        return min(first, last), max(first, last)


def ends(convention: SinusoidConvention, given: Mapping[str, Any]) -> Ends:
    """Say what the frequencies of a convention lie between."""
    names = "min_timescale", "max_timescale" if "max_timescale" in given else "base"
    if convention.has_bounds:
        names = "min_freq", "max_freq"
    least, greatest = (given.get(name, _DEFAULTS[name]) for name in names)
    return Ends(*names, least, greatest, convention.has_bounds)


def recipe(name: str, d_model: int, given: Mapping[str, Any]) -> Recipe:
    """Fill a convention in.

    Args:
        name: one of CONVENTIONS.
        d_model: channels, as the library calls them; the table may have one more or less.
        given: parameters that were given, none that the convention does not have.
    """
    convention = CONVENTIONS[name]
    if convention.spacing == "bands":
        return _spread(name, d_model, given)
    rule, of_frequencies = _frequencies(convention, d_model, given)
    layout = given.get("layout", convention.layout)
    flip = next((flag for flag in ("cos_first", "flip_sin_to_cos") if flag in convention.takes), "")
    is_flipped = given.get(flip, False)
    scale = given.get("scale", _scale(convention, d_model))
    padding_idx = given.get("padding_idx", convention.padding_idx)
    first = padding_idx + 1 if convention.offset is None else convention.offset
    rows = {"offset": given.get("offset", first), "padding_idx": padding_idx}
    optional = {flip: is_flipped, "scale": scale, **rows}
    return Recipe(
        rule,
        Channels(
            ("cos", "sin") if is_flipped else ("sin", "cos"),
            interleaved=layout == "interleaved",
            width=convention.width(d_model),
            zeros=convention.zeros(d_model),
        ),
        {"convention": name, "d_model": d_model, **of_frequencies},
        {"layout": layout, **{key: optional[key] for key in convention.takes if key in optional}},
        scale,
        **rows,
    )


def _scale(convention: SinusoidConvention, d_model: int) -> float:
    """Give what the encoding is multiplied by: the float64 nearest to it."""
    if convention.scale is None:
        return 1.0
    context = exact_context()
    return float(context.sqrt(context.divide(Decimal(convention.scale), Decimal(d_model))))


def _frequencies(
    convention: SinusoidConvention, d_model: int, given: Mapping[str, Any]
) -> tuple[FrequencyRule, dict[str, ParameterValue]]:
    """Give the frequencies, and the parameters that fix them."""
    count, dim = max(convention.count(d_model), 1), max(convention.span(d_model), 1)
    between = ends(convention, given)
    least, greatest = between.least, between.greatest
    if convention.has_bounds:
        turns = given.get("full_turns", False)
        rule = ScaledGeometric(greatest, least, greatest, dim, count, turns)
        return rule, {"min_freq": least, "max_freq": greatest, "full_turns": turns}
    if least == 1:
        return Geometric(greatest, dim, count), {"base": greatest}
    rule = ScaledGeometric(least, least, greatest, dim, count)
    return rule, {"min_timescale": least, "max_timescale": greatest}


def bands(d_model: int, *, concat_pos: bool, sine_only: bool) -> int:
    """Count the bands of so many channels of Perceiver; 0 where no number of them fits."""
    count, rest = divmod(d_model - concat_pos, 1 if sine_only else 2)
    return 0 if rest else count


def _spread(name: str, d_model: int, given: Mapping[str, Any]) -> SpreadRecipe:
    has_coordinates, is_sine = given.get("concat_pos", True), given.get("sine_only", False)
    count = bands(d_model, concat_pos=has_coordinates, sine_only=is_sine)
    components: tuple[Component, ...] = ("sin",) if is_sine else ("sin", "cos")
    return SpreadRecipe(
        PixelBands(given["max_resolution"], count, is_linear=True),
        Channels(components, interleaved=False, width=count * len(components)),
        {
            "convention": name,
            "d_model": d_model,
            "max_resolution": given["max_resolution"],
            "concat_pos": has_coordinates,
            "sine_only": is_sine,
        },
        {"layout": "concatenated"},
        has_coordinates=has_coordinates,
    )


# Slower ones, counted in the smallest fraction of a position there is, have no exact angle.
_SLOWEST_OF_FRACTIONS = 1e-250

_WHOSE = "; ".join(f"{name} ({convention.source})" for name, convention in CONVENTIONS.items())
_ALSO = ", ".join(f"{alias} ({name})" for alias, name in ALIASES.items())


class FrequencyParameters(Parameters):
    """Which convention's frequencies."""

    convention: Literal[
        "vaswani",
        "positional-encodings",
        "tensor2tensor",
        "tf-models",
        "fairseq",
        "m2m100",
        "xglm",
        "ddpm",
        "whisper",
        "marian",
        "mae",
        "diffusers",
        "x-transformers",
        "transformer-xl",
        "mlx",
        "perceiver",
        "keras",
        "xlm",
        "distilbert",
        "pegasus",
        "roformer",
        "speech-to-text",
        "xlnet",
    ] = Field(
        default="vaswani",
        description=f"Published recipe: {_WHOSE}. The same by another name: {_ALSO}.",
        examples=["vaswani"],
    )
    base: Real | None = Field(
        default=None,
        ge=1,
        le=MAX_BASE,
        description="Base n of the frequencies n^(-2i/d_model); 10000 unless given.",
        examples=[10000],
    )
    min_timescale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="What frequencies are multiplied by; 1 unless given (tensor2tensor).",
        examples=[1],
    )
    max_timescale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_SCALED_BASE,
        description="The base, by the name it has where frequencies are timescales.",
        examples=[10000],
    )
    min_freq: Real | None = Field(
        default=None,
        ge=1 / MAX_SCALED_BASE,
        le=MAX_FACTOR,
        description="The lowest frequency; 0.0001 unless given (mlx).",
        examples=[0.0001],
    )
    max_freq: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="The highest frequency; 1 unless given (mlx).",
        examples=[1],
    )
    full_turns: Boolean | None = Field(
        default=None, description="Whether frequencies count turns (mlx).", examples=[True]
    )
    max_resolution: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_FACTOR,
        description="Twice the highest of the bands, which begin at 1; required (perceiver).",
        examples=[224],
    )
    concat_pos: Boolean | None = Field(
        default=None,
        description="Whether a row begins with its place from -1 to 1; true unless given "
        "(perceiver).",
        examples=[False],
    )
    sine_only: Boolean | None = Field(
        default=None, description="Whether there are no cosines (perceiver).", examples=[True]
    )

    @property
    def recipe_name(self) -> str:
        """Name the convention by the one name that it goes by here."""
        return ALIASES.get(self.convention, self.convention)

    def recipe(self, d_model: int) -> Recipe:
        """Fill the convention in; raises InvalidParameters for what it does not have."""
        convention = CONVENTIONS[self.recipe_name]
        given = self._given()
        self._check_taken(convention, given)
        self._check_ends(convention, given)
        if convention.spacing == "bands":
            self._check_bands(d_model)
        else:
            _check_d_model(self.convention, convention, d_model)
        return recipe(self.recipe_name, d_model, given)

    def check_slowest(self) -> None:
        """Refuse frequencies that are too slow for fractions of a position."""
        given = self._given()
        between = ends(CONVENTIONS[self.recipe_name], given)
        if between.frequencies[0] < _SLOWEST_OF_FRACTIONS:
            names = (between.greatest_name, between.least_name)
            name = next(name for name in names if name in given)
            rule = f"frequencies below {_SLOWEST_OF_FRACTIONS:g} go with whole positions only"
            raise impossible(name, given[name], rule)

    def _given(self) -> Mapping[str, Any]:
        named = ((name, getattr(self, name, None)) for name in _NAMES)
        return {name: value for name, value in named if value is not None}

    def _check_taken(self, convention: SinusoidConvention, given: Mapping[str, Any]) -> None:
        known = {*convention.takes, *(("base",) if convention.has_base else ()), "layout"}
        faults = [
            Fault(name, to_query(value), f"{name} does not go with convention={self.convention}")
            for name, value in given.items()
            if name not in known
        ]
        layout = given.get("layout", convention.layout)
        if layout != convention.layout and not (
            convention.is_free and self.convention in CONVENTIONS
        ):
            rule = f"convention={self.convention} is {convention.layout}"
            faults.append(Fault("layout", layout, rule))
        if faults:
            raise InvalidParameters(*faults)

    def _check_bands(self, d_model: int) -> None:
        if self.max_resolution is None:
            rule = f"max_resolution is required with convention={self.convention}"
            raise impossible("max_resolution", None, rule)
        has_coordinates = self.concat_pos is not False
        if not bands(d_model, concat_pos=has_coordinates, sine_only=bool(self.sine_only)):
            made = ("" if self.sine_only else "2·") + "num_bands" + (" + 1" * has_coordinates)
            rule = f"convention={self.convention} has {made} channels here, of one band or more"
            raise impossible("d_model", d_model, rule)

    def _check_ends(self, convention: SinusoidConvention, given: Mapping[str, Any]) -> None:
        if "base" in given and "max_timescale" in given:
            rule = "base and max_timescale are the same: give one of them"
            raise impossible("base", self.base, rule)
        between = ends(convention, given)
        name = between.greatest_name if between.greatest_name in given else between.least_name
        if between.frequencies[1] > MAX_FREQUENCY:
            rule = f"frequencies must stay below {MAX_FREQUENCY:g}"
            raise impossible(name, given[name], rule)
        if between.least != 1 and between.greatest > MAX_SCALED_BASE:
            rule = f"{name} must be at most {MAX_SCALED_BASE:g} beside {between.least_name}"
            raise impossible(name, given[name], rule)


class ConventionParameters(FrequencyParameters):
    """Which convention, with everything that it lets one choose."""

    layout: AbsoluteLayout | None = Field(
        default=None,
        description="Sine and cosine in turn, or all sines and then all cosines; only vaswani "
        "leaves it open, and is interleaved unless told.",
        examples=["interleaved"],
    )
    cos_first: Boolean | None = Field(
        default=None, description="Whether cosines come before sines (mlx).", examples=[True]
    )
    flip_sin_to_cos: Boolean | None = Field(
        default=None, description="The same by another name (diffusers).", examples=[True]
    )
    scale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_ATTENTION_FACTOR,
        description="What sines and cosines are multiplied by; √(2/d_model) (mlx) or 1/√d_model "
        "(x-transformers) unless given.",
        examples=[1],
    )
    offset: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="What is added to a position to find its row; 0 (fairseq), padding_idx + 1 "
        "(m2m100) or 2 (xglm) unless given.",
        examples=[2],
    )
    padding_idx: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="The row that is zero, counted with the offset; 1 unless given (fairseq, "
        "m2m100, xglm).",
        examples=[1],
    )


_NAMES = (*(name for name in ConventionParameters.model_fields if name != "convention"),)


def _check_d_model(name: str, convention: SinusoidConvention, d_model: int) -> None:
    if convention.odd == "refused" and d_model % 2:
        raise impossible("d_model", d_model, f"convention={name} has an even d_model only")
    if convention.width(d_model) < 1:
        raise impossible("d_model", d_model, f"convention={name} has no channels for it")
    if convention.span(d_model) == 0:
        rule = f"convention={name} divides by zero for so few channels: it takes 4 and more"
        raise impossible("d_model", d_model, rule)
