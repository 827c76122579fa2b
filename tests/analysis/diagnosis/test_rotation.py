"""Diagnoses of applied rotations: every known mistake is named, alone and with another one."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from service.analysis.diagnosis.mistakes import Diagnosis
from service.analysis.diagnosis.rotation import diagnose_applied
from service.numerics.dtypes import REAL_DTYPES
from tests.analysis.rotating import TYPES, Array, Engine

Size = tuple[int, int, int, int, float]

# Heads, rows, head_dim, channels that rotate, attention factor.
SIZES: list[Size] = [
    (1, 4, 8, 8, 1.0),
    (2, 16, 16, 16, 1.2),
    (8, 64, 64, 32, 1.0),
    (1, 512, 128, 128, 1.0),
    (4, 300, 32, 16, 1.1386294361119891),
]


def mistakes_of(
    heads: int, rows: int, head_dim: int, expected: Engine
) -> dict[str, dict[str, Any]]:
    """Return the changes of an engine that make each mistake, as far as a size allows it."""
    width, factor = expected.width, expected.factor
    changes: dict[str, dict[str, Any]] = {
        "layout-swapped": {"layout": "interleaved"},
        "layout-mixed": {"written": "interleaved"},
        "rotated-twice": {"angle_factor": 2.0, "factor": factor**2},
        "inverse": {"angle_factor": -1.0},
        "not-rotated": {"angle_factor": 0.0, "factor": 1.0},
        "sine-sign": {"signs": (1, 1)},
        "sine-sign of both": {"signs": (-1, -1)},
        "halves-swapped minus last": {"is_own": True, "signs": (1, -1)},
        "halves-swapped minus first": {"is_own": True, "signs": (-1, 1)},
        "halves-swapped of the result": {"is_written_reversed": True},
        "halves-swapped of the table": {"is_swapped": True},
        "table-layout-swapped": {"is_tiled_otherwise": True},
        "position-offset by one": {"start": 1},
        "position-offset backwards": {"start": -7},
        "positions-reversed": {"positions": "reversed"},
        "positions-stuck": {"positions": "stuck"},
        "wrong-base": {"base": 500000.0},
        "linear-factor": {"linear": 4.0},
        "wrong-rule": {"llama3": True},
        "narrow-frequencies": {"frequency_dtype": "bfloat16"},
        "narrow-tables": {"table_dtype": "bfloat16"},
        "extra-factor": {"factor": factor * 1.25},
        "partial-width narrower": {"width": width // 2},
        "partial-width of the same frequencies": {"width": width // 2, "series": width},
    }
    if factor != 1:
        changes["missing-factor"] = {"factor": 1.0}
        changes["extra-factor twice"] = {"factor": factor**2}
        changes["one-sided-factor"] = {"sine_factor": 1.0}
    if rows > 256:
        changes["narrow-positions"] = {"position_dtype": "bfloat16"}
    if rows >= 8:
        for beyond in ("unrotated", "zero", "clamped", "wrapped"):
            changes[f"truncated {beyond}"] = {"beyond": (rows // 2, beyond)}
    if width < head_dim:
        changes["partial-width wider"] = {"width": head_dim}
        changes["partial-width and zeros"] = {"width": width // 2, "is_rest_zero": True}
        changes["rest-zeroed"] = {"is_rest_zero": True}
        changes["rotary-offset"] = {"offset": head_dim - width}
    if heads > 1:
        changes["axes-swapped"] = {"axis": -3}
    return changes


def diagnosed(
    x: Array, rotated: Array, engine: Engine, dtype: str = "float32", **options: Any
) -> Diagnosis:
    """Diagnose an array that an engine should have rotated, in the layout "half" unless given."""
    cosine, sine = engine.tables(x.shape[-2])
    before, after = x.astype(np.float64), rotated.astype(np.float64)
    options = {"layout": "half", **options}
    return diagnose_applied(before, after, cosine, sine, REAL_DTYPES[dtype], **options)


def diagnosed_changes(
    x: Array, engine: Engine, changes: dict[str, Any], dtype: str = "float32", **options: Any
) -> Diagnosis:
    """Diagnose the rotation of a changed engine."""
    rotated = engine.with_changes(**changes).rotate(x)
    return diagnosed(x, rotated, engine, dtype, **options)


def names(diagnosis: Diagnosis) -> list[str]:
    return [mistake.name for mistake in diagnosis.mistakes]


def normal(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(TYPES[dtype])


def case(size: Size, dtype: str = "float32") -> tuple[Array, Engine]:
    heads, rows, head_dim, width, factor = size
    return normal((1, heads, rows, head_dim), dtype), Engine(width, factor=factor)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_right_rotation_is_equal(size: Size, dtype: str) -> None:
    x, engine = case(size, dtype)

    diagnosis = diagnosed_changes(x, engine, {}, dtype)

    assert (diagnosis.verdict, diagnosis.mistakes) == ("equal", ())
    assert diagnosis.elements == x.size


@pytest.mark.parametrize("llama3", [False, True])
@pytest.mark.parametrize("powers", ["power", "logarithm", "products"])
@pytest.mark.parametrize(("start", "rows"), [(14000, 1), (10000, 64), (100000, 64), (0, 9000)])
def test_right_rotation_by_float32_frequencies_is_equal_at_large_positions(
    llama3: bool, powers: str, start: int, rows: int
) -> None:
    engine = Engine(128, base=500000.0, start=start, llama3=llama3)
    positions = start + np.arange(rows, dtype=np.float64)

    diagnosis = diagnosed_changes(
        normal((1, 2, rows, 128)),
        engine,
        {"powers": powers},
        positions=positions,
        omega=engine.frequencies(),
    )

    assert (diagnosis.verdict, diagnosis.mistakes) == ("equal", ())


@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("share", [1e-5, 2e-5, 1e-4])
def test_slightly_wrong_frequencies_are_not_explained_by_mistakes_that_cancel(
    share: float, rows: int
) -> None:
    engine = Engine(128, base=500000.0, start=10000)
    known: dict[str, Any] = {
        "positions": 10000.0 + np.arange(rows),
        "omega": engine.frequencies(),
    }

    diagnosis = diagnosed_changes(normal((1, 1, rows, 128)), engine, {"linear": 1 + share}, **known)

    assert "rotated-twice" not in names(diagnosis)


@pytest.mark.parametrize("start", [100, 10000, 100000])
@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("shift", [-1, 1, 7])
def test_position_offset_is_named_far_from_position_0(start: int, rows: int, shift: int) -> None:
    engine = Engine(128, base=500000.0, start=start, llama3=True)
    positions, omega = start + np.arange(rows, dtype=np.float64), engine.frequencies()
    x = normal((1, 2, rows, 128))

    known: dict[str, Any] = {"positions": positions, "omega": omega}
    (mistake,) = diagnosed_changes(x, engine, {"start": start + shift}, **known).mistakes

    assert (mistake.name, mistake.values["rows"]) == ("position-offset", shift)


@pytest.mark.parametrize("start", [50000, 199744])
@pytest.mark.parametrize("power", [1.5, 2.0])
def test_offset_beyond_float32_positions_explains_nothing(start: int, power: float) -> None:
    engine = Engine(128, base=1000000.0, start=start)
    positions, omega = start + np.arange(8.0), engine.frequencies()
    x = np.ones((1, 1, 8, 128), np.float32)
    angles = np.outer(positions, omega**power)
    one, two = np.cos(angles) - np.sin(angles), np.cos(angles) + np.sin(angles)
    rotated = np.concatenate([one, two], axis=-1)[None, None].astype(np.float32)

    diagnosis = diagnosed(x, rotated, engine, positions=positions, omega=omega)

    assert diagnosis.verdict == "none"
    assert diagnosis.allowed < 1


def test_float32_angles_are_not_the_reason_of_errors_of_float64_angles() -> None:
    engine = Engine(128, start=100000)
    x = normal((1, 1, 16, 128), "float64")
    rounded_angles = engine.with_changes(powers="logarithm").rotate(x)

    diagnosis = diagnosed(x, rounded_angles, engine, "float64")

    assert (diagnosis.verdict, diagnosis.reason) == ("equal", None)


# Half types round more than these mistakes change.
BELOW_HALF_ROUNDING = {"narrow-frequencies", "narrow-tables"}


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(size, dtype) for size in SIZES for dtype in ("float32", "float64")]
    + [(size, dtype) for size in SIZES[1::2] for dtype in ("float16", "bfloat16")],
    ids=str,
)
def test_each_mistake_is_named(size: Size, dtype: str) -> None:
    x, engine = case(size, dtype)
    misnamed = {}
    for name, changes in mistakes_of(*size[:3], engine).items():
        if dtype in {"float16", "bfloat16"} and name in BELOW_HALF_ROUNDING:
            continue
        diagnosis = diagnosed_changes(x, engine, changes, dtype)
        if diagnosis.verdict != "diagnosed" or names(diagnosis) != name.split()[:1]:
            misnamed[name] = names(diagnosis)
        for mistake in diagnosis.mistakes:
            assert "{" not in mistake.sentence + mistake.correction

    assert not misnamed


# Mistakes that hide others, and pairs of mistakes that equal another list.
HIDING = {"not-rotated", "positions-stuck", "axes-swapped", "wrong-rule"}
SAME = [
    {"layout-swapped", "layout-mixed"},
    {"layout-mixed", "table-layout-swapped"},
    {"inverse", "sine-sign of both"},
    {"inverse", "halves-swapped minus last"},
    {"inverse", "halves-swapped minus first"},
    {"rotated-twice", "linear-factor"},
    {"rotated-twice", "one-sided-factor"},
    {"positions-reversed", "truncated clamped"},
    {"positions-reversed", "truncated wrapped"},
]


@pytest.mark.full
@pytest.mark.parametrize("size", SIZES[1:3], ids=str)
def test_two_mistakes_together_are_explained(size: Size) -> None:
    x, engine = case(size)
    mistakes = mistakes_of(*size[:3], engine)
    pairs = [
        (one, other)
        for one, other in combinations(mistakes, 2)
        if not set(mistakes[one]) & set(mistakes[other])
        and not {one, other} & HIDING
        and {one, other} not in SAME
    ][::11]
    unexplained, named = [], 0
    for one, other in pairs:
        diagnosis = diagnosed_changes(x, engine, {**mistakes[one], **mistakes[other]})
        if diagnosis.verdict != "diagnosed" or len(diagnosis.mistakes) > 2:
            unexplained.append((one, other))
        named += sorted(names(diagnosis)) == sorted([one.split()[0], other.split()[0]])

    assert not unexplained
    assert named >= 0.85 * len(pairs)


@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_noise_has_the_verdict_none(size: Size, dtype: str) -> None:
    x, engine = case(size, dtype)

    diagnosis = diagnosed(x, normal(x.shape, dtype, 1), engine, dtype, layout=None)

    assert (diagnosis.verdict, diagnosis.mistakes) == ("none", ())
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[:3] == (0, 0, 0)


@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("changes", [{}, {"layout": "interleaved"}, {"base": 5e5}], ids=str)
def test_first_mismatch_is_in_a_corrupted_row(dtype: str, changes: dict[str, Any]) -> None:
    x, engine = case(SIZES[2], dtype)
    rotated = engine.with_changes(**changes).rotate(x)
    rotated[0, 3, 41] = normal((64,), dtype, 1)

    diagnosis = diagnosed(x, rotated, engine, dtype)

    assert (diagnosis.verdict, len(diagnosis.mistakes)) == ("none", len(changes))
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[:3] == (0, 3, 41)
    assert diagnosis.first_mismatch.position == 41


@pytest.mark.full
def test_first_mismatch_is_a_corrupted_element() -> None:
    x, engine = case(SIZES[3])
    rotated = engine.rotate(x)
    rotated[0, 0, 500, 77] += 0.01

    mismatch = diagnosed(x, rotated, engine, layout=None).first_mismatch

    assert mismatch is not None
    assert mismatch.index == (0, 0, 500, 77)
    assert mismatch.value == pytest.approx(mismatch.expected + 0.01, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "expected"), [({}, []), ({"layout": "interleaved"}, ["layout-swapped"])]
)
def test_rows_channels_and_heads_of_zeros_are_ignored(
    changes: dict[str, Any], expected: list[str]
) -> None:
    x, engine = case(SIZES[2])
    x[..., 32:, :], x[..., 0], x[0, 1] = 0, 0, 0

    assert names(diagnosed_changes(x, engine, changes)) == expected
    assert diagnosed_changes(0 * x, engine, changes).verdict == "equal"


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_either_layout_is_right_where_none_is_given(layout: str) -> None:
    x, engine = case(SIZES[1])

    assert diagnosed_changes(x, engine, {"layout": layout}, layout=None).verdict == "equal"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, []), ({"written": None}, ["layout-mixed"]), ({"offset": 0}, ["rotary-offset"])],
)
def test_expected_output_layout_and_offset_are_respected(
    changes: dict[str, Any], expected: list[str]
) -> None:
    x, plain = case(SIZES[2])
    engine = plain.with_changes(layout="interleaved", written="half", offset=32)
    options: dict[str, Any] = {
        "layout": "interleaved",
        "output_layout": "half",
        "rotary_offset": 32,
    }

    assert names(diagnosed_changes(x, engine, changes, **options)) == expected


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"base": 500000.0}, {"have": 500000.0, "want": 10000.0}),
        ({"start": 3}, {"rows": 3}),
        ({"linear": 4.0}, {"ratio": 0.25}),
        ({"linear": 1 / 3}, {"ratio": 3}),
        ({"factor": 1.25}, {"factor": 1.25}),
        ({"factor": 0.5}, {"factor": 0.5}),
        ({"positions": "stuck"}, {"position": 5.0}),
        ({"width": 64}, {"have": 64}),
        ({"offset": 32}, {"have": 32, "want": 0}),
        ({"beyond": (40, "clamped")}, {"have": 40}),
    ],
    ids=str,
)
def test_values_of_a_mistake_are_measured(changes: dict[str, Any], values: dict[str, Any]) -> None:
    x, engine = case(SIZES[2])

    (mistake,) = diagnosed_changes(x, engine, changes).mistakes

    assert mistake.values.items() >= values.items()


def test_wrong_factor_is_measured_as_a_multiple_of_the_expected_one() -> None:
    x, engine = case(SIZES[1])

    (mistake,) = diagnosed_changes(x, engine, {"factor": engine.factor / 2}).mistakes

    assert mistake.name == "wrong-factor"
    assert mistake.values["factor"] == 0.5


def test_scaling_rule_that_was_not_applied_is_reported_with_the_base() -> None:
    x, engine = case(SIZES[2])
    scaled = engine.with_changes(llama3=True)

    (mistake,) = diagnosed_changes(x, scaled, {"llama3": False}).mistakes

    assert (mistake.name, mistake.values) == ("config-key-ignored", {"have": 10000.0})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"start": 5001}, [{"rows": 1}]),
        ({"start": 0, "positions": "stuck"}, [{"position": 5.0}]),
        ({"positions": "stuck"}, [{"position": 5005.0}]),
    ],
    ids=str,
)
def test_large_positions_are_measured_on_the_expected_table(
    changes: dict[str, Any], expected: list[dict[str, float]]
) -> None:
    x, near = case(SIZES[2], "float64")

    diagnosis = diagnosed_changes(x, near.with_changes(start=5000), changes, "float64")

    assert [mistake.values for mistake in diagnosis.mistakes] == expected


@pytest.mark.parametrize(
    ("start", "name", "values"), [(699, "position-offset", {"rows": -1}), (0, "not-rotated", {})]
)
def test_position_of_a_single_row_is_measured_where_frequencies_are_known(
    start: int, name: str, values: dict[str, int]
) -> None:
    engine = Engine(64, start=700)
    known: dict[str, Any] = {"positions": np.array([700.0]), "omega": engine.frequencies()}

    (mistake,) = diagnosed_changes(
        normal((1, 8, 1, 64)), engine, {"start": start}, **known
    ).mistakes

    assert mistake.name == name
    assert mistake.values.items() >= values.items()


@pytest.mark.full
@pytest.mark.parametrize("decimals", [None, 9])
def test_float64_results_may_come_from_float32(decimals: int | None) -> None:
    x, engine = case(SIZES[2])
    rotated = engine.with_changes(layout="interleaved").rotate(x).astype(np.float64)
    if decimals is not None:
        rotated = rotated.round(decimals)

    assert names(diagnosed(x, rotated, engine, "float64")) == ["layout-swapped"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"base": 100.0, "start": 4}, ["wrong-base", "position-offset"]),
        ({"angle_factor": 2.0, "base": 100.0}, ["rotated-twice", "wrong-base"]),
        ({"angle_factor": 2.0, "start": 3}, ["rotated-twice", "position-offset"]),
        ({"angle_factor": -1.0, "base": 100.0}, ["inverse", "wrong-base"]),
        ({"is_swapped": True, "base": 100.0}, ["halves-swapped", "wrong-base"]),
        ({"llama3": True, "start": 4}, ["wrong-rule", "position-offset"]),
        ({"axis": -3, "angle_factor": -1.0}, ["axes-swapped", "inverse"]),
        # Along another axis at most one mistake more is looked for.
        ({"axis": -3, "base": 100.0, "start": 4}, None),
    ],
    ids=str,
)
def test_two_mistakes_are_named_in_the_order_in_which_they_are_made(
    changes: dict[str, Any], expected: list[str] | None
) -> None:
    diagnosis = diagnosed_changes(normal((40, 40, 32)), Engine(32), changes)

    if expected is None:
        assert diagnosis.verdict == "none"
    else:
        assert names(diagnosis) == expected
