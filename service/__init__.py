"""The reference server for positional encodings."""

from collections.abc import Mapping
from types import MappingProxyType

__version__ = "0.1.0"

TABLE_REVISION: Mapping[str, int] = MappingProxyType(
    {
        "encoding": 1,
        "encoding-frequencies": 1,
        "encoding-apply": 1,
        "rope": 1,
        "rope-frequencies": 1,
        "rope-axial": 1,
        "rope-permutation": 1,
        "rope-apply": 1,
        "relative": 1,
        "relative-similarity": 1,
    }
)
"""The revision of each kind of table: it moves when, and only when, any byte of that kind does."""
