"""Published sinusoids: sines and cosines in the conventions of libraries and models.

CONVENTIONS is the only list of them. A convention fixes the spacing of frequencies, the order of
sines and cosines, the channels of a table with an odd d_model, and the row that a position has. The
values of ``convention``, the documentation and the refusals follow from its entry. Sources name
library, version and function.

This module is long because all conventions, with source, formula and trap, are one list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from service.encodings.family import (
    AbsoluteLayout,
    Factor,
    Parameters,
    Position,
    about,
    exclusion_faults,
    impossible,
    optional,
    refuse,
)
from service.encodings.grid.sincos import Along, ChannelBlock, GridTable, Layout
from service.encodings.meaning import ChannelColumns
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real
from service.numerics.dtypes import DType, Elements
from service.numerics.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_FACTOR,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)
from service.numerics.phase import (
    MAX_FREQUENCY,
    FrequencyRule,
    Geometric,
    PixelBands,
    ScaledGeometric,
    exact_context,
)
from service.numerics.phasors import Channels, Component, sinusoid_table
from service.numerics.positions import AnyPositions, RowPositions
from service.numerics.tables import DerivedTable, ParameterValue, Table, read_blocks


@dataclass(frozen=True, eq=False)
class Sinusoids:
    """The encoding that a convention and its parameters define, for any positions.

    Attributes:
        rule: the frequencies.
        channels: the order of sines and cosines in a row.
        canonical: the canonical parameters, without those of positions.
        scale: the factor of sines and cosines.
        offset: the number added to each position; 0 unless positions are integers.
        padding_idx: the position, after the offset is added, whose row is zeros; or None.
    """

    rule: FrequencyRule
    channels: Channels
    canonical: Mapping[str, ParameterValue]
    scale: float = 1.0
    offset: int = 0
    padding_idx: int | None = None

    @property
    def width(self) -> int:
        """The number of channels of a row."""
        return self.channels.width

    @property
    def columns(self) -> tuple[ChannelColumns, ...]:
        """The content of the channels of a row."""
        return ChannelColumns.of(self.channels)

    def canonical_rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Return the canonical parameters of the positions."""
        return positions.parameters()

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of these positions; shape is any whose size is rows × channels."""
        rows = positions.moved(self.offset)
        table = sinusoid_table(self.rule, self.channels, rows, dtype, shape, scale=self.scale)
        if self.padding_idx is None or not rows.is_whole:
            return table
        return ZeroRow(table, rows, self.padding_idx, self.width)


@dataclass(frozen=True, eq=False)
class SpreadSinusoids(Sinusoids):
    """An encoding without positions: n rows have evenly spaced coordinates from −1 to 1.

    Attributes:
        has_coordinates: whether the first channel of each row is its coordinate.
    """

    has_coordinates: bool = False

    @property
    def width(self) -> int:
        return self.channels.width + self.has_coordinates

    @property
    def columns(self) -> tuple[ChannelColumns, ...]:
        first = int(self.has_coordinates)
        return *(ChannelColumns(None, 0, 1, 1),) * first, *ChannelColumns.of(self.channels, first)

    def canonical_rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        return {"seq_len": positions.count}

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        coordinate = ChannelBlock(("coordinate",), ("x",), int(self.has_coordinates))
        bands = [
            ChannelBlock((name,), ("x",), self.rule.count) for name in self.channels.components
        ]
        along = {"x": Along.end_to_end(positions.count, 1, self.rule)}
        return GridTable(Layout(along, (coordinate, *bands)), self.width, dtype, shape)


@dataclass(frozen=True, eq=False)
class ZeroRow(DerivedTable):
    """A table in which the rows of one position, that of padding, are zeros.

    Attributes:
        table: the table that has the other rows.
        positions: the position of each row.
        zero: the position whose rows are zeros.
        width: the number of channels.
    """

    positions: RowPositions
    zero: int
    width: int

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.width, self.dtype, self._fill)

    def _fill(self, rows: range, columns: range, block: Elements) -> None:
        width = self.width
        whole = self.table.read(rows.start * width, rows.stop * width).reshape(-1, width)
        block[...] = whole[:, columns.start : columns.stop]
        block[self.positions.at(rows.start, rows.stop) == self.zero] = 0


Spacing: TypeAlias = Literal["paired", "ends", "guarded_ends", "bands"]
Odd: TypeAlias = Literal["sine", "zero", "more", "fewer", "cut", "refused"]


@dataclass(frozen=True)
class SinusoidConvention:
    """The definition of an absolute encoding in a library or a model.

    In ``formula`` p is the position, d is d_model, b is base, k = 0, 1, … numbers the frequencies,
    and ``sin ‖ cos`` means all sines, then all cosines.

    Attributes:
        source: the library, its version and the name of the function or class.
        formula: the formula of the table, in one line.
        trap: what ports and users get wrong.
        spacing: the exponent of frequency k of n: ``paired`` is 2k/d; ``ends`` is k/(n − 1), so
            that the frequencies include both ends of their range; ``guarded_ends`` is the same, but
            a single frequency is the first one; ``bands`` are evenly spaced frequencies.
        layout: the default layout.
        odd: the channels of a table with an odd d_model. ``sine``: one sine without its cosine;
            ``zero``: a last channel of zeros; ``more`` and ``fewer``: d_model ± 1 channels;
            ``cut``: the table of d_model + 1 without its last channel; ``refused``: no table.
        takes: the names of its parameters, without base and layout.
        is_free: whether a request may choose the layout.
        offset: the default number added to positions; None for padding_idx + 1.
        skips_padding: whether padding tokens are not counted.
        padding_idx: the default row, after the offset is added, that is zeros; None for no row.
        scale: the default factor is sqrt(scale/d_model); None for a factor of 1.
        notes: other libraries with the same table, and how their parameters differ.
        example: the query of an example, without the convention.
        published: the sizes of a published model.
        models: names of models with such a table.
    """

    source: str
    formula: str
    trap: str
    spacing: Spacing = "paired"
    layout: AbsoluteLayout = "concatenated"
    odd: Odd = "refused"
    takes: tuple[str, ...] = ()
    is_free: bool = False
    offset: int | None = 0
    padding_idx: int | None = None
    skips_padding: bool = False
    scale: int | None = None
    notes: str = ""
    example: str = "seq_len=2&d_model=4"
    published: str = ""
    models: str = ""

    @property
    def turns_by(self) -> Literal["position", "coordinate"]:
        """``position``, or ``coordinate`` where rows have evenly spaced coordinates."""
        return "coordinate" if self.spacing == "bands" else "position"

    @property
    def has_bounds(self) -> bool:
        """True if the parameters are the lowest and the highest frequency."""
        return "max_freq" in self.takes

    @property
    def has_two_ends(self) -> bool:
        """True if two parameters are the ends of the frequencies, in place of a base alone."""
        return self.has_bounds or "min_timescale" in self.takes

    @property
    def parameters(self) -> frozenset[str]:
        has_base = self.spacing != "bands" and not self.has_bounds
        return frozenset({*self.takes, "layout", *(("base",) if has_base else ())})

    def count(self, d_model: int) -> int:
        """Return the number of frequencies in a table with this d_model."""
        if self.odd in {"sine", "more", "cut"}:
            return -(-d_model // 2)
        return d_model // 2

    def width(self, d_model: int) -> int:
        """Return the number of channels of the table for this d_model."""
        return d_model + {"more": 1, "fewer": -1}.get(self.odd, 0) * (d_model % 2)

    def zeros(self, d_model: int) -> int:
        """Return the number of last channels that are zeros."""
        return d_model % 2 if self.odd == "zero" else 0

    def span(self, d_model: int) -> int:
        """Return s, for which the exponents are 2k/s; 0 if the library divides by zero."""
        if self.spacing == "paired":
            return d_model + d_model % 2 if self.odd == "cut" else d_model
        steps = self.count(d_model) - 1
        return 2 * (max(steps, 1) if self.spacing == "guarded_ends" else abs(steps))

    def scale_of(self, d_model: int) -> float:
        """Return the default factor of the encoding, rounded to float64."""
        if self.scale is None:
            return 1.0
        context = exact_context()
        return float(context.sqrt(context.divide(Decimal(self.scale), Decimal(d_model))))


_TIMESCALES = ("min_timescale", "max_timescale")
_ROWS = ("offset", "padding_idx")

CONVENTIONS: Mapping[str, SinusoidConvention] = MappingProxyType(
    {
        "vaswani": SinusoidConvention(
            '"Attention Is All You Need" (2017), §3.5',
            formula="sin(p·ω_k), cos(p·ω_k) in channels 2k, 2k + 1; ω_k = b^(−2k/d)",
            trap="tutorials have the exponent (i + 1)/d or 2i/d where i numbers channels: both are"
            " right only at position 0.",
            notes="Also keras-hub 0.32.0 SinePositionEncoding (max_wavelength is base) and "
            "transformers 5.23.0 create_sinusoidal_embeddings of XLM and DistilBERT. "
            "layout=concatenated has the sines first.",
            layout="interleaved",
            odd="sine",
            is_free=True,
        ),
        "positional-encodings": SinusoidConvention(
            "positional-encodings 6.0.3 PositionalEncoding1D",
            formula="the first d channels of vaswani's table for D = 2⌈d/2⌉; ω_k = b^(−2k/D)",
            trap="for an odd d every frequency but the first differs from the paper's, because "
            "the exponent is 2k/(d + 1).",
            example="seq_len=2&d_model=3",
            layout="interleaved",
            odd="cut",
        ),
        "tensor2tensor": SinusoidConvention(
            "tensor2tensor 1.15.7 get_timing_signal_1d",
            formula="sin ‖ cos; ω_k = m·(M/m)^(−k/(n − 1)), n = ⌊d/2⌋, m = min_timescale (1), M = "
            "max_timescale (10000) or base; a single frequency (d of 2 and 3) is m",
            trap="although the paper's authors wrote it, the last exponent is 1, not (d − 2)/d: "
            "only the first frequency is that of the paper's formula. m multiplies frequencies: "
            "m = 2 doubles the highest frequency.",
            notes="get_layer_timing_signal_sinusoid_1d gives layer l the row of position l.",
            example="seq_len=2&d_model=5&min_timescale=2&max_timescale=500",
            spacing="guarded_ends",
            odd="zero",
            takes=_TIMESCALES,
        ),
        "tf-models": SinusoidConvention(
            "tf-models-official 2.20.0 RelativePositionEmbedding",
            formula="sin ‖ cos of the frequencies of tensor2tensor",
            trap="although the class name says relative, the table is absolute: its rows are for "
            "positions, not for distances.",
            spacing="ends",
            odd="fewer",
            takes=_TIMESCALES,
        ),
        "fairseq": SinusoidConvention(
            "fairseq 0.12.2 SinusoidalPositionalEmbedding.get_embedding",
            formula="sin ‖ cos of the row p + offset; ω_k = b^(−k/(n − 1)), n = ⌊d/2⌋; the row "
            "padding_idx is zeros",
            trap="the first token has row padding_idx + 1, not row 0, and padding is not counted: "
            "POST /encoding/tokens computes the row of each token in a batch.",
            notes="For a model without padding, choose a padding_idx outside the table, such as "
            "−1.",
            published="seq_len=1024&d_model=512",
            models="fsmt",
            example="seq_len=4&d_model=4",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            padding_idx=1,
            skips_padding=True,
        ),
        "m2m100": SinusoidConvention(
            "transformers 5.23.0 M2M100SinusoidalPositionalEmbedding",
            formula="the rows of fairseq's table: position p has row p + padding_idx + 1",
            trap="the offset of 2 in its code only makes the table two rows longer; the row of "
            "position 0 is padding_idx + 1. With padding in a batch, rows are not consecutive: "
            "POST /encoding/tokens computes them.",
            notes="Also Speech2TextSinusoidalPositionalEmbedding.",
            published="seq_len=1024&d_model=1024",
            models="nllb-moe speech_to_text",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            offset=None,
            padding_idx=1,
            skips_padding=True,
        ),
        "xglm": SinusoidConvention(
            "transformers 5.23.0 XGLMSinusoidalPositionalEmbedding",
            formula="the rows of fairseq's table: position p has row p + 2, whatever "
            "padding_idx is",
            trap="the class is like M2M100's, but does not count tokens: it uses the position ids "
            "that it is given, also for padding.",
            notes="The row of zeros is row padding_idx, by default that of position −1.",
            published="seq_len=2048&d_model=1024",
            spacing="ends",
            odd="zero",
            takes=_ROWS,
            offset=2,
            padding_idx=1,
        ),
        "ddpm": SinusoidConvention(
            "DDPM (Ho et al. 2020) get_timestep_embedding",
            formula="sin ‖ cos; ω_k = b^(−k/(n − 1)), n = ⌊d/2⌋",
            trap="Stable Diffusion has the cosines first and the exponent k/n.",
            notes="Positions are diffusion timesteps; for variants, see /encoding/timesteps.",
            example="positions=999&d_model=4",
            published="seq_len=1000&d_model=128",
            spacing="ends",
            odd="zero",
        ),
        "whisper": SinusoidConvention(
            "transformers 5.23.0 whisper sinusoids",
            formula="sin ‖ cos; ω_k = M^(−k/(n − 1)), n = d/2, M = max_timescale (10000) or base",
            trap="neither the layout nor the frequencies are those of the 2017 paper. A checkpoint "
            "has a table computed in float32, which within 1500 rows differs from this one by up "
            "to about 2e-4: compare a port with that tolerance, or load the table of the "
            "checkpoint.",
            notes="As in openai-whisper.",
            published="seq_len=1500&d_model=384",
            spacing="ends",
            takes=("max_timescale",),
        ),
        "marian": SinusoidConvention(
            "transformers 5.23.0 MarianSinusoidalPositionalEmbedding",
            formula="sin ‖ cos; ω_k = b^(−2k/d)",
            trap="RoFormer has this concatenated table, although its rotary pairs are interleaved.",
            notes="Also Pegasus and RoFormer; computed in float64.",
            models="pegasus",
            odd="sine",
        ),
        "mae": SinusoidConvention(
            "mae commit efb2a80 get_1d_sincos_pos_embed_from_grid",
            formula="sin ‖ cos; ω_k = b^(−k/(d/2))",
            trap="this 1-D table equals marian's; mae's table for images is that of "
            "/encoding/grid, whose first half of the channels encodes columns.",
            notes="Computed in float64.",
        ),
        "diffusers": SinusoidConvention(
            "diffusers 0.42.1 get_1d_sincos_pos_embed_from_grid",
            formula="the table of mae; positions may be fractions, and flip_sin_to_cos=true puts "
            "the cosines first",
            trap="the library returns float64 for positions of any type; when it is added to "
            "float32 embeddings, the library converts the sum to float32 without a warning.",
            example="positions=0.5&d_model=4&flip_sin_to_cos=true",
            takes=("flip_sin_to_cos",),
        ),
        "x-transformers": SinusoidConvention(
            "x-transformers 2.31.10 ScaledSinusoidalEmbedding",
            formula="sin ‖ cos, times scale (1/√d); ω_k = b^(−k/(d/2))",
            trap="the scale is learned and starts at 1/√d: for a trained model, send its scale.",
            notes="Its theta is base.",
            takes=("scale",),
            scale=1,
        ),
        "transformer-xl": SinusoidConvention(
            "transformer-xl commit 44781ed PositionalEmbedding",
            formula="sin ‖ cos of distances in a model with memory; ω_k = b^(−2k/d)",
            trap="the library's rows are for the farthest distance first and 0 last: "
            "/relative/transformer-xl has its R in that order.",
            notes="XLNet has the same frequencies.",
            odd="more",
        ),
        "mlx": SinusoidConvention(
            "mlx 0.32.4 SinusoidalPositionalEncoding",
            formula="sin ‖ cos, times scale (√(2/d)); the logarithms of frequencies are evenly "
            "spaced from max_freq (1) down to min_freq (0.0001); full_turns=true multiplies them "
            "by 2π",
            trap="with the default scale every row has norm 1; with scale=1 it has norm √(d/2).",
            spacing="guarded_ends",
            takes=("min_freq", "max_freq", "full_turns", "cos_first", "scale"),
            scale=2,
        ),
        "perceiver": SinusoidConvention(
            "transformers 5.23.0 PerceiverFourierPositionEncoding",
            formula="x ‖ sin(π·f_k·x) ‖ cos(π·f_k·x); the rows have evenly spaced x = −1 … 1, and "
            "the bands f_k are evenly spaced from 1 to max_resolution/2",
            trap="a row depends on the number of rows: tables of 50 and of 100 rows share only "
            "their first and last row. In the library concat_pos=false also drops the batch axis.",
            notes="d is 2·num_bands + 1, so it determines num_bands. seq_len is the number of "
            "rows; start and positions are refused.",
            example="seq_len=3&d_model=5&max_resolution=8",
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
"""The convention that each of these libraries and models has: keras is keras-hub 0.32.0
SinePositionEncoding, the others are classes of transformers 5.23.0."""

NAMES = (*CONVENTIONS, *ALIASES)
PADDED_NAMES = tuple(
    name for name in NAMES if CONVENTIONS[ALIASES.get(name, name)].padding_idx is not None
)
"""The names of conventions that have a padding row."""

# A type checker does not accept a computed Literal; pydantic does, for the enum and for refusals.
if TYPE_CHECKING:
    SinusoidName: TypeAlias = str
    PaddedName: TypeAlias = str
else:
    SinusoidName = Literal[NAMES]
    PaddedName = Literal[PADDED_NAMES]

_PARAMETERS = frozenset().union(*(known.parameters for known in CONVENTIONS.values()))


# A lower frequency times the smallest fractional position is below the range of phases.
_SLOWEST_OF_FRACTIONS = 1e-250

_DEFAULTS: Mapping[str, float] = MappingProxyType(
    {"base": 10000.0, "min_timescale": 1.0, "max_freq": 1.0, "min_freq": 1e-4}
)


_Base = Annotated[Real, Field(ge=1, le=MAX_BASE)]
_Timescale = Annotated[Real, Field(ge=MIN_FACTOR, le=MAX_SCALED_BASE)]
_LowFrequency = Annotated[Real, Field(ge=1 / MAX_SCALED_BASE, le=MAX_FACTOR)]
_Resolution = Annotated[Integer, Field(ge=1, le=int(MAX_FACTOR))]


class FrequencyParameters(Parameters):
    """The parameters that fix the frequencies: the convention and those it takes."""

    convention: SinusoidName = about(
        "The library, paper or model whose table is returned: "
        + "; ".join(f"{name} ({known.source})" for name, known in CONVENTIONS.items())
        + ". Aliases: "
        + ", ".join(f"{alias} ({name})" for alias, name in ALIASES.items())
        + ".",
        "vaswani",
        default="vaswani",
    )
    base: _Base | None = optional(
        "Base n of the frequencies n^(-2i/d_model); 10000 unless given.", 10000
    )
    min_timescale: Factor | None = optional(
        "Factor of all frequencies; 1 unless given (tensor2tensor, tf-models).", 1
    )
    max_timescale: _Timescale | None = optional(
        "Another name for base, as in tensor2tensor.", 10000
    )
    min_freq: _LowFrequency | None = optional(
        "The lowest frequency; 0.0001 unless given (mlx).", 0.0001
    )
    max_freq: Factor | None = optional("The highest frequency; 1 unless given (mlx).", 1)
    full_turns: Boolean | None = optional(
        "Whether to multiply the frequencies by 2π; false unless given (mlx).", True
    )
    max_resolution: _Resolution | None = optional(
        "The bands are spaced evenly from 1 to max_resolution/2; required by perceiver.", 224
    )
    concat_pos: Boolean | None = optional(
        "Whether the first channel of a row is its coordinate, from -1 to 1; true unless given "
        "(perceiver).",
        False,
    )
    sine_only: Boolean | None = optional(
        "Whether to leave out the cosines; false unless given (perceiver).", True
    )

    @property
    def convention_name(self) -> str:
        """The name of the convention, also if the request names an alias."""
        return ALIASES.get(self.convention, self.convention)

    @property
    def known_convention(self) -> SinusoidConvention:
        return CONVENTIONS[self.convention_name]

    @property
    def range_names(self) -> tuple[str, str]:
        """The names of the two parameters that bound the frequencies.

        They are (min_freq, max_freq), or (min_timescale, base or max_timescale).
        """
        if self.known_convention.has_bounds:
            return "min_freq", "max_freq"
        return "min_timescale", "base" if self.max_timescale is None else "max_timescale"

    @property
    def frequency_range(self) -> tuple[float, float]:
        """The values of the parameters ``range_names``; the second may be smaller."""
        values = ((name, getattr(self, name)) for name in self.range_names)
        least, greatest = (_DEFAULTS[name] if value is None else value for name, value in values)
        return least, greatest

    @property
    def _extreme_frequencies(self) -> tuple[float, float]:
        """Bounds of the frequencies: none is below the first or above the second."""
        first, last = self.frequency_range
        if not self.known_convention.has_bounds:
            last = first / last * first
        return min(first, last), max(first, last)

    def frequencies(self, d_model: int) -> tuple[FrequencyRule, dict[str, ParameterValue]]:
        """Return the frequencies, and the canonical parameters that fix them.

        Raises InvalidParameters if a required parameter is missing, or the convention has no table
        of this d_model.
        """
        self._check_names()
        self._check_range()
        known, (least, greatest) = self.known_convention, self.frequency_range
        canonical: dict[str, ParameterValue] = {
            "convention": self.convention_name,
            "d_model": d_model,
        }
        if known.spacing == "bands":
            return self._bands(d_model, canonical)
        _check_d_model(self.convention, known, d_model)
        count, dim = max(known.count(d_model), 1), max(known.span(d_model), 1)
        if known.has_bounds:
            turns = bool(self.full_turns)
            rule = ScaledGeometric(greatest, least, greatest, dim, count, turns)
            return rule, {**canonical, "min_freq": least, "max_freq": greatest, "full_turns": turns}
        if least == 1:
            return Geometric(greatest, dim, count), {**canonical, "base": greatest}
        rule = ScaledGeometric(least, least, greatest, dim, count)
        return rule, {**canonical, "min_timescale": least, "max_timescale": greatest}

    def check_slowest(self) -> None:
        """Raise InvalidParameters if frequencies are too low for fractional positions."""
        if self._extreme_frequencies[0] < _SLOWEST_OF_FRACTIONS:
            rule = f"frequencies below {_SLOWEST_OF_FRACTIONS:g} need whole positions"
            raise self._impossible(*reversed(self.range_names), rule=rule)

    def _bands(
        self, d_model: int, canonical: Mapping[str, ParameterValue]
    ) -> tuple[PixelBands, dict[str, ParameterValue]]:
        """Return the bands of Perceiver, and the canonical parameters that fix them."""
        if self.max_resolution is None:
            rule = f"max_resolution is required with convention={self.convention}"
            raise impossible("max_resolution", None, rule)
        has_coordinates, is_sine = self.concat_pos is not False, bool(self.sine_only)
        count, rest = divmod(d_model - has_coordinates, 1 if is_sine else 2)
        if rest or not count:
            channels = ("" if is_sine else "2·") + "num_bands" + (" + 1" * has_coordinates)
            rule = (
                f"convention={self.convention} has {channels} channels, with num_bands at least 1"
            )
            raise impossible("d_model", d_model, rule)
        return PixelBands(self.max_resolution, count, is_linear=True), {
            **canonical,
            "max_resolution": self.max_resolution,
            "concat_pos": has_coordinates,
            "sine_only": is_sine,
        }

    def _check_names(self) -> None:
        known = self.known_convention
        others = [
            name for name in type(self).model_fields if name in _PARAMETERS - known.parameters
        ]
        faults = exclusion_faults(self, dict.fromkeys(others, f"convention={self.convention}"))
        layout = getattr(self, "layout", None) or known.layout
        if layout != known.layout and not (known.is_free and self.convention in CONVENTIONS):
            faults.append(
                Fault("layout", layout, f"convention={self.convention} is {known.layout}")
            )
        refuse(faults)

    def _check_range(self) -> None:
        if self.base is not None and self.max_timescale is not None:
            rule = "base and max_timescale are the same parameter: give one of them"
            raise impossible("base", self.base, rule)
        (least_name, greatest_name), (least, greatest) = self.range_names, self.frequency_range
        if self._extreme_frequencies[1] > MAX_FREQUENCY:
            rule = f"frequencies must stay below {MAX_FREQUENCY:g}"
            raise self._impossible(greatest_name, least_name, rule=rule)
        if least != 1 and greatest > MAX_SCALED_BASE:
            rule = f"{greatest_name} must be at most {MAX_SCALED_BASE:g} with {least_name}"
            raise impossible(greatest_name, greatest, rule)

    def _impossible(self, *names: str, rule: str) -> InvalidParameters:
        """Return the error for the first of these parameters that is given."""
        name = next(name for name in names if getattr(self, name) is not None)
        return impossible(name, getattr(self, name), rule)


def _check_d_model(name: str, known: SinusoidConvention, d_model: int) -> None:
    if known.odd == "refused" and d_model % 2:
        raise impossible("d_model", d_model, f"convention={name} requires an even d_model")
    if known.width(d_model) < 1:
        raise impossible("d_model", d_model, f"convention={name} has no channels for it")
    if known.span(d_model) == 0:
        rule = f"convention={name} requires at least 4 channels: with fewer it divides by zero"
        raise impossible("d_model", d_model, rule)


class ConventionParameters(FrequencyParameters):
    """The convention and the parameters of all conventions."""

    layout: AbsoluteLayout | None = optional(
        "interleaved: sine and cosine alternate; concatenated: all sines, then all cosines. Only "
        "vaswani has both, with interleaved by default; the others have one.",
        "interleaved",
    )
    cos_first: Boolean | None = optional("Whether the cosines come first (mlx).", True)
    flip_sin_to_cos: Boolean | None = optional("Whether the cosines come first (diffusers).", True)
    scale: Real | None = optional(
        "Factor of sines and cosines; √(2/d_model) (mlx) or 1/√d_model (x-transformers) unless "
        "given.",
        1,
        ge=MIN_FACTOR,
        le=MAX_ATTENTION_FACTOR,
    )
    offset: Position | None = optional(
        "The row of a position is position + offset; 0 (fairseq), padding_idx + 1 (m2m100) or "
        "2 (xglm) unless given.",
        2,
    )
    padding_idx: Position | None = optional(
        "The row that is zeros; 1 unless given (fairseq, m2m100, xglm).", 1
    )

    def sinusoids(self, d_model: int) -> Sinusoids:
        """Return the encoding for d_model, with the number of channels that the library has.

        Raises InvalidParameters if a required parameter is missing, or the convention has no table
        of this d_model.
        """
        rule, canonical = self.frequencies(d_model)
        known = self.known_convention
        if known.spacing == "bands":
            components: tuple[Component, ...] = ("sin",) if self.sine_only else ("sin", "cos")
            width = rule.count * len(components)
            channels = Channels(components, interleaved=False, width=width)
            canonical["layout"] = known.layout
            has_coordinates = self.concat_pos is not False
            return SpreadSinusoids(rule, channels, canonical, has_coordinates=has_coordinates)
        layout = self.layout or known.layout
        is_flipped = bool(self.cos_first or self.flip_sin_to_cos)
        channels = Channels(
            ("cos", "sin") if is_flipped else ("sin", "cos"),
            interleaved=layout == "interleaved",
            width=known.width(d_model),
            zeros=known.zeros(d_model),
        )
        scale = known.scale_of(d_model) if self.scale is None else self.scale
        padding_idx = known.padding_idx if self.padding_idx is None else self.padding_idx
        default_offset = (padding_idx or 0) + 1 if known.offset is None else known.offset
        offset = default_offset if self.offset is None else self.offset
        values: dict[str, Any] = {
            "cos_first": is_flipped,
            "flip_sin_to_cos": is_flipped,
            "scale": scale,
            "offset": offset,
            "padding_idx": padding_idx,
        }
        canonical["layout"] = layout
        canonical |= {name: values[name] for name in known.takes if name in values}
        return Sinusoids(rule, channels, canonical, scale, offset, padding_idx)
