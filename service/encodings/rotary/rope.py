"""``/rope`` and ``/rope/frequencies``, and the parameters that rotary families share.

The frequencies are listed, or computed by a rule from the number of rotary channels and the keys of
the rule. The angles are frequencies times positions, along one sequence or three axes (M-RoPE).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import create_model

from service.encodings.family import (
    Integers,
    Parameters,
    PositionList,
    Reals,
    TableFamily,
    about,
    impossible,
    optional,
    optional_key,
    refuse_excluded,
)
from service.encodings.grid.grids import Tokens
from service.encodings.meaning import Meaning, NamedVariant, Selection, sections
from service.encodings.position_parameters import PositionParameters, check_rank
from service.encodings.rotary.angles import AXES, PackedTable, RotaryAngles, SequenceAngles
from service.encodings.rotary.mrope import LAYOUTS, SEQUENCE_AXIS, MropeLayoutName, mrope_angles
from service.encodings.rotary.rules import (
    DEFAULT_ROPE_THETA,
    INTERMEDIATES,
    ROPE_TYPES,
    RULE_KEYS,
    RULES,
    SHARE_FIELD,
    SHARED,
    Default,
    GivenFrequencies,
    RotaryFrequencies,
    RotaryRule,
    rule_of,
)
from service.encodings.rotary.xpos import XPos
from service.errors import InvalidParameters
from service.grammar import Boolean, Integer, Real
from service.numerics.axes import AngleRounding
from service.numerics.dtypes import FLOAT64, largest_finite
from service.numerics.limits import (
    MAX_AXES_CHANNELS,
    MAX_BASE,
    MAX_CHANNELS,
    MAX_FACTOR,
    MAX_GROWN_CHANNELS,
    MAX_LENGTH,
)
from service.numerics.phase import (
    MAX_FREQUENCY,
    MAX_POSITION,
    MIN_FREQUENCY,
    frequency_seconds,
    is_valid_frequency,
    wavelengths,
)
from service.numerics.positions import AnyPositions, PositionArray, Positions
from service.numerics.tables import DecimalTable, Document, Table

_XPOS_SCALE_BASE = 512.0
_POSITIONS = tuple(f"positions_{axis}" for axis in (*AXES, SEQUENCE_AXIS))
_SEQUENCES = ("seq_len", "start", "positions", "cu_seqlens", "seqlen_offsets")
_LAYOUTS = LAYOUTS.items()

# The error bound is computed before the table: for this many channels in a few milliseconds.
_MAX_ROUNDED_CHANNELS = 1024

if TYPE_CHECKING:
    RopeType: TypeAlias = str
    FrequencyArray: TypeAlias = str
else:
    RopeType: TypeAlias = Literal[ROPE_TYPES]
    FrequencyArray: TypeAlias = Literal[
        ("inv_freq", "wavelength", "attention_factor", *INTERMEDIATES)
    ]


class WidthParameters(Parameters):
    """The number of channels of a head, and how many of them are rotary."""

    head_dim: Integer | None = optional(
        "Number of channels of a head; required unless rotary_dim or inv_freq is given.",
        128,
        ge=2,
        le=MAX_CHANNELS,
    )
    rotary_dim: Integer | None = optional(
        "Number of rotary channels, the first ones of a head; all channels unless given.",
        64,
        ge=2,
        le=MAX_CHANNELS,
        multiple_of=2,
    )
    partial_rotary_factor: Annotated[Real | None, SHARE_FIELD] = None

    def rotary_channels(self, head_dim: int | None) -> int | None:
        """Return the number of rotary channels of a head; None if no parameter determines it.

        Raises InvalidParameters if the number is odd or more than head_dim.
        """
        factor = self.partial_rotary_factor
        if factor is None:
            if self.rotary_dim is None:
                return even_channels("head_dim", head_dim, head_dim)
            if head_dim is not None and self.rotary_dim > head_dim:
                rule = f"rotary_dim must be at most head_dim, {head_dim}"
                raise impossible("rotary_dim", self.rotary_dim, rule)
            return self.rotary_dim
        if self.rotary_dim is not None:
            rule = "partial_rotary_factor does not go with rotary_dim"
            raise impossible("partial_rotary_factor", factor, rule)
        if head_dim is None:
            rule = "head_dim is required with partial_rotary_factor"
            raise impossible("head_dim", None, rule)
        return even_channels("partial_rotary_factor", factor, int(head_dim * factor))


def even_channels(origin: str, value: object, rotary_dim: int | None) -> int | None:
    """Return rotary_dim; raises InvalidParameters if it is odd or below 2.

    Args:
        origin: the name of the parameter that determines rotary_dim, for the error.
        value: the value of that parameter.
        rotary_dim: the number of channels; None is returned unchanged.
    """
    if rotary_dim is not None and (rotary_dim % 2 or rotary_dim < 2):
        rule = (
            f"channels rotate in pairs: {origin} gives {rotary_dim}, not an even number from 2 on"
        )
        raise impossible(origin, value, rule)
    return rotary_dim


class NamedRule(WidthParameters):
    """The channels of a head, and the name (rope_type) and base (rope_theta) of a rule."""

    rope_theta: Real | None = optional(
        "Base of the frequencies rope_theta^(-2k/rotary_dim); 10000 unless given.",
        10000,
        ge=1,
        le=MAX_BASE,
    )
    rope_type: RopeType | None = optional("Rule of the frequencies; default unless given.", "yarn")


if TYPE_CHECKING:

    class RuleKeys(NamedRule):
        """The keys of all rules."""

        max_position_embeddings: Integer | None = None

else:
    RuleKeys = create_model(
        "RuleKeys",
        __base__=NamedRule,
        __module__=__name__,
        **{name: optional_key(kind) for name, kind in RULE_KEYS.items()},
    )


class RuleParameters(RuleKeys):
    """The frequency of each pair of channels: computed by a rule, or listed in inv_freq."""

    inv_freq: Reals | None = optional(
        "The frequencies, in radians per position, in place of rope_theta and rope_type.",
        "1,0.1,0.01,0.001",
        max_length=MAX_CHANNELS // 2,
    )

    @property
    def convention_name(self) -> str:
        """The name of the rule; inv_freq if frequencies are listed."""
        if self.inv_freq is not None:
            return "inv_freq"
        rule = rule_of(self.rope_type or Default.rope_type, self.model_dump(exclude_none=True))
        return rule.variant or rule.rope_type

    def rule(self, head_dim: int | None) -> RotaryFrequencies:
        """Return the frequencies; raises InvalidParameters.

        Args:
            head_dim: the number of channels of a head; None if unknown.
        """
        names = ("partial_rotary_factor", *RULE_KEYS)
        keys = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.inv_freq is not None:
            self._check_listed(self.inv_freq, head_dim, keys)
            return GivenFrequencies(self.inv_freq, keys.get("attention_factor", 1.0))
        rule = rule_of(self.rope_type or Default.rope_type, keys)
        channels_of = self._whole_head if rule.is_whole_head else self.rotary_channels
        rotary_dim = channels_of(head_dim)
        if rotary_dim is None:
            explained = "head_dim is required, unless rotary_dim or inv_freq is given"
            raise impossible("head_dim", None, explained)
        known = {*SHARED, *rule.key_types()}
        refuse_excluded(self, {name: _way_out(name, rule) for name in keys if name not in known})
        return rule.from_keys(rotary_dim, self.rope_theta or DEFAULT_ROPE_THETA, keys)

    def _whole_head(self, head_dim: int | None) -> int | None:
        """Return the number of rotary channels for a rule that rotates all channels of a head."""
        if head_dim is None:
            return self.rotary_dim
        if self.rotary_dim not in {None, head_dim}:
            rule = f"with rope_type={self.rope_type} all of a head is rotary: leave rotary_dim out"
            raise impossible("rotary_dim", self.rotary_dim, rule)
        return even_channels("head_dim", head_dim, head_dim)

    def _check_listed(
        self, inv_freq: tuple[float, ...], head_dim: int | None, keys: Iterable[str]
    ) -> None:
        for name in ("rope_theta", "rope_type", *keys):
            value = getattr(self, name)
            if value is not None and name not in {*SHARED, "attention_factor"}:
                raise impossible(name, value, f"{name} does not go with inv_freq")
        check_frequencies(inv_freq)
        count, width = len(inv_freq), 2 * len(inv_freq)
        given = self.rotary_dim or self.partial_rotary_factor
        rotary_dim = self.rotary_channels(head_dim) if given else width
        if rotary_dim != width:
            rule = f"{count} inv_freq rotate {width} channels, not {rotary_dim}"
            raise impossible("inv_freq", count, rule)
        if head_dim is not None and width > head_dim:
            rule = f"{count} inv_freq rotate {width} channels, and a head has {head_dim}"
            raise impossible("inv_freq", count, rule)


def _way_out(key: str, rule: type[RotaryRule]) -> str:
    """Return what excludes a key that the chosen rule lacks, and what the key goes with."""
    owners = dict.fromkeys(each.rope_type for each in RULES if key in each.key_types())
    if rule.rope_type in owners:
        return f"{rule.variant}: leave {rule.variant} out"
    return f"{rule.variant or f'rope_type={rule.rope_type}'}, but with rope_type={'|'.join(owners)}"


def check_frequencies(inv_freq: tuple[float, ...]) -> None:
    """Raise InvalidParameters for frequencies whose angles cannot be computed exactly."""
    for frequency in inv_freq:
        if not is_valid_frequency(frequency):
            rule = f"inv_freq must be 0 or from {MIN_FREQUENCY:g} to {MAX_FREQUENCY:g}"
            raise impossible("inv_freq", frequency, rule)


def _along(axis: str) -> Any:
    text = f"Position of each token along the axis {axis}; with the other axes, in place of grid."
    return optional(text, "0,1,1,2")


class AxisParameters(Parameters):
    """Positions along time, height and width."""

    positions_t: PositionList | None = _along("t")
    positions_h: PositionList | None = _along("h")
    positions_w: PositionList | None = _along("w")

    def positions_by_axis(self, axes: Sequence[str] = ()) -> dict[str, Positions]:
        """Return the listed positions by axis (t, h, w); {} if none are listed.

        Raises InvalidParameters if a required list is missing or the lengths differ.

        Args:
            axes: the required axes; if empty, the last one, two or three of t, h and w.
        """
        lists = {axis: getattr(self, f"positions_{axis}") for axis in axes or AXES}
        given = {axis: positions for axis, positions in lists.items() if positions is not None}
        if not given:
            return {}
        for axis in axes or AXES[-len(given) :]:
            if axis not in given:
                name = f"positions_{axis}"
                raise impossible(
                    name, None, f"{name} is required with the positions along other axes"
                )
        counts = [positions.count for positions in given.values()]
        for axis, positions in given.items():
            if positions.count != counts[0]:
                rule = f"the positions along every axis must be as many, not {counts}"
                raise impossible(f"positions_{axis}", positions, rule)
        return given


def check_grid(grid: tuple[int, ...]) -> None:
    """Raise InvalidParameters for a grid without tokens, or with more than MAX_LENGTH."""
    if min(grid) < 1 or prod(grid) > MAX_LENGTH:
        rule = "grid must be lengths from 1 on, of at most 2^62 tokens"
        raise impossible("grid", grid, rule)


def check_rounding(angle: AngleRounding, channels: int) -> None:
    """Raise InvalidParameters for float32 angles with too many rotary channels.

    Computing their error bound would take too long, and no engine has as many.
    """
    if angle == "float32" and channels > _MAX_ROUNDED_CHANNELS:
        rule = f"angle=float32 is for at most {_MAX_ROUNDED_CHANNELS} rotary channels"
        raise impossible("angle", angle, rule)


class AngleParameters(AxisParameters, RuleParameters):
    """The frequencies, the positions along axes, the rounding of angles, and xPos."""

    mrope_section: Integers | None = optional(
        "M-RoPE: how many frequencies are multiplied by the position t, by h and by w, or along "
        "the axes of mrope_layout.",
        "16,24,24",
        min_length=2,
        max_length=4,
    )
    mrope_interleaved: Boolean | None = optional(
        "Whether the axes of M-RoPE alternate from one frequency to the next (Qwen3-VL) instead of "
        "having contiguous sections (Qwen2-VL); false unless given.",
        example=True,
    )
    mrope_layout: MropeLayoutName | None = optional(
        "Which frequencies of M-RoPE have which axis; chunked unless given. "
        + "; ".join(f"{name}: {layout.formula} ({layout.source})" for name, layout in _LAYOUTS),
        "ernie4_5_vl",
    )
    positions_p: PositionList | None = optional(
        "With mrope_layout=hunyuan_vl: position of each token in the sequence.", "0,1,1,2"
    )
    grid: Integers | None = optional(
        "With mrope_section: the lengths t,h,w of a grid of tokens, numbered along w first; h,w "
        "where the layout has no axis t.",
        "2,3,4",
        min_length=2,
        max_length=3,
    )
    angle: AngleRounding = about(
        "exact: exact angles; float32: frequencies, and their products with positions, are rounded "
        "to float32 as engines do, and sines and cosines of the result are exact.",
        "float32",
        default="exact",
    )
    xpos: Literal["query", "key"] | None = optional(
        "xPos: whether cosines and sines are multiplied by the scale for queries or for keys.",
        "query",
    )
    xpos_scale_base: Real | None = optional(
        "With xpos: scale_base in ζ_k^((p - centre)/scale_base); 512 unless given.",
        512,
        ge=1,
        le=MAX_FACTOR,
    )
    xpos_centre: Integer | None = optional(
        "With xpos: the position whose scale is 1; half the number of rows unless given.",
        4,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
    )

    def angles(self, head_dim: int | None, sequence: Callable[[], AnyPositions]) -> RotaryAngles:
        """Return the angles of all rows and frequencies; raises InvalidParameters.

        Args:
            head_dim: the number of channels of a head; None if unknown.
            sequence: returns the positions of sequences, or a sent array of them; not called if
                grid or lists along axes give the positions.
        """
        rule, section = self.rule(head_dim), self.mrope_section
        channels = 2 * rule.count
        check_rounding(self.angle, channels)
        if self.xpos is None:
            of_xpos = dict.fromkeys(("xpos_scale_base", "xpos_centre"), "xpos")
            refuse_excluded(self, of_xpos, "goes with {} only")
        if section is None:
            of_mrope = ("mrope_interleaved", "mrope_layout", "grid", *_POSITIONS)
            refuse_excluded(self, dict.fromkeys(of_mrope, "mrope_section"), "goes with {} only")
            positions = sequence()
            needs = ": several positions of a token need mrope_section or an axial convention"
            check_rank(positions, hint=needs)
            if self.xpos is None:
                return SequenceAngles(rule, positions, self.angle)
            return self._with_xpos(rule, positions)
        if self.mrope_layout is not None:
            refuse_excluded(self, {"mrope_interleaved": "mrope_layout"})
        layout = self.mrope_layout or ("interleaved" if self.mrope_interleaved else "chunked")
        if fault := LAYOUTS[layout].fault(section, rule.count):
            raise impossible("mrope_section", section, f"mrope_section {fault}")
        if channels > MAX_AXES_CHANNELS:
            explained = f"mrope_section is for at most {MAX_AXES_CHANNELS} rotary channels"
            raise impossible("mrope_section", section, explained)
        if self.xpos is not None:
            raise impossible("xpos", self.xpos, "xpos does not go with mrope_section")
        axes = LAYOUTS[layout].axes_of(section)
        tokens = self._tokens(layout, axes)
        if tokens is None:
            positions, names = sequence(), LAYOUTS[layout].ids_of(section)
            check_rank(positions, names)
            tokens = Tokens.of_sequences(positions, names)
        return mrope_angles(rule, section, tokens, self.angle, layout=layout)

    def _with_xpos(self, rule: RotaryFrequencies, positions: AnyPositions) -> RotaryAngles:
        channels = 2 * rule.count
        are_lengths = any(
            getattr(self, name) is not None for name in ("cu_seqlens", "seqlen_offsets")
        )
        if self.xpos_centre is None and (are_lengths or isinstance(positions, PositionArray)):
            explained = "xpos_centre is required with several sequences, or an array of positions"
            raise impossible("xpos_centre", None, explained)
        if not positions.is_whole:
            raise impossible("xpos", self.xpos, "xpos needs integer positions")
        if self.angle != "exact":
            raise impossible("angle", self.angle, "angle=float32 does not go with xpos")
        if channels > MAX_GROWN_CHANNELS:
            explained = f"xpos is for at most {MAX_GROWN_CHANNELS} rotary channels"
            raise impossible("xpos", self.xpos, explained)
        centre = positions.shape[-1] // 2 if self.xpos_centre is None else self.xpos_centre
        xpos = XPos(channels, self.xpos_scale_base or _XPOS_SCALE_BASE, centre, self.xpos == "key")
        angles = SequenceAngles(rule, positions, "exact", xpos)
        if angles.peak > largest_finite(FLOAT64):
            explained = "positions are so far from xpos_centre that no number is large enough"
            raise impossible("xpos_scale_base", self.xpos_scale_base, explained)
        return angles

    def _tokens(self, layout: str, axes: str) -> Tokens | None:
        """Return the tokens with their positions along the axes of a layout; None if not given."""
        others = [name for name in _POSITIONS if name[-1] not in axes]
        refuse_excluded(self, dict.fromkeys(others, f"mrope_layout={layout}"))
        if self.grid is not None:
            self._refuse_beside("grid")
            names = "".join(axis for axis in AXES if axis in axes)
            if SEQUENCE_AXIS in axes or len(self.grid) != len(names):
                rule = f"mrope_layout={layout} has the axes {','.join(axes)}"
                raise impossible("grid", self.grid, f"{rule}: list the positions along each")
            check_grid(self.grid)
            return Tokens.of_grid(self.grid, names)
        given = self.positions_by_axis([name for name in (*AXES, SEQUENCE_AXIS) if name in axes])
        if not given:
            return None
        self._refuse_beside(*_POSITIONS)
        return Tokens.of_lists(given)

    def _refuse_beside(self, *chosen: str) -> None:
        """Raise InvalidParameters if a position parameter other than those chosen is given."""
        ways = (*_SEQUENCES, "grid", *_POSITIONS)
        refuse_excluded(self, {name: chosen[0] for name in ways if name not in chosen})


class Rope(PackedTable, PositionParameters, AngleParameters, path="/rope"):
    """Rotary tables: the cosines and sines that rotate queries and keys.

    M-RoPE: with mrope_section=16,24,24 the first 16 frequencies are multiplied by the position t,
    the next 24 by h, the last 24 by w (Qwen2-VL). With mrope_interleaved=true (Qwen3-VL) frequency
    k is multiplied by h if k mod 3 is 1 and k < 3·section[1], by w if k mod 3 is 2 and
    k < 3·section[2], otherwise by t; mrope_layout names these and the orders of other models.
    Positions are positions_t, positions_h and positions_w, or grid=t,h,w; seq_len, start and
    positions give all axes the same position, as for text.

    angle=float32 rounds frequencies, positions and their products to float32, as engines do, and
    returns sines and cosines of that angle. With the inv_freq that an engine computed, the table
    equals the engine's table within one or two ulps. ``Array-Error-Bound`` (``error_bound`` in JSON
    and safetensors) bounds the difference from the exact formula at these positions, including the
    rounding to the element type.

    A rule refuses keys of other rules, except max_position_embeddings, which is also the number of
    rows unless another parameter gives it. inv_freq replaces the rule; attention_factor may be
    given with it. JSON and safetensors can hold a table of two arrays; formats of one array need
    part=cos or part=sin.

    Formula: cos(p·ω_k) and sin(p·ω_k) times the attention factor, for the frequencies ω_k of a
        rule, k = 0 … r/2 − 1. r is rotary_dim, which is head_dim unless rotary_dim,
        partial_rotary_factor or inv_freq (one number for two channels) is given. With xpos also
        times ζ_k^±((p − centre)/scale_base), + for queries and − for keys, ζ_k = (2k +
        0.4r)/(1.4r); the centre is half the rows (flash-attn) and the scale base 512 unless given.
    Source: "RoFormer" (Su et al. 2021), §3.2.2.
    Bound: every cosine and sine is within 4u, u = 2^-53, of the formula; times an attention factor
        within 6u of that factor. While |p·ω| < 1, also within 6u of the value's own size, 8u with
        an attention factor. xpos adds 2u of the value for each digit of p − centre to the base 64.
        An angle (pack=angle) is within 8u of its own size. All are rounded once to the element
        type.
    Trap: engines disagree on the packing: ``pack`` takes the name of a packing or of a consumer.
    """

    operation: ClassVar[str] = "Rope"
    summary: ClassVar[str] = "The rotary table of positions, in the packing that a consumer expects"
    example: ClassVar[str] = "head_dim=4&seq_len=2"

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for rule in RULES:
            takes = {"rope_theta", "rope_type", *rule.key_types(), *SHARED}
            first_line = (rule.__doc__ or "").partition("\n")[0]
            yield NamedVariant(
                rule.variant or rule.rope_type,
                f"{rule.example}&seq_len=50",
                {"rope_type": rule.rope_type},
                takes,
                rule.published,
                first_line,
                sections(rule.__doc__),
                rule.models,
            )
        takes = {"inv_freq", "attention_factor", *SHARED}
        yield NamedVariant("inv_freq", "inv_freq=1,0.1,0.01,0.001&seq_len=50", takes=takes)

    def selections(self) -> Mapping[str, Selection]:
        listed = any(getattr(self, name) is not None for name in ("grid", *_POSITIONS))
        return {} if listed else super().selections()

    def meaning(self) -> Meaning:
        is_default = self.rope_type in {None, Default.rope_type}
        is_plain = is_default and getattr(self, "freq_factors", None) is None
        return replace(
            super().meaning(),
            frequencies="/rope/frequencies",
            unscaled=() if is_plain or self.inv_freq else ("rotary_dim", "rope_theta"),
            trained_length=self.max_position_embeddings if is_default else None,
            grid=self.grid or (),
        )

    def rotary_angles(self) -> RotaryAngles:
        positions = partial(self.resolved_positions, self.max_position_embeddings)
        try:
            angles = self.angles(self.head_dim, positions)
        except InvalidParameters as error:
            # Without it nothing else is known to be wrong but that positions may be missing too.
            if [each.where for each in error.faults] != ["head_dim"]:
                raise
            try:
                positions()
            except InvalidParameters as other:
                raise InvalidParameters(*error.faults, *other.faults) from None
            raise
        # Without xPos the attention factor is the peak, which is in the range of float16.
        if self.xpos is not None and angles.peak > largest_finite(self.element_type):
            rule = f"positions are so far from xpos_centre that {self.dtype} has no room"
            raise impossible("xpos_scale_base", self.xpos_scale_base, rule)
        return angles


class RopeFrequencies(TableFamily, RuleParameters, path="/rope/frequencies"):
    """The frequencies of a rule and the intermediate numbers of its formula, all float64.

    Formula: ``inv_freq`` (r/2,) in radians per position, by the rule; ``wavelength`` 2π/ω (r/2,)
        in positions, infinite where a frequency is 0; ``attention_factor`` (); the intermediates
        of the rule.
    Source: see the rule, ``rope_type``.
    Bound: each number is the nearest to the formula; an infinite wavelength is null in JSON and inf
        in CSV.
    Trap: engines compute frequencies in float32, up to 2^-22 of their size away.
    """

    operation: ClassVar[str] = "RopeFrequencies"
    summary: ClassVar[str] = "The frequency of each pair of rotary channels, and intermediates"
    example: ClassVar[str] = "head_dim=4"
    axes: ClassVar[tuple[str, ...]] = ("pair",)

    part: FrequencyArray | None = optional("Return only one of the arrays.", "inv_freq")

    def document(self) -> Document:
        return self.of(self.rule(self.head_dim))

    @classmethod
    def of(cls, rule: RotaryFrequencies) -> Document:
        """Return the document of the frequencies and intermediates of a rule."""
        seconds = frequency_seconds(rule)
        arrays: dict[str, Table] = {
            "inv_freq": DecimalTable((rule.count,), rule.exact, seconds),
            "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact()), seconds),
            "attention_factor": DecimalTable((), lambda: [Decimal(rule.scale)]),
        }
        arrays |= rule.intermediates()
        return cls.describe(arrays, rule.parameters(), has_parts=True)
