"""Transformations of sent arrays, and the names of the axes of arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from service.encodings.family import Family, channel_order, optional
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import Misspelled
from service.numerics.dtypes import COMPLEX_DTYPES, INT64
from service.numerics.tables import Document, ParameterValue, StoredTable, Table
from service.numerics.transformed import Transform, TransformedTable

_ANY = "any"
_LONGEST_NAME = 20
_OTHER_WORDS = {
    **dict.fromkeys(("b", "n"), "batch"),
    **dict.fromkeys(("s", "l", "t", "length", "position", "positions", "time"), "seq"),
    **dict.fromkeys(("h", "num_heads"), "head"),
    **dict.fromkeys(("c", "d", "dim", "head_dim", "hidden", "embed", "feature"), "channel"),
    **dict.fromkeys(("q", "queries"), "query"),
    **dict.fromkeys(("k", "keys"), "key"),
}


@dataclass(frozen=True)
class AxisNames:
    """The names that the axes of an array may have.

    Attributes:
        required: names of which an array has one each; one of several, with ``|`` between them.
        others: further names; ``any`` may be given to several axes.
        defaults: those of arrays with few axes; arrays with more axes need names.
        usual: the orders of four axes that are common, and whose they are.
    """

    required: tuple[str, ...]
    others: tuple[str, ...]
    defaults: tuple[tuple[str, ...], ...]
    usual: Mapping[str, str]

    @property
    def known(self) -> tuple[str, ...]:
        """All names, ``any`` last."""
        return *self.others, *(name for one in self.required for name in one.split("|")), _ANY

    def parse(self, value: Any) -> tuple[str, ...]:
        """Return names; raises ValueError if they are no names of the axes of an array."""
        names, known = value.split(",") if isinstance(value, str) else value, self.known
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"must be names of axes with commas between them: {', '.join(known)}")
        for name in [each for each in names if each not in known]:
            word = name.strip().lower()[:_LONGEST_NAME]
            near = get_close_matches(_OTHER_WORDS.get(word, word), known, 1)
            rule = f"must be of {', '.join(known)}, and {shortened(name) or 'one'} is not"
            meant = (near[0] if near and each == name else each for each in names)
            raise Misspelled(rule, near[0] if near else None, ",".join(meant))
        for one in (*self.required, *self.others):
            count = sum(names.count(name) for name in one.split("|"))
            if count > 1 or (count == 0 and one in self.required):
                rule = f"must have one {one.replace('|', ' or ')}, and has {count}"
                raise ValueError(f"{rule}: further axes are any")
        return tuple(names)

    def of(self, names: tuple[str, ...] | None, rank: int, array: str) -> tuple[str, ...]:
        """Return the names of the axes of an array; raises InvalidParameters.

        Args:
            names: those given, or None.
            rank: the number of its axes.
            array: its name.
        """
        if names is not None and len(names) == rank:
            return names
        unnamed = [each for each in self.defaults if len(each) == rank]
        if names is None and unnamed:
            return unnamed[0]
        orders = {",".join(each): "unless given" for each in unnamed} or self.usual
        ways = (f"axes={'any,' * (rank - 4)}{order} ({whose})" for order, whose in orders.items())
        rule = f"{shortened(array)} has {rank}: send {' or '.join(ways)}"
        if names is None:
            raise InvalidParameters(Fault("axes", None, f"axes is required: {rule}"))
        rule = f"axes names {len(names)} axes, and {rule}"
        rule += "; arrays with other axes go in a request of their own"
        raise InvalidParameters(Fault("axes", ",".join(names), rule))

    @property
    def schema(self) -> WithJsonSchema:
        """The JSON schema of the names as a parameter."""
        one = f"({'|'.join(self.known)})"
        return WithJsonSchema({"type": "string", "pattern": f"^{one}(,{one})*$"})

    @property
    def field(self) -> Any:
        """The pydantic field of the names as an optional parameter."""
        return optional(
            "The name of each axis, in order; any has no meaning. Required from four axes on; "
            f"unless given {' or '.join(map(','.join, self.defaults))}.",
            next(iter(self.usual)),
        )


_VECTOR_NAMES = AxisNames(
    required=("seq|token", "channel"),
    others=("batch", "head"),
    defaults=(("seq", "channel"), (_ANY, "seq", "channel")),
    usual={"batch,seq,head,channel": "vLLM, flash-attn", "batch,head,seq,channel": "transformers"},
)


@dataclass(frozen=True, eq=False)
class Vectors(StoredTable):
    """An array of vectors, with the names of its axes."""

    axes: tuple[str, ...]

    @property
    def width(self) -> int:
        """The number of channels of a vector."""
        return self.shape[self.axes.index("channel")]

    @property
    def places(self) -> int:
        """The axis of positions in a sequence."""
        return next(place for place, name in enumerate(self.axes) if name in {"seq", "token"})

    @property
    def rows(self) -> int:
        """The length of the axis of positions in a sequence."""
        return self.shape[self.places]

    @property
    def order(self) -> tuple[int, ...]:
        """The axes, with those of positions and channels last."""
        last = (self.places, self.axes.index("channel"))
        return (*(axis for axis in range(len(self.axes)) if axis not in last), *last)

    def in_rows(self) -> StoredTable:
        """Return the array with the axes of positions and channels last, a view."""
        return StoredTable(self.elements.transpose(self.order), self.dtype)

    def along(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Return the axes that positions (S,) or (B, S) count; those of one sequence are of all.

        Raises InvalidBody if the axes have other lengths.
        """
        sequence = self.axes[self.places]
        several = lengths[:-1] if lengths[0] > 1 else ()
        if several and (sequence == "token" or "batch" not in self.axes):
            rule = f"positions are of {several[0]} sequences, and axes={','.join(self.axes)}"
            named = ",".join(self.axes).replace("token", "seq")
            if "batch" not in self.axes:
                named = named.replace("any", "batch", 1)
            ways = f": send axes={named}" if "batch" in named else ""
            raise InvalidBody(f"{rule} has not both the axes batch and seq{ways}")
        names = ("batch", sequence)[-1 - len(several) :]
        for name, length in zip(names, (*several, lengths[-1]), strict=True):
            own = self.shape[self.axes.index(name)]
            if own != length:
                rows = "positions" if name == sequence else "sequences of positions"
                raise InvalidBody(f"there are {length} {rows}, and the axis {name} has {own}")
        return tuple(self.axes.index(name) for name in names)

    def transformed(
        self, factors: Table, lengths: tuple[int, ...], transform: Transform, **options: Any
    ) -> TransformedTable:
        """Return the array, its vectors transformed with the factors of their positions.

        Args:
            factors: a row for each position.
            lengths: how many positions there are, (S,) or (B, S).
            transform: the function of a vector and its factors.
            options: further fields of the table.
        """
        channel, along = self.axes.index("channel"), self.along(lengths)
        return TransformedTable(self, factors, transform, channel=channel, along=along, **options)


class TransformFamily(Family):
    """A transformation of all arrays in a body, each of them vectors."""

    axes: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(_VECTOR_NAMES.parse),
        _VECTOR_NAMES.schema,
        _VECTOR_NAMES.field,
    ] = None

    def apply(self, x: Vectors) -> tuple[Table, Mapping[str, ParameterValue]]:
        """Return the transformed array and the canonical parameters of the transformation.

        Raises InvalidParameters or InvalidBody if the array does not fit the parameters.
        """
        raise NotImplementedError

    def vectors(self, name: str, array: StoredTable) -> Vectors:
        """Return an array with the names of its axes; raises InvalidParameters or InvalidBody."""
        if array.dtype is INT64:
            rule = f"elements of {shortened(name)} are integers or booleans: send floating-point"
            raise InvalidBody(f"{rule} numbers, and positions under the name positions")
        if array.dtype in COMPLEX_DTYPES:
            raise InvalidBody("elements are complex numbers: send floating-point numbers")
        if len(array.shape) < 2:
            raise InvalidBody("it has 1 axis, and needs at least 2: positions, then channels, last")
        axes = _VECTOR_NAMES.of(self.axes, len(array.shape), name)
        return Vectors(array.elements, array.dtype, axes)

    def resolve(self, arrays: Mapping[str, StoredTable]) -> Document:
        """Return the document of all transformed arrays.

        Its parameters are those with the same value for all arrays. Raises InvalidBody, with the
        name of the array, if one cannot be transformed.
        """
        results = {}
        for name, array in arrays.items():
            try:
                vectors = self.vectors(name, array)
                table, parameters = self.apply(vectors)
            except InvalidBody as error:
                # That of positions is not the array's.
                if any(fault.where for fault in error.faults):
                    raise
                where = shortened(name)
                raise InvalidBody(f"{where}: {error.detail}", f"/{where}") from error
            results[name] = table, {**parameters, "axes": ",".join(vectors.axes)}
        first, *others = [parameters for _, parameters in results.values()]
        common = {
            name: value
            for name, value in first.items()
            if all(name in other and other[name] == value for other in others)
        }
        tables = {name: table for name, (table, _) in results.items()}
        return Document(self.kind(), common, tables, layout=channel_order(common))
