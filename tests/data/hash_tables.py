"""Prints the SHA-256 of many tables as JSON; needs NumPy and service.tables, nothing else.

    python tests/data/hash_tables.py > tests/data/table_hashes.json

A hash that moves needs a new TABLE_REVISION of its kind first: the revision is in its name.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from service import TABLE_REVISION
from service.tables import relative, rotary, sinusoidal
from service.tables.axial import AxialTurns, placed
from service.tables.bands import Measured, Periods, PixelBands
from service.tables.conventions import recipe
from service.tables.coordinates import centred, counted, pixels, spread
from service.tables.dtypes import FLOAT32, FLOAT64, INDEX_DTYPES, REAL_DTYPES, DType, round_into
from service.tables.frequencies import FrequencyRule, Geometric
from service.tables.grid import GridAxis, Tokens
from service.tables.mrope import AXES, MultimodalTurns
from service.tables.packs import PACKS
from service.tables.permutation import HeadOrder, permutation
from service.tables.positions import Positions, Run
from service.tables.rope_rules import (
    Default,
    Dynamic,
    DynamicAlpha,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Yarn,
)
from service.tables.rotary_rule import Given, RotaryRule
from service.tables.rotation import Rotation
from service.tables.table import StoredTable, Table, size
from service.tables.turns import AlongSequence, Turns
from service.tables.xpos import XPos

_ABSOLUTE_LAYOUTS = ("interleaved", "concatenated")
_WEYL_STEP = 0x9E3779B97F4A7C15
_SCATTERED_COUNT = 300

_SEQUENCE = Positions.contiguous(0, 500)
_ROTARY = Default(64, 10000.0)


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
    yield from _ruled_tables()
    yield from _other_turns()
    yield from _axial_tables()
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
                    recipe=recipe("vaswani", d_model, {"base": base, "layout": layout}),
                    positions=positions,
                    batch=False,
                    dtype=dtype,
                )
                yield from _named("encoding", f"{name}, {layout}", document.arrays)
    document = sinusoidal.frequencies(recipe=recipe("vaswani", 512, {"base": 10000.0}))
    yield from _named("encoding-frequencies", "512 channels", document.arrays)


def _rotary_tables() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        for pack in PACKS:
            turns = AlongSequence(_ROTARY, _SEQUENCE)
            document = rotary.rope(turns=turns, pack=pack, dtype=dtype)
            yield from _named("rope", pack, document.arrays)
    plain: dict[str, RotaryRule] = {"theta 5e5": Default(128, 5e5), "inv_freq": _given()}
    for name, rule in plain.items():
        document = rotary.rope(turns=AlongSequence(rule, _scattered()), pack="half", dtype=FLOAT32)
        yield from _named("rope", f"half, {name}, scattered", document.arrays)


def _rules() -> dict[str, RotaryRule]:
    factors = tuple(1 + index / 8 for index in range(32))
    return {
        "freq_factors": Default(64, 10000.0, factors),
        "linear": Linear(64, 10000.0, 2.5),
        "dynamic": Dynamic(64, 10000.0, 2.0, 2048, 5000),
        "alpha": DynamicAlpha(64, 10000.0, 1000.0),
        "ntk": Ntk(64, 10000.0, 8.0),
        "ntk mixed": Ntk(64, 10000.0, 8.0, 0.625),
        "yarn": Yarn(64, 150000.0, 32.0, 4096, 1.3465735902799727, truncate=False),
        "longrope": LongRope(64, 10000.0, 4096, 5000, 1.19, factors, factors[::-1]),
        "llama3": Llama3(64, 500000.0, 8.0, 1.0, 4.0, 8192),
        "proportional": Proportional(64, 1e6, 0.25),
    }


def _ruled_tables() -> Iterator[tuple[str, Table]]:
    for name, rule in _rules().items():
        yield from _named("rope-frequencies", name, rotary.frequencies(rule).arrays)
        for turns in (AlongSequence(rule, _SEQUENCE), AlongSequence(rule, _scattered(), "float32")):
            document = rotary.rope(turns=turns, pack="concat", dtype=FLOAT64)
            yield from _named("rope", f"concat, {name}, {turns.rounding}", document.arrays)


def _other_turns() -> Iterator[tuple[str, Table]]:
    grid = Tokens.of_grid((4, 5, 6), AXES)
    lists = Tokens.of_lists(dict.fromkeys(AXES, _scattered()))
    every: dict[str, Turns] = {
        "chunked": MultimodalTurns(_ROTARY, (8, 12, 12), False, grid),
        "interleaved": MultimodalTurns(_ROTARY, (12, 10, 10), True, lists),
        "interleaved float32": MultimodalTurns(_ROTARY, (12, 10, 10), True, lists, "float32"),
        "xpos": AlongSequence(_ROTARY, _SEQUENCE, "exact", XPos(64, 512.0, 250, inverse=False)),
        "xpos key": AlongSequence(_ROTARY, _SEQUENCE, "exact", XPos(64, 512.0, 250, inverse=True)),
    }
    for name, turns in every.items():
        for pack in ("compact", "angle"):
            document = rotary.rope(turns=turns, pack=pack, dtype=FLOAT64)
            yield from _named("rope", f"{pack}, {name}", document.arrays)


def _axial_tables() -> Iterator[tuple[str, Table]]:
    coordinates = {
        "counted": counted(5, Fraction(1, 2), Fraction(16)),
        "spread": spread(5, Fraction(2), Fraction(45)),
        "pixels": pixels(5, Fraction(0)),
        "centred": centred(5, Fraction(0), 5),
    }
    series: dict[str, FrequencyRule] = {
        "geometric": Geometric(10000.0, 32, 16),
        "periods": Periods(0.5, 20.0, 15, 16),
        "pixels": PixelBands(224.0, 16, is_linear=False),
        "linear pixels": PixelBands(224.0, 16, is_linear=True),
    }
    for place, along in coordinates.items():
        unit = along.unit
        positions = GridAxis(int(along.first / unit), int(along.step / unit), 5, 3)
        for name, rule in series.items():
            axes = placed([Measured(rule, unit)] * 2, [positions] * 2, "alternating")
            turns = AxialTurns(axes, 15, {})
            for pack in ("flat", "angle"):
                document = rotary.rope(turns=turns, pack=pack, dtype=FLOAT64, kind="rope-axial")
                yield from _named("rope-axial", f"{pack}, {place}, {name}", document.arrays)
    for dtype in INDEX_DTYPES.values():
        order = HeadOrder(80, 32, 8, "half", "interleaved")
        document = permutation(order=order, query_heads=5, key_heads=3, dtype=dtype)
        yield from _named("rope-permutation", "5 and 3 heads", document.arrays)


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
                turns = AlongSequence(_ROTARY, Positions.contiguous(10**9, 100))
                rotation = Rotation(turns, layout, inverse)
                name = f"{layout}, inverse {inverse}"
                rotated = {"x": rotation.of(x), "special values": rotation.of(special)}
                yield from _named("rope-apply", name, rotated)
        mixed = Rotation(turns, "interleaved", inverse=False, output_layout="half", rotary_offset=6)
        yield from _named("rope-apply", "interleaved to half", {"x": mixed.of(x)})
        for layout in _ABSOLUTE_LAYOUTS:
            for scale_embeddings in (False, True):
                addition = sinusoidal.Sum(
                    recipe=recipe("vaswani", 70, {"base": 10000.0, "layout": layout}),
                    positions=Positions.contiguous(-50, 100),
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
