"""Rotary tables with one mistake each, made by NumPy, and the mistakes that should be named."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import log, pi
from typing import Any, TypeAlias

import numpy as np

from service.analysis.explanation.engine import Explanation
from service.analysis.precision import rounded
from service.numerics.dtypes import FLOAT32
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable
from tests.analysis.matrix.rules import Rule
from tests.analysis.turning import DTYPES, Arrays, explained, packed, turned

Values: TypeAlias = Mapping[str, Any]
Named: TypeAlias = Mapping[str, Values]
"""Values that each mistake should have, by its name."""

WIDTH, ROWS = 64, 96
ORIGINAL = "original_max_position_embeddings"
_PAIRS = np.arange(WIDTH // 2)
SHORT = tuple((1 + 0.02 * _PAIRS).round(2).tolist())
LONG = tuple((1 + 0.01 * _PAIRS**2).round(2).tolist())

RULES: Mapping[str, Rule] = {
    "none": Rule("none", 500000.0, WIDTH),
    "linear": Rule("linear", 500000.0, WIDTH, {"factor": 4.0}),
    "dynamic": Rule(
        "dynamic", 500000.0, WIDTH, {"factor": 2.0, ORIGINAL: 64, "context_length": 256}
    ),
    "ntk": Rule("ntk", 500000.0, WIDTH, {"factor": 4.0}),
    "yarn": Rule("yarn", 500000.0, WIDTH, {"factor": 8.0, ORIGINAL: 4096}),
    "llama3": Rule(
        "llama3",
        500000.0,
        WIDTH,
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192},
    ),
    "longrope": Rule(
        "longrope",
        500000.0,
        WIDTH,
        {
            "short_factor": SHORT,
            "long_factor": LONG,
            "factor": 4.0,
            ORIGINAL: 32,
            "context_length": 128,
        },
    ),
}
"""The expected rules."""


@dataclass(frozen=True, eq=False)
class Trip:
    """A table with a mistake, the URL of the expected one, and what should be named.

    Attributes:
        rule: the expected rule.
        named: the mistakes, with values that they should have.
        omega: the frequencies of cosines, and of sines unless ``sine`` is given; of rows below
            ``boundary`` they are ``below``.
        asked: query parameters besides the rule.
        wrap: changes cosines and sines before they are packed.
        wrap_arrays: changes the arrays.
        narrow: the part that is rounded to the type ``narrow_type``.
    """

    rule: Rule
    named: Named
    omega: Float64s
    sine: Float64s | None = None
    positions: Float64s = field(default_factory=lambda: np.arange(float(ROWS)))
    scale: float = 1.0
    pack: str = "half"
    dtype: str = "float32"
    asked: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[Float64s, Float64s], tuple[Float64s, Float64s]] | None = None
    wrap_arrays: Callable[[Arrays], Arrays] | None = None
    narrow: str = ""
    narrow_type: str = "bfloat16"
    below: Float64s | None = None
    boundary: int = 0

    @property
    def url(self) -> str:
        query = {"head_dim": str(WIDTH), "pack": "half", **self.rule.query(), **self.asked}
        return "/rope?" + "&".join(f"{name}={value}" for name, value in query.items())

    @property
    def cosines_and_sines(self) -> tuple[Float64s, Float64s]:
        omega, positions, narrow = self.omega, self.positions, DTYPES[self.narrow_type]
        is_all = self.narrow == "throughout"
        if self.narrow == "frequencies" or is_all:
            omega = rounded(omega, narrow)
        if self.narrow == "positions" or is_all:
            positions = rounded(positions, narrow)
        cosine, sine = turned(omega, positions, self.scale)
        if self.narrow == "angles" or is_all:
            angles = rounded(rounded(np.outer(positions, omega), FLOAT32), narrow)
            cosine, sine = self.scale * np.cos(angles), self.scale * np.sin(angles)
        if self.narrow == "tables":
            cosine, sine = rounded(cosine, narrow), rounded(sine, narrow)
        if self.sine is not None:
            sine = turned(self.sine, positions, self.scale)[1]
        if self.below is not None:
            early = turned(self.below, positions, self.scale)
            is_early = positions[:, None] < self.boundary
            cosine, sine = (
                np.where(is_early, each, other)
                for each, other in zip(early, (cosine, sine), strict=True)
            )
        return self.wrap(cosine, sine) if self.wrap else (cosine, sine)

    @property
    def arrays(self) -> Arrays:
        arrays = packed(*self.cosines_and_sines, self.pack, DTYPES[self.dtype])
        return self.wrap_arrays(arrays) if self.wrap_arrays else arrays

    @property
    def found(self) -> Explanation:
        return _found(self)


@cache
def _found(trip: Trip) -> Explanation:
    return explained(trip.arrays, trip.url)


def exponents(rule: Rule) -> Float64s:
    powers: Float64s = np.arange(0, rule.rotary, 2) / rule.rotary
    return powers


def omega_of(rule: Rule, powers: Float64s | None = None) -> Float64s:
    """Return the frequencies of a rule, of other exponents if they are given."""
    powers = exponents(rule) if powers is None else powers
    return np.asarray(rule.scaled(rule.base_used**-powers), dtype=np.float64)


def _of_rule(rule: Rule, made: Rule, named: Named, **changes: Any) -> Trip:
    """Return the table that another rule gives in place of the expected one."""
    return Trip(rule, named, omega_of(made), scale=made.attention(), **changes)


def _generic(rule: Rule) -> Iterator[tuple[str, Trip]]:
    """Yield the mistakes that any rule can have."""
    right = Trip(rule, {}, omega_of(rule), scale=rule.attention())
    steps = np.arange(float(ROWS))
    start = {"start": "64"}

    def changed(named: Named, **changes: Any) -> Trip:
        return replace(right, named=named, **changes)

    base = replace(rule, base=10000.0)
    yield "wrong-base", _of_rule(rule, base, {"wrong-base": {"have": 10000, "want": 500000}})
    yield "sine-sign", changed({"sine-sign": {}}, wrap=lambda cosine, sine: (cosine, -sine))
    for moved in (-3, 1, 40):
        values: Values = {"rows": moved, "have": moved, "want": 0}
        yield (
            f"position-offset {moved}",
            changed({"position-offset": values}, positions=steps + moved),
        )
    for how, rows in (("twice", 128.0), ("not at all", 0.0)):
        values = {"offset": 64, "how": how, "have": rows}
        yield (
            f"cache-offset {how}",
            changed({"cache-offset": values}, positions=steps + rows, asked=start),
        )
    yield "positions-reversed", changed({"positions-reversed": {}}, positions=steps[::-1])
    yield "not-rotated", changed({"not-rotated": {}}, positions=0 * steps)
    yield (
        "layout-swapped",
        changed({"layout-swapped": {"have": "interleaved", "want": "half"}}, pack="interleaved"),
    )
    yield (
        "halves-swapped",
        changed({"halves-swapped": {}}, wrap=lambda cosine, sine: (sine, cosine)),
    )
    yield "transposed", changed({"transposed": {}}, wrap_arrays=_transposed)
    yield (
        "truncated",
        changed(
            {"truncated": {"have": 48, "want": 64, "axis": "channels"}},
            wrap=lambda cosine, sine: (cosine[:, :24], sine[:, :24]),
        ),
    )
    yield (
        "longer",
        changed({"longer": {"have": ROWS, "want": 80, "axis": "rows"}}, asked={"seq_len": "80"}),
    )
    still = np.where(_PAIRS < 16, omega_of(rule), 0)
    yield "partial-width", changed({"partial-width": {"have": 32, "want": 64}}, omega=still)
    yield (
        "rotated-twice",
        changed({"rotated-twice": {}}, omega=2 * omega_of(rule)),
    )
    yield (
        "linear-factor",
        changed(
            {"linear-factor": {"factor": 3, "how": "multiplied", "ratio": 3}},
            omega=3 * omega_of(rule),
        ),
    )
    for factor, have in ((180 / pi, "degrees"), (pi / 180, "radians taken for degrees")):
        yield (
            f"angles-in-degrees, {have}",
            changed({"angles-in-degrees": {"have": have}}, omega=factor * omega_of(rule)),
        )
    if rule.name in {"none", "yarn"}:
        yield from _of_patterns(changed)
    yield from _of_size(right, changed)
    yield from _narrow(right, changed)
    yield from _slips(rule, right)


Change: TypeAlias = Callable[..., Trip]


def _of_patterns(changed: Change) -> Iterator[tuple[str, Trip]]:
    """Yield positions that are decoded from each row once no frequencies explain it."""
    steps = np.arange(float(ROWS))
    for name, values, positions in (
        ("positions-stuck", {"position": 50, "row": 50}, np.minimum(steps, 50)),
        ("positions-reset", {"rows": [40, 70]}, np.r_[steps[:40], steps[:30], steps[:26]]),
        (
            "other-positions",
            {"have": "0:20,25:101", "want": "0:96"},
            np.r_[steps[:20], steps[20:] + 5],
        ),
    ):
        yield name, changed({name: values}, positions=positions)


def _of_size(right: Trip, changed: Change) -> Iterator[tuple[str, Trip]]:
    factor = right.scale
    if factor == 1:
        yield "extra-factor", changed({"extra-factor": {"factor": 1.25}}, scale=1.25)
        return
    near = {"factor": factor}
    yield "missing-factor", changed({"missing-factor": near}, scale=1.0)
    yield "extra-factor", changed({"extra-factor": near}, scale=factor**2)
    yield "wrong-factor", changed({"wrong-factor": {"factor": 1.5}}, scale=1.5 * factor)


def _narrow(right: Trip, changed: Change) -> Iterator[tuple[str, Trip]]:
    """Yield what an engine may round, and the table itself; float16 under no rule alone."""
    for dtype, exact in (("bfloat16", 256), ("float16", 2048)):
        if dtype == "float16" and right.rule.name != "none":
            continue
        for part in ("positions", "frequencies", "angles", "throughout"):
            # Positions must be far enough to be rounded.
            far = np.arange(2100.0 if (dtype, part) == ("float16", "positions") else 300.0)
            yield (
                f"narrow-{part} {dtype}",
                changed(
                    {f"narrow-{part}": {"dtype": dtype, "exact": exact}},
                    positions=far,
                    narrow=part,
                    narrow_type=dtype,
                    dtype=dtype if part == "throughout" else "float32",
                    asked={"dtype": dtype} if part == "throughout" else {},
                ),
            )
        yield (
            f"narrow-tables {dtype}",
            changed({"narrow-tables": {"dtype": dtype}}, narrow="tables", narrow_type=dtype),
        )
    for decimals in (2, 4):
        yield (
            f"rounded-decimals {decimals}",
            changed(
                {"rounded-decimals": {"decimals": decimals}},
                wrap=lambda cosine, sine, decimals=decimals: (
                    np.round(cosine, decimals),
                    np.round(sine, decimals),
                ),
            ),
        )


def _slips(rule: Rule, right: Trip) -> Iterator[tuple[str, Trip]]:
    """Yield exponents that code has by mistake."""
    if rule.name in {"dynamic", "ntk", "yarn"}:
        # Their own formulas contain the width or the base: a slip is not one formula.
        return
    k, pairs, width = _PAIRS, len(_PAIRS), WIDTH
    for exponent, powers in (
        ("k/d", k / width),
        ("k/(n − 1)", k / (pairs - 1)),
        ("2·(2k)/d", 4 * k / width),
        ("(2k + 1)/d", (2 * k + 1) / width),
        ("(2k + 2)/d", (2 * k + 2) / width),
    ):
        values = {"exponent": exponent, "want": "2k/d"}
        yield (
            f"tutorial-slip {exponent}",
            replace(right, named={"tutorial-slip": values}, omega=omega_of(rule, powers)),
        )
    for exponent, cosines, sines in (
        ("(i + 1)/d", (2 * k + 1) / width, 2 * k / width),
        ("(i + 2)/d", (2 * k + 2) / width, 2 * k / width),
        ("2(i + 1)/d", (4 * k + 2) / width, 4 * k / width),
    ):
        yield (
            f"tutorial-slip {exponent}",
            replace(
                right,
                named={"tutorial-slip": {"exponent": exponent}},
                omega=omega_of(rule, cosines),
                sine=omega_of(rule, sines),
            ),
        )
    common = replace(rule, base=float(np.exp(np.log10(rule.base))))
    yield (
        "tutorial-slip log10",
        replace(
            right, named={"tutorial-slip": {"exponent": "log10 for ln"}}, omega=omega_of(common)
        ),
    )


def _transposed(arrays: Arrays) -> Arrays:
    return {
        name: StoredTable(np.ascontiguousarray(each.elements.T), each.dtype)
        for name, each in arrays.items()
    }


_OTHER_VALUES: Mapping[str, Mapping[str, float | int]] = {
    "linear": {"factor": 8.0},
    "dynamic": {"factor": 4.0, ORIGINAL: 128, "context_length": 512},
    "ntk": {"factor": 8.0},
    "yarn": {
        "factor": 16.0,
        ORIGINAL: 16384,
        "beta_fast": 64.0,
        "beta_slow": 4.0,
        "truncate": False,
    },
    "llama3": {
        "factor": 32.0,
        ORIGINAL: 2048,
        "low_freq_factor": 2.0,
        "high_freq_factor": 8.0,
    },
}
_NAMES = {"truncate": "yarn-range-rounded", "context_length": "dynamic-length"}
_DEFAULTS = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}


def _of_keys(rule: Rule) -> Iterator[tuple[str, Trip]]:
    """Yield a rule that is ignored, other values of its keys, and other rules."""
    plain = Rule("none", rule.base, rule.rotary)
    yield (
        "config-key-ignored",
        _of_rule(rule, plain, {"config-key-ignored": {"rule": rule.name}}),
    )
    for key, value in _OTHER_VALUES.get(rule.name, {}).items():
        want = rule.keys.get(key, _DEFAULTS.get(key))
        name = _NAMES.get(key, "wrong-parameter")
        named = {name: {"key": key, "have": value, "want": want}}
        if (rule.name, key) == ("dynamic", ORIGINAL):
            # This length over the right original one is the same growth.
            named = {"dynamic-length": {"have": 128, "want": 256}}
        yield f"{name} {key}", _of_rule(rule, rule.having(**{key: value}), named)
    factor = rule.number("factor")
    for other in RULES.values():
        if other.name in {"none", "dynamic", "longrope", rule.name}:
            continue
        made = other.having(factor=factor)
        if ORIGINAL in rule.keys and ORIGINAL in made.keys:
            made = made.having(**{ORIGINAL: rule.keys[ORIGINAL]})
        named = {"wrong-rule": {"have": made.name, "want": rule.name}}
        yield f"wrong-rule {made.name}", _of_rule(rule, made, named)


def _special() -> Iterator[tuple[str, Trip]]:
    """Yield the mistakes of one rule alone."""
    yarn, llama3, longrope = RULES["yarn"], RULES["llama3"], RULES["longrope"]
    slipped = replace(yarn, slip="betas-exchanged")
    exchanged = {"yarn-betas-exchanged": {"have": 1, "want": 32}}
    yield "yarn, yarn-betas-exchanged", _of_rule(yarn, slipped, exchanged)
    banded = replace(llama3, slip="band-of-wavelengths")
    yield "llama3, llama3-band", _of_rule(llama3, banded, {"llama3-band": {}})
    short = longrope.having(context_length=32)
    lists = {"short-for-long-factors": {"have": "short_factor", "want": "long_factor"}}
    yield "longrope, short-for-long-factors", _of_rule(longrope, short, lists)
    back = {"short-for-long-factors": {"have": "long_factor", "want": "short_factor"}}
    yield "longrope, long-for-short-factors", _of_rule(short, longrope, back)
    by_position = _of_rule(longrope, longrope, {"list-by-position": {"length": 32}})
    yield (
        "longrope, list-by-position",
        replace(by_position, below=omega_of(short), boundary=32),
    )
    scaled = yarn.having(mscale=1.0, mscale_all_dim=0.5)
    one, other = 0.1 * log(8) + 1, 0.05 * log(8) + 1
    for factor in (other / one, one, other):
        trip = _of_rule(scaled, scaled, {"mscale-exchanged": {"want": scaled.attention()}})
        yield f"yarn, mscale-exchanged {factor:.3f}", replace(trip, scale=factor)
    rotary = WIDTH // 4
    partial = Rule("none", 500000.0, rotary)
    yield (
        "none, wrong-denominator",
        Trip(
            partial,
            {"wrong-denominator": {"have": WIDTH, "want": rotary}},
            500000.0 ** (-2 * np.arange(rotary // 2) / WIDTH),
            asked={"rotary_dim": str(rotary)},
        ),
    )


# What a rule does not touch is tried without one, and under one.
_TOUCHED = (
    "wrong-base",
    "sine-sign",
    "position-offset 1",
    "layout-swapped",
    "truncated",
    "not-rotated",
    "partial-width",
    "rotated-twice",
    "linear-factor",
    "angles-in-degrees, degrees",
    "missing-factor",
    "extra-factor",
    "wrong-factor",
    "narrow-frequencies bfloat16",
    "narrow-tables bfloat16",
    "tutorial-slip k/d",
    "tutorial-slip (i + 1)/d",
)


def _trips() -> Iterator[tuple[str, Trip]]:
    for name, rule in RULES.items():
        for mistake, trip in _generic(rule):
            if name in {"none", "yarn"} or mistake in _TOUCHED:
                yield f"{name}, {mistake}", trip
        if name != "none":
            for mistake, trip in _of_keys(rule):
                yield f"{name}, {mistake}", trip
    yield from _special()


TRIPS: Mapping[str, Trip] = dict(_trips())
"""Tables with one mistake each."""
