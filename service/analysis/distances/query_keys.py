"""Where queries and keys are, as parameters of a table over them."""

from collections.abc import Sequence

import numpy as np

from service.tables.angle import Int64s
from service.tables.document import ParameterValue
from service.tables.positions import Positions


def query_key_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Spell queries and keys, moved together so that the first of all is at 0.

    Args:
        queries: the position of each, from wherever.
        keys: the position of each, from the same place.
    """
    origin = min(int(queries.min()), int(keys.min()))
    return positions_parameters(queries - origin, keys - origin)


def positions_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Spell queries and keys where they are."""
    spelled = {**_along("query", queries), **_along("key", keys)}
    if np.array_equal(queries, keys) and spelled.keys() == {"query_len", "key_len"}:
        del spelled["key_len"]
    return spelled


def contiguous(nearest: int, queries: int, keys: int) -> tuple[Int64s, Int64s]:
    """Give queries and keys that follow one another.

    Args:
        nearest: how far the first key is after the first query.
        queries: how many there are.
        keys: how many there are.
    """
    return np.arange(queries, dtype=np.int64), np.arange(nearest, nearest + keys, dtype=np.int64)


def _along(axis: str, places: Int64s) -> dict[str, ParameterValue]:
    positions = Positions.of_runs(_integers(places))
    if not positions.is_contiguous:
        return {f"{axis}_positions": str(positions)}
    start = positions.runs[0].first
    begun: dict[str, ParameterValue] = {f"{axis}_start": start} if start else {}
    return {**begun, f"{axis}_len": positions.count}


def _integers(places: Int64s) -> Sequence[int]:
    listed: list[int] = places.tolist()
    return listed
