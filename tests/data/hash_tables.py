"""Prints the SHA-256 of many tables as JSON; needs NumPy and service.tables, nothing else.

    python tests/data/hash_tables.py > tests/data/table_hashes.json

A hash that moves needs a new TABLE_REVISION of its kind first: the revision is in its name.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from service import TABLE_REVISION
from service.tables import relative, rotary, sinusoidal
from service.tables.dtypes import FLOAT32, REAL_DTYPES, DType, round_into
from service.tables.positions import Positions, Run
from service.tables.scaling import Geometric, Given
from service.tables.table import StoredTable, Table, size

_ABSOLUTE_LAYOUTS = ("interleaved", "concatenated")
_WEYL_STEP = 0x9E3779B97F4A7C15
_SCATTERED_COUNT = 300

_ROTARY = Geometric(base=10000.0, dim=64, count=32)
_SEQUENCE = Positions.contiguous(0, 500)


def main() -> None:
    """Print the hashes, or fail if NumPy uses what it was told not to."""
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    found: dict[str, Any] = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[assignment]
    if ignored := set(disabled).intersection(found.get("found", ())):
        sys.exit(f"NumPy still uses {', '.join(sorted(ignored))}")
    hashes = {name: _hash(table) for name, table in _tables()}
    sys.stdout.write(json.dumps(hashes, indent=1) + "\n")


def _hash(table: Table) -> str:
    return hashlib.sha256(table.read(0, size(table)).tobytes()).hexdigest()


def _tables() -> Iterator[tuple[str, Table]]:
    yield from _encodings()
    yield from _rotary_tables()
    yield from _relative_tables()
    yield from _transformed()


def _named(kind: str, name: str, arrays: Mapping[str, Table]) -> Iterator[tuple[str, Table]]:
    for part, table in arrays.items():
        yield f"{kind} revision {TABLE_REVISION[kind]}: {name}, {table.dtype.name} {part}", table


def _encodings() -> Iterator[tuple[str, Table]]:
    sequences = {
        "512 channels": (512, 10000.0, Positions.contiguous(0, 600)),
        "4 channels, base 100": (4, 100.0, Positions.contiguous(0, 4)),
        "77 channels": (77, 10000.0, _SEQUENCE),
        "1 channel": (1, 10000.0, _SEQUENCE),
        "from 2^61": (256, 10000.0, Positions.contiguous(2**61, 300)),
        "up to 2^62": (64, 500000.0, Positions.contiguous(2**62 - 299, 300)),
        "across 0": (256, 10000.0, Positions.contiguous(-200, 400)),
        "from -2^62": (33, 1.0, Positions.contiguous(-(2**62), 100)),
        "every -7th": (256, 10000.0, Positions.of_runs([Run(10**12, -7, 400)])),
        "scattered": (130, 10000.0, _scattered()),
    }
    for name, (d_model, base, positions) in sequences.items():
        for layout in _ABSOLUTE_LAYOUTS:
            for dtype in REAL_DTYPES.values():
                document = sinusoidal.encoding(
                    d_model=d_model,
                    base=base,
                    positions=positions,
                    layout=layout,
                    batch=False,
                    dtype=dtype,
                )
                yield from _named("encoding", f"{name}, {layout}", document.arrays)
    document = sinusoidal.frequencies(d_model=512, base=10000.0)
    yield from _named("encoding-frequencies", "512 channels", document.arrays)


def _rotary_tables() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        for pack in rotary.PACKS:
            document = rotary.rope(rule=_ROTARY, positions=_SEQUENCE, pack=pack, dtype=dtype)
            yield from _named("rope", pack, document.arrays)
    rules: dict[str, Geometric | Given] = {
        "theta 5e5": Geometric(base=5e5, dim=128, count=64),
        "inv_freq": _given(),
    }
    for name, rule in rules.items():
        document = rotary.rope(rule=rule, positions=_scattered(), pack="half", dtype=FLOAT32)
        yield from _named("rope", f"half, {name}, scattered", document.arrays)


def _relative_tables() -> Iterator[tuple[str, Table]]:
    offsets = Positions.of_runs([Run(-5, 1, 11), Run(2**61, 1, 3), Run(-(10**15), 0, 1)])
    for dtype in REAL_DTYPES.values():
        for layout in _ABSOLUTE_LAYOUTS:
            document = relative.operator(
                d_model=46,
                base=10000.0,
                offsets=offsets,
                stacked=True,
                layout=layout,
                dtype=dtype,
            )
            yield from _named("relative", f"46 channels, {layout}", document.arrays)
        for d_model in (512, 94):
            document = relative.similarity(
                d_model=d_model, base=10000.0, offsets=_scattered(), dtype=dtype
            )
            yield from _named("relative-similarity", f"{d_model} channels", document.arrays)


def _transformed() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        x, special = _pseudo_random((2, 3, 100, 70), dtype), _special((100, 70), dtype)
        for layout in ("interleaved", "half"):
            for inverse in (False, True):
                rotation = rotary.Rotation(
                    rule=_ROTARY,
                    positions=Positions.contiguous(10**9, 100),
                    layout=layout,
                    inverse=inverse,
                )
                name = f"{layout}, inverse {inverse}"
                rotated = {"x": rotation.of(x), "special values": rotation.of(special)}
                yield from _named("rope-apply", name, rotated)
        for layout in _ABSOLUTE_LAYOUTS:
            for scale_embeddings in (False, True):
                addition = sinusoidal.Sum(
                    d_model=70,
                    base=10000.0,
                    positions=Positions.contiguous(-50, 100),
                    layout=layout,
                    scale_embeddings=scale_embeddings,
                )
                name = f"{layout}, scaled {scale_embeddings}"
                total = {"x": addition.of(x), "special values": addition.of(special)}
                yield from _named("encoding-apply", name, total)


def _scattered() -> Positions:
    numbers = (_WEYL_STEP * index % 2**64 for index in range(1, _SCATTERED_COUNT + 1))
    return Positions.of_runs(Run(number // 2 - 2**62, 1, 1) for number in numbers)


def _given() -> Given:
    return Given(tuple((_WEYL_STEP * index % 2**53) * 2.0**-53 for index in range(1, 49)))


def _special(shape: tuple[int, ...], dtype: DType) -> StoredTable:
    """Make rows in which every value that is not like others meets every other."""
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -6e4, 3e38, 5e-324, 1e-40])
    row, column = np.indices(shape)
    elements = np.empty(shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values[(column + row * (column // 2)) % len(values)], elements, dtype)
    return StoredTable(elements, dtype)


def _pseudo_random(shape: tuple[int, ...], dtype: DType) -> StoredTable:
    """Make numbers within ±2^11 by integer arithmetic, the same on every machine."""
    numbers = np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(_WEYL_STEP)
    values = (numbers.view(np.int64) >> np.int64(11)).astype(np.float64) * 2.0**-41
    elements = np.empty(shape, dtype=dtype.storage)
    round_into(values.reshape(shape), elements, dtype)
    return StoredTable(elements, dtype)


if __name__ == "__main__":
    main()
