"""Parameters of tables over queries and keys, and of the heads they are for."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidParameters
from service.grammar import Integer, spelled
from service.routes.parameters import PositionList, contiguous, impossible
from service.tables.angle import MAX_POSITION
from service.tables.positions import Positions
from service.tables.query_key import QueryKey

_OF_DECODERS = " or queries are 0, 1, …: a decoder asks for key_len=query_start+query_len"


class QueryKeyParameters(Parameters):
    """Which queries and which keys: so many from a start on, or exactly these."""

    query_len: Integer | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Number of queries; required unless query_positions is given.",
        examples=[4],
    )
    query_start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="Position of the first query; 0 unless given. A decoder that has cached n keys "
        "asks for query_start=n, query_len=1 and key_len=n+1.",
        examples=[0],
    )
    query_positions: PositionList | None = Field(
        default=None,
        description="Position of each query, in place of query_len and query_start.",
        examples=["7"],
    )
    key_len: Integer | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Number of keys; as many as queries unless given, where those start at 0.",
        examples=[6],
    )
    key_start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="Position of the first key; 0 unless given.",
        examples=[0],
    )
    key_positions: PositionList | None = Field(
        default=None,
        description="Position of each key, in place of key_len and key_start.",
        examples=["0:6"],
    )

    def pairs(self) -> QueryKey:
        """Give queries and keys; raises InvalidParameters unless each is said in just one way."""
        queries = self._along("query", None)
        # Queries from elsewhere than 0 on are those of a decoder, which has more keys than them.
        is_square = queries == Positions.contiguous(0, queries.count)
        pairs = QueryKey(queries, self._along("key", queries.count if is_square else None))
        if pairs.farthest > MAX_POSITION:
            raise self.too_far("query", "key")
        return pairs

    def too_far(self, *axes: str) -> InvalidParameters:
        """Make the error of places along axes that are too far from each other."""
        said = ("start", "positions", "len")
        names = [f"{axis}_{what}" for axis in axes for what in said]
        name = next(name for name in names if getattr(self, name) is not None)
        rule = "queries and keys must lie within 2^62 of each other"
        return impossible(name, getattr(self, name), rule)

    def _along(self, axis: str, default_len: int | None) -> Positions:
        length, start = getattr(self, f"{axis}_len"), getattr(self, f"{axis}_start")
        listed: Positions | None = getattr(self, f"{axis}_positions")
        if listed is None:
            length = length or default_len
            if length is None:
                rule = f"{axis}_len is required, unless {axis}_positions is given"
                rule += _OF_DECODERS if axis == "key" else ""
                raise impossible(f"{axis}_len", None, rule)
            return contiguous(start or 0, length, name=f"{axis}_start")
        beside = {f"{axis}_len": length, f"{axis}_start": start}
        faults = [
            Fault(name, spelled(value), f"{name} does not go with {axis}_positions")
            for name, value in beside.items()
            if value is not None
        ]
        if faults:
            raise InvalidParameters(*faults)
        return listed


class HeadParameters(Parameters):
    """Which heads are wanted."""

    head: Integer | None = Field(
        default=None,
        ge=0,
        description="One head alone, counted from 0: shape (query, key). All unless given.",
        examples=[0],
    )

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the heads."""
        return {"head": "add head=0"}

    def checked_head(self, heads: int) -> int | None:
        """Give the head that is wanted alone; raises InvalidParameters where there is none."""
        if self.head is not None and self.head >= heads:
            raise impossible("head", self.head, f"head must be less than the {heads} there are")
        return self.head


def causal_field() -> bool:
    """Make the field of biases that later keys do not have."""
    field: bool = Field(
        default=True,
        description="Whether keys after the query have the bias 0 of distance 0; they are not "
        "masked. Otherwise they have the bias of |d|.",
        examples=[False],
    )
    return field
