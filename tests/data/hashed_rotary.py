"""Rotary tables that are hashed."""

from collections.abc import Iterator
from fractions import Fraction

from service.encodings.grid.grids import GridAxis, Tokens, centred, counted, pixels, spread
from service.encodings.rotary.angles import AXES, MropeAngles, RotaryAngles, SequenceAngles, XPos
from service.encodings.rotary.axial import AxialAngles, arranged_axes
from service.encodings.rotary.packs import PACKS, packed
from service.encodings.rotary.rope import HeadOrder, PermutationTable, RopeFrequencies
from service.encodings.rotary.rules import (
    Default,
    Dynamic,
    DynamicAlpha,
    GivenFrequencies,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    RotaryFrequencies,
    Yarn,
)
from service.numerics.dtypes import FLOAT32, FLOAT64, INDEX_DTYPES, REAL_DTYPES
from service.numerics.frequencies import (
    FrequencyRule,
    Geometric,
    PeriodFrequencies,
    PixelBands,
    ScaledFrequencies,
)
from service.numerics.tables import Table
from tests.data.hashed_samples import SEQUENCE, WEYL_STEP, named, scattered

ROTARY = Default(64, 10000.0)


def tables() -> Iterator[tuple[str, Table]]:
    """Give every rotary table."""
    yield from _rotary_tables()
    yield from _ruled_tables()
    yield from _other_turns()
    yield from _axial_tables()


def _rotary_tables() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        for pack in PACKS:
            turns = SequenceAngles(ROTARY, SEQUENCE)
            document = packed(angles=turns, pack=pack, dtype=dtype)
            yield from named("rope", pack, document.arrays)
    turns = SequenceAngles(ROTARY, SEQUENCE)
    document = packed(angles=turns, pack="complex", dtype=FLOAT32)
    yield from named("rope", "complex, 500 positions", document.arrays)
    plain: dict[str, RotaryFrequencies] = {"theta 5e5": Default(128, 5e5), "inv_freq": _given()}
    for name, rule in plain.items():
        document = packed(angles=SequenceAngles(rule, scattered()), pack="half", dtype=FLOAT32)
        yield from named("rope", f"half, {name}, scattered", document.arrays)


def _rules() -> dict[str, RotaryFrequencies]:
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
        yield from named("rope-frequencies", name, RopeFrequencies.of(rule).arrays)
        for turns in (SequenceAngles(rule, SEQUENCE), SequenceAngles(rule, scattered(), "float32")):
            document = packed(angles=turns, pack="concat", dtype=FLOAT64)
            yield from named("rope", f"concat, {name}, {turns.rounding}", document.arrays)


def _other_turns() -> Iterator[tuple[str, Table]]:
    grid = Tokens.of_grid((4, 5, 6), AXES)
    lists = Tokens.of_lists(dict.fromkeys(AXES, scattered()))
    every: dict[str, RotaryAngles] = {
        "chunked": MropeAngles(ROTARY, (8, 12, 12), False, grid),
        "interleaved": MropeAngles(ROTARY, (12, 10, 10), True, lists),
        "interleaved float32": MropeAngles(ROTARY, (12, 10, 10), True, lists, "float32"),
        "xpos": SequenceAngles(ROTARY, SEQUENCE, "exact", XPos(64, 512.0, 250, inverse=False)),
        "xpos key": SequenceAngles(ROTARY, SEQUENCE, "exact", XPos(64, 512.0, 250, inverse=True)),
    }
    for name, turns in every.items():
        for pack in ("compact", "angle"):
            document = packed(angles=turns, pack=pack, dtype=FLOAT64)
            yield from named("rope", f"{pack}, {name}", document.arrays)


def _axial_tables() -> Iterator[tuple[str, Table]]:
    coordinates = {
        "counted": counted(5, Fraction(1, 2), Fraction(16)),
        "spread": spread(5, Fraction(2), Fraction(45)),
        "pixels": pixels(5, Fraction(0)),
        "centred": centred(5, Fraction(0), 5),
    }
    series: dict[str, FrequencyRule] = {
        "geometric": Geometric(10000.0, 32, 16),
        "periods": PeriodFrequencies(0.5, 20.0, 15, 16),
        "pixels": PixelBands(224.0, 16, is_linear=False),
        "linear pixels": PixelBands(224.0, 16, is_linear=True),
    }
    for place, along in coordinates.items():
        unit = along.unit
        positions = GridAxis(int(along.first / unit), int(along.step / unit), 5, 3)
        for name, rule in series.items():
            rules = [ScaledFrequencies(rule, unit)] * 2
            axes = arranged_axes(rules, [positions] * 2, "alternating")
            angles = AxialAngles(axes, 15, {})
            for pack in ("flat", "angle"):
                document = packed(angles=angles, pack=pack, dtype=FLOAT64, kind="rope-axial")
                yield from named("rope-axial", f"{pack}, {place}, {name}", document.arrays)
    for dtype in INDEX_DTYPES.values():
        order = HeadOrder(80, 32, 8, "half", "interleaved")
        arrays = {name: PermutationTable(order, n, dtype) for name, n in (("q", 5), ("k", 3))}
        yield from named("rope-permutation", "5 and 3 heads", arrays)


def _given() -> GivenFrequencies:
    return GivenFrequencies(tuple((WEYL_STEP * index % 2**53) * 2.0**-53 for index in range(1, 49)))
