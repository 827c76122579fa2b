"""Print the SHA-256 of many tables as JSON; needs NumPy, pydantic and service.encodings alone.

    python tests/data/hash_tables.py > hashes.json && mv hashes.json tests/data/table_hashes.json

``table_hashes.json`` is its own list of requests: for the path of each family the revision of its
bytes, and hashes by request and name of the array. A request is a query, in which ``{scattered}``
and ``{fractional}`` are the positions below and lists of lists are JSON, then the arrays that are
sent: ``name=[...]`` in JSON, or ``name=sample:dtype:shape``. To hash another table, add its request
with any hash; of a family that has no requests yet the example is hashed.

A hash that changes needs a new ``revision_of_bytes`` of its family first.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

# A script knows only the folder that it is in.
sys.path.append(str(Path(__file__).parents[2]))

from service.encodings.family import ComposedFamily
from service.encodings.registry import FAMILIES
from service.numerics.dtypes import FLOAT64, INT64, REAL_DTYPES, DType, round_into
from service.numerics.tables import StoredTable, Table, size

HASHES = Path(__file__).with_name("table_hashes.json")

_WEYL_STEP = 0x9E3779B97F4A7C15
_SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -6e4, 3e38, 5e-324, 1e-40)
_SCATTERED = [(_WEYL_STEP * index % 2**64) // 2 - 2**62 for index in range(1, 301)]
_FRACTIONAL = [
    *(0.0, 0.5, -17.25, 1e-30, 2.0**62, 3.0, -4.0),
    *(
        _WEYL_STEP * index % 2**64 / 2**64 * 2.0 ** (7 * (index % 16) - 53)
        for index in range(1, 49)
    ),
]
_LISTS = {
    "scattered": ",".join(map(str, _SCATTERED)),
    "fractional": ",".join(map(repr, _FRACTIONAL)),
}


def main() -> None:
    """Print the hashes, or fail if NumPy uses a SIMD extension that is disabled."""
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    simd: dict[str, Any] = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[assignment]
    if ignored := set(disabled).intersection(simd.get("found", ())):
        sys.exit(f"NumPy still uses {', '.join(sorted(ignored))}")
    known = json.loads(HASHES.read_text())
    hashes = {
        family.path: {
            "revision": family.revision_of_bytes,
            "hashes": {
                request: {name: _hash(table) for name, table in _tables(family, request).items()}
                for request in known.get(family.path, {"hashes": [family.example]})["hashes"]
            },
        }
        for family in FAMILIES.values()
    }
    sys.stdout.write(json.dumps(hashes, indent=1) + "\n")


def _tables(family: Any, request: str) -> dict[str, Table]:
    query, *arrays = request.format(**_LISTS).split(" ")
    pairs = [pair.split("=", 1) for pair in query.split("&") if pair]
    values = {name: json.loads(text) if text[:2] == "[[" else text for name, text in pairs}
    parameters = family.model_validate(values)
    sent = {name: _array(text) for name, text in (array.split("=", 1) for array in arrays)}
    is_composed = issubclass(family, ComposedFamily)
    document = parameters.resolve(sent) if sent or is_composed else parameters.resolve()
    return dict(document.arrays)


def _hash(table: Table) -> str:
    return hashlib.sha256(table.read(0, size(table)).tobytes()).hexdigest()


def _array(text: str) -> StoredTable:
    if text.startswith("["):
        elements = np.array(json.loads(text))
        return StoredTable(elements, INT64 if elements.dtype == np.int64 else FLOAT64)
    sample, dtype, lengths = text.split(":")
    shape = tuple(map(int, lengths.split(",")))
    if sample == "noise":
        return StoredTable((_weyl(shape) >> np.uint64(63)).astype(np.int64), INT64)
    values = _SAMPLES[sample](shape)
    return _rounded(values, REAL_DTYPES[dtype])


def _rounded(values: Any, dtype: DType) -> StoredTable:
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values, elements, dtype)
    return StoredTable(elements, dtype)


def _weyl(shape: tuple[int, ...]) -> Any:
    """Return integers of 64 bits that look random and are the same on every machine."""
    numbers = np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(_WEYL_STEP)
    return numbers.reshape(shape)


def _random(shape: tuple[int, ...]) -> Any:
    """Return numbers within ±2^11."""
    return (_weyl(shape).view(np.int64) >> np.int64(11)).astype(np.float64) * 2.0**-41


def _special(shape: tuple[int, ...]) -> Any:
    """Return rows in which every special value meets every other."""
    row, column = np.indices(shape)
    return np.array(_SPECIAL)[(column + row * (column // 2)) % len(_SPECIAL)]


def _fractional(shape: tuple[int, ...]) -> Any:
    return np.array(_FRACTIONAL[: np.prod(shape)]).reshape(shape)


_SAMPLES = {"random": _random, "special": _special, "fractional": _fractional}


if __name__ == "__main__":
    main()
