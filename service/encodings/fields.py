"""Base class of parameters, and the parameter types that several families share."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from service import grammar
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import Integer, Real
from service.numerics.limits import MAX_BASE, MAX_CHANNELS, MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions
from service.numerics.real_positions import AnyPositions

_REAL = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_RANGE = r"-?[0-9]+(:-?[0-9]+){0,2}"

Reals = Annotated[
    tuple[float, ...],
    BeforeValidator(grammar.reals),
    WithJsonSchema(
        {
            "type": ["string", "array"],
            "pattern": f"^{_REAL}(,{_REAL})*$",
            "items": {"type": "number"},
            "minItems": 1,
        }
    ),
]
Integers = Annotated[
    tuple[int, ...],
    BeforeValidator(grammar.integers),
    WithJsonSchema(
        {
            "type": ["string", "array"],
            "pattern": r"^-?[0-9]+(,-?[0-9]+)*$",
            "items": {"type": "integer"},
            "minItems": 1,
        }
    ),
]
PositionList = Annotated[
    Positions,
    BeforeValidator(grammar.positions),
    WithJsonSchema(
        {
            "type": ["string", "integer", "array"],
            "pattern": f"^{_RANGE}(,{_RANGE})*$",
            "items": {"type": ["integer", "string"], "pattern": f"^{_RANGE}$"},
            "minItems": 1,
        }
    ),
]
RealPositionList = Annotated[
    AnyPositions,
    BeforeValidator(grammar.real_positions),
    WithJsonSchema(
        {
            "type": ["string", "number", "array"],
            "pattern": f"^({_RANGE}(,{_RANGE})*|{_REAL}(,{_REAL})*)$",
            "items": {"type": ["number", "string"], "pattern": f"^({_RANGE}|{_REAL})$"},
            "minItems": 1,
        }
    ),
]
Factor = Annotated[Real, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
Position = Annotated[Integer, Field(ge=-MAX_POSITION, le=MAX_POSITION)]
RealDType: TypeAlias = Literal["float32", "float64", "float16", "bfloat16"]
IndexDType: TypeAlias = Literal["int32", "int64"]
AbsoluteLayout: TypeAlias = Literal["interleaved", "concatenated"]

Listed = TypeVar("Listed", Positions, AnyPositions)


class Parameters(BaseModel):
    """Base of all parameters: unknown names are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    related: ClassVar[Mapping[str, type["Parameters"]]] = {}
    """Other families whose parameters are often sent here by mistake, by path."""

    def chosen_part(self) -> str | None:
        """Return the name of the one array that is requested (``part``), None for all."""
        part: str | None = getattr(self, "part", None)
        return part

    def removable_axes(self) -> Mapping[str, str]:
        """Return how to request the table without an axis, by the name of the axis."""
        return {}

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Return a hint for an unknown parameter, from all values that were sent, or None."""
        return None


def choices(model: type[Parameters], name: str) -> tuple[str, ...]:
    """Return the values that a parameter of a closed list may have, else nothing."""
    field = model.model_fields.get(name)
    if field is None or get_origin(field.annotation) is not Literal:
        return ()
    return get_args(field.annotation)


def about(description: str, example: Any, **bounds: Any) -> Any:
    """Return the field of a parameter: its description, an example, and its bounds."""
    return Field(description=description, examples=[example], **bounds)


def optional(description: str, example: Any, **bounds: Any) -> Any:
    """Return the field of a parameter that is None unless given."""
    return about(description, example, default=None, **bounds)


def impossible(parameter: str, value: object, rule: str) -> InvalidParameters:
    """Make the error of a parameter that does not go with the others."""
    sent = None if value is None else shortened(grammar.to_query(value))
    return InvalidParameters(Fault(parameter, sent, rule))


class FirstParameters(Parameters):
    """The position of the first row."""

    start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="Position of the first row; 0 unless given.",
        examples=[0],
    )


class StartParameters(FirstParameters):
    """The positions of the rows of an array: consecutive from start on, or a list."""

    positions: PositionList | None = Field(
        default=None,
        description="Position of each row, integers and half-open ranges, in place of "
        "seq_len and start.",
        examples=["0,5,9:20:2"],
    )

    def positions_of(self, rows: int) -> Positions:
        """Return the positions of the rows of an array."""
        if self.positions is None:
            return contiguous(self.start or 0, rows)
        if self.start is not None:
            raise impossible("start", self.start, "start does not go with positions")
        if self.positions.count != rows:
            raise InvalidBody(
                f"positions names {self.positions.count} rows, and the array has {rows}"
            )
        return self.positions


class LengthParameters(FirstParameters):
    """The number of positions and the first one."""

    seq_len: Integer | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="Number of positions; required unless positions is given.",
        examples=[50],
    )

    def _resolved(self, listed: Listed | None, default_seq_len: int | None) -> Positions | Listed:
        """Return the positions; raises InvalidParameters unless they are given just once."""
        seq_len = self.seq_len or default_seq_len
        if listed is None and seq_len is None:
            rule = "seq_len is required, unless positions is given"
            raise impossible("seq_len", None, rule)
        if listed is None:
            return contiguous(self.start or 0, seq_len or 0)
        beside = {"seq_len": self.seq_len, "start": self.start}
        faults = [
            Fault(name, str(value), f"{name} does not go with positions")
            for name, value in beside.items()
            if value is not None
        ]
        if faults:
            raise InvalidParameters(*faults)
        return listed


class PositionParameters(LengthParameters, StartParameters):
    """The integer positions of a table: seq_len of them from start on, or a list."""

    def resolved_positions(self, default_seq_len: int | None = None) -> Positions:
        """Return the positions; raises InvalidParameters unless they are given just once.

        Args:
            default_seq_len: how many there are where nothing says it.
        """
        return self._resolved(self.positions, default_seq_len)


class RealPositionParameters(LengthParameters):
    """The positions of a table, which may be fractions."""

    positions: RealPositionList | None = Field(
        default=None,
        description="Position of each row, integers and half-open ranges, or numbers of which "
        "some are fractions, in place of seq_len and start.",
        examples=["0,5,9:20:2"],
    )

    def resolved_positions(self) -> AnyPositions:
        """Return the positions; raises InvalidParameters unless they are given just once."""
        return self._resolved(self.positions, None)


def contiguous(start: int, count: int, name: str = "start") -> Positions:
    """Make positions that follow each other; an error names the parameter that is their start."""
    if start + count - 1 > MAX_POSITION:
        rule = f"the last position, {start + count - 1}, lies beyond 2^62"
        raise impossible(name, start, rule)
    return Positions.contiguous(start, count)


def d_model_field(*, even: bool = False) -> int:
    """Make the field of an encoding's number of channels."""
    field: int = Field(
        ge=2 if even else 1,
        le=MAX_CHANNELS,
        multiple_of=2 if even else None,
        description="Number of channels" + (", even." if even else "."),
        examples=[512],
    )
    return field


def base_field() -> float:
    """Make the field of the base of a geometric series of frequencies."""
    field: float = Field(
        default=10000.0,
        ge=1,
        le=MAX_BASE,
        description="Base n of the frequencies n^(-2i/d_model).",
        examples=[10000],
    )
    return field


def dtype_field() -> RealDType:
    """Make the field of a real element type."""
    field: RealDType = Field(
        default="float32",
        description="Type of the elements; each is the exact value rounded once.",
        examples=["float32"],
    )
    return field


def absolute_layout_field() -> AbsoluteLayout:
    """Make the field of an encoding's layout."""
    field: AbsoluteLayout = Field(
        default="interleaved",
        description="Sine and cosine in turn, or all sines and then all cosines.",
        examples=["interleaved"],
    )
    return field


def index_dtype_field() -> IndexDType:
    """Make the field of an integer element type."""
    field: IndexDType = Field(
        default="int32", description="Type of the elements.", examples=["int64"]
    )
    return field
