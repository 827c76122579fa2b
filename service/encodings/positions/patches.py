"""Grids of patches as parameters, and the base of the conventions that number them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from service.encodings.family import about, impossible
from service.encodings.positions.convention import Convention, NamedTables
from service.encodings.positions.pieces import Piece, PiecesTable, Row, joined
from service.encodings.positions.segments import Grid, Size
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import StoredTable

_MAX_GRIDS = 2**12
_SOME = {"minItems": 1}


def _bounded(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MAX_GRIDS:
        raise ValueError(f"must be a list of 1 to {_MAX_GRIDS} lists, in a JSON body")
    return value


Grids = Annotated[
    tuple[Grid, ...],
    BeforeValidator(_bounded),
    about("The grid t,h,w of each image or video.", [[1, 4, 6]], json_schema_extra=_SOME),
]
Sizes = Annotated[
    tuple[Size, ...],
    BeforeValidator(_bounded),
    about("The size h,w of each image.", [[3, 5]], json_schema_extra=_SOME),
]
TextLength = Annotated[Integer, about("Tokens of text.", 2, ge=0, le=MAX_LENGTH)]


class PatchConvention(Convention):
    """Base of the conventions of grids: all tokens in one row, (axes, tokens)."""

    unlisted: ClassVar[frozenset[str]] = frozenset({"grids", "sizes"})
    axis_names: ClassVar[str] = "t,h,w"

    def pieces(self) -> Iterable[Piece]:
        """Yield the tokens, where position_ids is the only array."""
        raise NotImplementedError

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:  # noqa: ARG002
        name = "sizes" if "sizes" in type(self).model_fields else "grids"
        return NamedTables(
            {"position_ids": self.flat(self.pieces(), name)}, {"axes": self.axis_names}
        )

    def row_of(self, pieces: Iterable[Piece], name: str) -> Row:
        """Return all pieces in a row; raises InvalidParameters if they are too many tokens.

        Args:
            pieces: the tokens.
            name: the parameter that has the grids.
        """
        row = Row(joined(pieces))
        if not 1 <= row.count <= MAX_LENGTH:
            raise impossible(name, None, f"{name} has {row.count} tokens: 1 to 2^62 are possible")
        return row

    def flat(self, pieces: Iterable[Piece], name: str) -> PiecesTable:
        """Return the ids of pieces on all of their axes, (axes, tokens)."""
        row = self.row_of(pieces, name)
        return PiecesTable([row], len(row.pieces[0].axes), is_batch=False)

    def single(self, name: str) -> Any:
        """Return the only grid or size; raises InvalidParameters if there are several."""
        lists = getattr(self, name)
        if len(lists) > 1:
            rule = f"{name} must have one item with convention={self.name}"
            raise impossible(name, None, rule)
        return lists[0]


def refused(name: str, number: int, values: Sequence[int], rule: str) -> InvalidBody:
    """Return the error of one grid or size, with a pointer to it."""
    return InvalidBody(f"{list(values)}: {rule}", f"/{name}/{number}")
