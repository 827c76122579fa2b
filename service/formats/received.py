"""Arrays as they are received: shapes that can be trusted, integers of every type as one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.errors import InvalidBody, shortened
from service.tables.dtypes import INT64, Elements
from service.tables.table import StoredTable

MAX_RANK = 8
_MAX_LENGTH = 2**63 - 1

MAX_INTEGERS = 2**23

INTEGER_STORAGES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")
"""How integers and truth values may be stored."""


@dataclass(frozen=True)
class Input:
    """What a request body holds.

    Attributes:
        arrays: arrays by name, of real types, of complex ones, or of int64.
        parameters: what stands beside them, by name; only JSON has any.
        is_named: whether the names are the sender's: a format for one array has none.
        integer_types: the names of the types that integers were sent in, by array.
        is_text: whether its numbers were text: that has no type, and they are float64 here.
    """

    arrays: Mapping[str, StoredTable]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = True
    integer_types: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False


def check_shape(name: str, shape: tuple[object, ...]) -> None:
    """Refuse the shape of an array sent here unless it has axes and elements.

    Whatever passes is as many elements as its product says, which may still be more than came.
    """
    if not 1 <= len(shape) <= MAX_RANK:
        raise InvalidBody(f"{shortened(name)} has {len(shape)} axes: 1 to {MAX_RANK} are possible")
    if any(isinstance(length, int) and length > _MAX_LENGTH for length in shape):
        raise InvalidBody(f"{shortened(name)} has an axis longer than 2^63 - 1")
    if not all(type(length) is int and length > 0 for length in shape):
        lengths = shortened(", ".join(map(str, shape)))
        raise InvalidBody(f"{shortened(name)} has no elements: its shape is ({lengths})")


def integers(name: str, elements: Elements) -> StoredTable:
    """Hold elements of any of INTEGER_STORAGES as int64, no more than fit into 64 MiB."""
    if elements.size > MAX_INTEGERS:
        raise InvalidBody(
            f"{shortened(name)} has {elements.size} integers: at most {MAX_INTEGERS} are possible"
        )
    if elements.dtype.str == "<u8" and (elements > np.uint64(2**63 - 1)).any():
        raise InvalidBody(f"{shortened(name)} holds integers beyond 2^63 - 1")
    return StoredTable(elements.astype(np.int64), INT64)
