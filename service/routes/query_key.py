"""Parameters of every table over queries and keys."""

from pydantic import Field

from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidParameters
from service.grammar import Integer, spelled
from service.routes.parameters import PositionList, contiguous, impossible
from service.tables.angle import MAX_POSITION
from service.tables.positions import Positions
from service.tables.query_key import QueryKey


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
        "asks for query_start=n-1 and query_len=1.",
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
        description="Number of keys; as many as queries unless given.",
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
        pairs = QueryKey(queries, self._along("key", queries.count))
        if pairs.farthest > MAX_POSITION:
            rule = "queries and keys must lie within 2^62 of each other"
            raise impossible("query_start", self.query_start, rule)
        return pairs

    def _along(self, axis: str, default_len: int | None) -> Positions:
        length, start = getattr(self, f"{axis}_len"), getattr(self, f"{axis}_start")
        listed: Positions | None = getattr(self, f"{axis}_positions")
        if listed is None:
            length = length or default_len
            if length is None:
                rule = f"{axis}_len is required, unless {axis}_positions is given"
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
