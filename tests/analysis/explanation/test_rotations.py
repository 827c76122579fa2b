"""Rotations of queries and keys: each known mistake is named, alone and with another one."""

from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.rotations import explain_rotation
from service.analysis.explanation.target import Target, target_of
from service.analysis.explanation.wirings import LAYOUTS, ReadChannels, Wiring, variants
from service.delivery.parameters import read_parameters
from service.encodings.rotary.rope import Rope
from service.numerics.dtypes import FLOAT32, REAL_DTYPES
from service.numerics.tables import Document
from service.routes.table_urls import table_request, tables
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
LLAMA3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
HALF_TYPES = {"float16", "bfloat16"}


def expected(engine: Engine, rows: int) -> Target:
    """Return the target that a right engine has."""
    given: dict[str, Any] = {"head_dim": engine.width, "rope_theta": engine.base, "seq_len": rows}
    if engine.start:
        given["start"] = engine.start
    if engine.llama3:
        given |= LLAMA3 | {"original_max_position_embeddings": 64}
    request = TableRequest("rope", {**given, "pack": "compact", "dtype": "float64"})
    rope = read_parameters(Rope, request.parameters)
    target = target_of(tables(request), request, rope.rule(rope.head_dim), rows=rows)
    assert target is not None
    return replace(target, structure=replace(target.structure, scale=engine.factor))


def explained(
    x: Array, rotated: Array, engine: Engine | Target, dtype: str = "float32", **options: Any
) -> Explanation:
    """Explain what an engine should have rotated, in the layout "half" unless one is given."""
    target = expected(engine, x.shape[-2]) if isinstance(engine, Engine) else engine
    before, after = x.astype(np.float64), rotated.astype(np.float64)
    return explain_rotation(
        before, after, REAL_DTYPES[dtype], target, **{"layout": "half"} | options
    )


def explained_changes(
    x: Array, engine: Engine, changes: dict[str, Any], dtype: str = "float32", **options: Any
) -> Explanation:
    """Explain the rotation of a changed engine."""
    return explained(x, engine.with_changes(**changes).rotate(x), engine, dtype, **options)


def names(explanation: Explanation) -> list[str]:
    return [each.name for each in explanation.mistakes]


def texts(explanation: Explanation) -> list[str]:
    return [each.text for each in explanation.findings]


def normal(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(TYPES[dtype])


def case(size: Size, dtype: str = "float32", seed: int = 0) -> tuple[Array, Engine]:
    heads, rows, head_dim, width, factor = size
    return normal((1, heads, rows, head_dim), dtype, seed), Engine(width, factor=factor)


def mistakes_of(heads: int, rows: int, head_dim: int, engine: Engine) -> dict[str, dict[str, Any]]:
    """Return the changes of an engine that make each mistake, as far as a size allows it."""
    width, factor = engine.width, engine.factor
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
        changes["truncated unrotated"] = {"beyond": (rows // 2, "unrotated")}
        changes["truncated zero"] = {"beyond": (rows // 2, "zero")}
        changes["positions-stuck clamped"] = {"beyond": (rows // 2, "clamped")}
        changes["positions-reset"] = {"beyond": (rows // 2, "wrapped")}
    if width < head_dim:
        changes["partial-width wider"] = {"width": head_dim}
        changes["partial-width and zeros"] = {"width": width // 2, "is_rest_zero": True}
        changes["rest-zeroed"] = {"is_rest_zero": True}
        changes["rotary-offset"] = {"offset": head_dim - width}
    if heads > 1:
        changes["axes-swapped"] = {"axis": -3}
    return changes


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_right_rotation_is_equal(size: Size, dtype: str) -> None:
    x, engine = case(size, dtype)

    explanation = explained_changes(x, engine, {}, dtype)

    assert (explanation.verdict, explanation.mistakes) == ("equal", ())
    assert explanation.elements == x.size


@pytest.mark.parametrize("llama3", [False, True])
@pytest.mark.parametrize("powers", ["power", "logarithm", "products"])
@pytest.mark.parametrize(("start", "rows"), [(14000, 1), (10000, 64), (100000, 64), (0, 9000)])
def test_right_rotation_by_float32_frequencies_is_equal_at_large_positions(
    llama3: bool, powers: str, start: int, rows: int
) -> None:
    engine = Engine(128, base=500000.0, start=start, llama3=llama3)

    explanation = explained_changes(normal((1, 2, rows, 128)), engine, {"powers": powers})

    assert (explanation.verdict, explanation.mistakes) == ("equal", ())


@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("share", [1e-5, 2e-5, 1e-4])
def test_slightly_wrong_frequencies_are_explained_by_a_factor_or_not_at_all(
    share: float, rows: int
) -> None:
    engine = Engine(128, base=500000.0, start=10000)

    explanation = explained_changes(normal((1, 1, rows, 128)), engine, {"linear": 1 + share})

    assert names(explanation) in ([], ["linear-factor"])


@pytest.mark.parametrize("start", [100, 10000, 100000])
@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("shift", [-1, 1, 7])
def test_position_offset_is_named_far_from_position_0(start: int, rows: int, shift: int) -> None:
    engine = Engine(128, base=500000.0, start=start, llama3=True)

    explanation = explained_changes(normal((1, 2, rows, 128)), engine, {"start": start + shift})

    (mistake,) = explanation.mistakes
    assert (mistake.name, mistake.values["rows"]) == ("position-offset", shift)


@pytest.mark.parametrize("rows", [24, 200])
def test_cosines_of_another_exponent_are_named_in_any_number_of_rows(rows: int) -> None:
    engine = Engine(64)
    x = normal((1, 2, rows, 64))
    positions, k = np.arange(float(rows)), np.arange(32)
    cosine, sine = (
        np.tile(wave(np.outer(positions, 10000.0 ** (-exponent / 64))), 2)
        for wave, exponent in ((np.cos, 2 * k + 1), (np.sin, 2 * k))
    )
    turned = np.concatenate([-x[..., 32:], x[..., :32]], axis=-1)

    (mistake,) = explained(x, (x * cosine + turned * sine).astype(np.float32), engine).mistakes

    assert (mistake.name, mistake.values["exponent"]) == ("tutorial-slip", "(i + 1)/d")


@pytest.mark.parametrize("start", [50000, 199744])
@pytest.mark.parametrize(("power", "name"), [(1.5, "wrong-base"), (2.0, "tutorial-slip")])
def test_offset_beyond_float32_positions_explains_nothing(
    start: int, power: float, name: str
) -> None:
    engine = Engine(128, base=1000000.0, start=start)
    x = np.ones((1, 1, 8, 128), np.float32)
    angles = np.outer(start + np.arange(8.0), engine.frequencies() ** power)
    one, two = np.cos(angles) - np.sin(angles), np.cos(angles) + np.sin(angles)
    rotated = np.concatenate([one, two], axis=-1)[None, None].astype(np.float32)

    assert names(explained(x, rotated, engine)) == [name]


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
        # Half types round more than these mistakes change.
        if dtype in HALF_TYPES and name in {"narrow-frequencies", "narrow-tables"}:
            continue
        explanation = explained_changes(x, engine, changes, dtype)
        if explanation.verdict != "diagnosed" or names(explanation) != name.split()[:1]:
            misnamed[name] = names(explanation)
        for mistake in explanation.mistakes:
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
    {"positions-reversed", "positions-stuck clamped"},
    {"positions-reversed", "positions-reset"},
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
        explanation = explained_changes(x, engine, {**mistakes[one], **mistakes[other]})
        if explanation.verdict != "diagnosed" or len(explanation.mistakes) > 2:
            unexplained.append((one, other))
        named += sorted(names(explanation)) == sorted([one.split()[0], other.split()[0]])

    assert not unexplained
    assert named >= 0.85 * len(pairs)


@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_noise_has_the_verdict_none(size: Size, dtype: str) -> None:
    x, engine = case(size, dtype)

    explanation = explained(x, normal(x.shape, dtype, 1), engine, dtype, layout=None)

    assert (explanation.verdict, explanation.mistakes) == ("none", ())


@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "right but for row 41, in head 3"),
        ({"layout": "interleaved"}, "layout-swapped but for row 41, in head 3"),
        ({"base": 5e5}, "wrong-base but for row 41, in head 3"),
    ],
    ids=str,
)
def test_corrupted_row_is_found(dtype: str, changes: dict[str, Any], text: str) -> None:
    x, engine = case(SIZES[2], dtype)
    rotated = engine.with_changes(**changes).rotate(x)
    rotated[0, 3, 41, :32] = normal((32,), dtype, 1)

    explanation = explained(x, rotated, engine, dtype)

    assert (explanation.verdict, texts(explanation)) == ("none", [text])


def test_corrupted_elements_rows_heads_and_channels_are_found() -> None:
    x, engine = case(SIZES[2])

    def text_of(index: Any, *, value: Any = 0.25) -> str:
        rotated = engine.rotate(x)
        rotated[index] = value
        explanation = explained(x, rotated, engine, layout=None)
        assert explanation.verdict == "none"
        (text,) = texts(explanation)
        return text

    assert text_of((0, 0, 50, 17)) == "right but for pair 1 of row 50, in head 0"
    assert text_of((0, slice(None), slice(40, 60))).startswith("right but for rows 40 to 59")
    assert text_of((0, 3), value=x[0, 3]) == "right but for rows from 1 on, in head 3"
    assert text_of((..., 5)) == "right but for pair 5"
    assert text_of((..., 50)) == "right but for channel 50, which should pass through"


@pytest.mark.parametrize(
    ("changes", "wrong"), [({}, []), ({"layout": "interleaved"}, ["layout-swapped"])]
)
def test_rows_channels_and_heads_of_zeros_are_ignored(
    changes: dict[str, Any], wrong: list[str]
) -> None:
    x, engine = case(SIZES[2])
    x[..., 32:, :], x[..., 0], x[0, 1] = 0, 0, 0

    assert names(explained_changes(x, engine, changes)) == wrong
    assert explained_changes(0 * x, engine, changes).verdict == "equal"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_either_layout_is_right_where_none_is_given(layout: str) -> None:
    x, engine = case(SIZES[1])

    assert explained_changes(x, engine, {"layout": layout}, layout=None).verdict == "equal"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [({}, []), ({"written": None}, ["layout-mixed"]), ({"offset": 0}, ["rotary-offset"])],
)
def test_expected_output_layout_and_offset_are_respected(
    changes: dict[str, Any], wrong: list[str]
) -> None:
    x, plain = case(SIZES[2])
    engine = plain.with_changes(layout="interleaved", written="half", offset=32)
    options: dict[str, Any] = {"layout": "interleaved", "output_layout": "half"}

    found = explained_changes(x, engine, changes, **options, rotary_offset=32)

    assert names(found) == wrong


def test_expected_direction_is_respected() -> None:
    x, engine = case(SIZES[1])
    backwards = {"angle_factor": -1.0}

    assert explained_changes(x, engine, backwards, inverse=True).verdict == "equal"
    assert names(explained_changes(x, engine, {}, inverse=True)) == ["inverse"]


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"base": 500000.0}, {"have": 500000.0, "want": 10000.0}),
        ({"start": 3}, {"rows": 3}),
        ({"linear": 4.0}, {"factor": 4, "how": "divided", "ratio": 0.25}),
        ({"linear": 1 / 3}, {"factor": 3, "how": "multiplied"}),
        ({"factor": 1.25}, {"factor": 1.25}),
        ({"factor": 0.5}, {"factor": 0.5}),
        ({"positions": "stuck"}, {"position": 5.0}),
        ({"width": 64}, {"have": 64}),
        ({"offset": 32}, {"have": 32, "want": 0}),
        ({"beyond": (40, "clamped")}, {"position": 39, "row": 39}),
        ({"beyond": (40, "zero")}, {"have": 40, "want": 64, "beyond": "zero"}),
    ],
    ids=str,
)
def test_values_of_a_mistake_are_measured(changes: dict[str, Any], values: dict[str, Any]) -> None:
    x, engine = case(SIZES[2])

    (mistake,) = explained_changes(x, engine, changes).mistakes

    assert mistake.values.items() >= values.items()


@pytest.mark.parametrize("dtype", TYPES)
def test_wrong_factor_is_measured_as_a_multiple_of_the_expected_one(dtype: str) -> None:
    x, engine = case(SIZES[1], dtype)

    (mistake,) = explained_changes(x, engine, {"factor": engine.factor / 2}, dtype).mistakes

    assert (mistake.name, mistake.values["factor"]) == ("wrong-factor", 0.5)


def test_scaling_rule_that_was_not_applied_is_named() -> None:
    x, engine = case(SIZES[2])

    (mistake,) = explained_changes(x, engine.with_changes(llama3=True), {"llama3": False}).mistakes

    assert (mistake.name, mistake.values["rule"]) == ("config-key-ignored", "llama3")


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, {}),
        ({"start": 5001}, {"rows": 1}),
        ({"start": 0, "positions": "stuck"}, {"position": 5.0}),
        ({"positions": "stuck"}, {"position": 5005.0}),
    ],
    ids=str,
)
def test_large_positions_are_measured(changes: dict[str, Any], wrong: dict[str, float]) -> None:
    x, near = case(SIZES[2], "float64")

    found = explained_changes(x, near.with_changes(start=5000), changes, "float64")

    assert len(found.mistakes) == len(wrong)
    assert all(each.values.items() >= wrong.items() for each in found.mistakes)


@pytest.mark.parametrize(
    ("start", "name", "values"),
    [(699, "position-offset", {"rows": -1}), (0, "cache-offset", {"have": 0})],
)
def test_position_of_a_single_row_is_measured(
    start: int, name: str, values: dict[str, int]
) -> None:
    engine = Engine(64, start=700)

    (mistake,) = explained_changes(normal((1, 8, 1, 64)), engine, {"start": start}).mistakes

    assert mistake.name == name
    assert mistake.values.items() >= values.items()


@pytest.mark.parametrize(
    ("decimals", "wrong"),
    [
        (None, ["layout-swapped"]),
        (9, ["layout-swapped"]),
        (5, ["rounded-decimals", "layout-swapped"]),
    ],
)
def test_float64_results_may_come_from_float32_or_from_print(
    decimals: int | None, wrong: list[str]
) -> None:
    x, engine = case(SIZES[2])
    rotated = engine.with_changes(layout="interleaved").rotate(x).astype(np.float64)
    if decimals is not None:
        rotated = rotated.round(decimals)

    assert names(explained(x, rotated, engine, "float64")) == wrong


def test_arrays_of_a_half_type_in_a_wider_one_are_equal() -> None:
    x, engine = case(SIZES[2], "bfloat16")

    found = explained_changes(x, engine, {}, "float32")

    assert found.match is not None
    assert (found.verdict, found.match.is_narrow, found.match.dtype.name) == (
        "equal",
        True,
        "bfloat16",
    )


def test_result_that_is_rounded_to_a_half_type_is_named() -> None:
    x, engine = case(SIZES[2])
    rotated = engine.rotate(x).astype(TYPES["bfloat16"])

    (mistake,) = explained(x, rotated, engine).mistakes

    assert (mistake.name, mistake.values["dtype"]) == ("narrow-tables", "bfloat16")


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"base": 100.0, "start": 4}, ["wrong-base", "position-offset"]),
        ({"angle_factor": 2.0, "base": 100.0}, ["rotated-twice", "wrong-base"]),
        ({"angle_factor": 2.0, "start": 3}, ["rotated-twice", "position-offset"]),
        ({"angle_factor": -1.0, "base": 100.0}, ["inverse", "wrong-base"]),
        ({"is_swapped": True, "base": 100.0}, ["halves-swapped", "wrong-base"]),
        ({"llama3": True, "start": 4}, ["wrong-rule", "position-offset"]),
        ({"axis": -3, "angle_factor": -1.0}, ["axes-swapped", "inverse"]),
        (
            {"axis": -3, "base": 100.0, "start": 4},
            ["axes-swapped", "wrong-base", "position-offset"],
        ),
    ],
    ids=str,
)
def test_several_mistakes_are_named_in_the_order_in_which_they_are_made(
    changes: dict[str, Any], wrong: list[str]
) -> None:
    assert names(explained_changes(normal((40, 40, 32)), Engine(32), changes)) == wrong


def compact(url: str) -> tuple[Document, Target]:
    request = table_request(url)
    given = {**request.parameters, "pack": "compact", "dtype": "float64"}
    document = tables(TableRequest(request.resource, given))
    target = target_of(document, request)
    assert target is not None
    return document, target


def rotated_by(x: Array, angles: Array) -> Array:
    """Rotate channels in the layout half."""
    half = x.shape[-1] // 2
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1).astype(np.float32)


@pytest.mark.parametrize(
    ("share", "shift", "layout", "wrong"),
    [
        (1.0, 0, "half", []),
        (1.0, 0, "interleaved", ["layout-swapped"]),
        (-1.0, 0, "half", ["inverse"]),
        (1.0, 1, "half", ["position-offset"]),
    ],
)
def test_angles_of_several_axes_are_explained(
    share: float, shift: int, layout: str, wrong: list[str]
) -> None:
    _, target = compact("/rope/axial?convention=qwen2_vl&grid=4,6&head_dim=32")
    x = normal((2, 24, 32))
    angles = share * (target.structure.places + shift) * target.omega

    assert names(explained(x, rotated_by(x, angles), target, layout=layout)) == wrong


@pytest.mark.parametrize(
    ("change", "wrong"), [(0.0, []), (1.0, ["position-offset"])], ids=["right", "late"]
)
@pytest.mark.parametrize("heads", [(), (3,)])
def test_sequences_may_have_positions_of_their_own(
    heads: tuple[int, ...], change: float, wrong: list[str]
) -> None:
    omega = Engine(32).frequencies()
    _, target = compact("/rope?head_dim=32&positions=0,1,2,3,4,0,0,0,1,2")
    assert target.document is not None
    table = {"cos": normal((2, 5, 16), "float64")}
    named = replace(target, document=_Shaped(table))  # type: ignore[arg-type]
    places = target.structure.places.reshape(2, *(1 for _ in heads), 5, 1)
    x = normal((2, *heads, 5, 32))

    found = explained(x, rotated_by(x, (places + change) * omega), named)

    assert names(found) == wrong


class _Shaped:
    """A document of which the shapes of arrays alone are read."""

    parameters: ClassVar[dict[str, Any]] = {}

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays


def test_another_number_of_rows_than_the_table_has_is_none() -> None:
    _, target = compact("/rope/axial?convention=qwen2_vl&grid=4,6&head_dim=32")
    x = normal((1, 30, 32))

    assert explained(x, x, target).verdict == "none"
    assert explained(x[..., :16], x[..., :16], expected(Engine(32), 30)).verdict == "none"


def test_measurements_of_zeros_have_no_weight() -> None:
    zeros = np.zeros((3, 7, 12))

    cosine, sine, weights = Wiring(12, 8).measured(zeros, zeros)

    assert not cosine.any()
    assert not sine.any()
    assert not weights.any()


def test_cosines_and_sines_are_measured_by_each_wiring() -> None:
    x, angles = normal((3, 7, 12), "float64"), np.random.default_rng(1).uniform(-3, 3, (7, 4))
    shown = ReadChannels(np.ones(12, bool), np.ones(12, bool), 1.25, FLOAT32)
    every = variants([Wiring(12, 8, 2)], shown)

    assert len({each.wiring for each in every}) == len(every) > 50
    for each in every:
        if each.wiring.count == 4 and each.wiring.tables is None:
            components = each.wiring.components(np.cos(angles), np.sin(angles))
            cosine, sine, weights = each.wiring.measured(x, each.wiring.apply(x, *components))
            # Some wirings show a sum of the cosine and the sine alone.
            is_known = weights > 0
            np.testing.assert_allclose(cosine[is_known], np.cos(angles)[is_known], atol=1e-6)
            np.testing.assert_allclose(sine[is_known], np.sin(angles)[is_known], atol=1e-6)


def test_each_wrong_wiring_has_its_own_sentence() -> None:
    shown = ReadChannels(np.ones(16, bool), np.ones(16, bool), 1.25, FLOAT32)
    single = [each for each in variants([Wiring(16, 8)], shown) if len(each.mistakes) == 1]

    plain = [each for each in single if each.mistakes[0].name != "partial-width"]
    assert len({each.mistakes[0].sentence for each in plain}) == len(plain) > 12


@pytest.mark.full
@pytest.mark.parametrize("seed", range(24))
def test_generated_rotations_are_named_or_none(seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    wrong = []
    for _ in range(16):
        heads, rows = int(random.choice([1, 2, 4])), int(random.choice([6, 24, 70, 300]))
        width = int(random.choice([8, 16, 32, 64]))
        head_dim = int(random.choice([width, 2 * width]))
        dtype = str(random.choice(list(TYPES)))
        layout = str(random.choice(LAYOUTS))
        engine = Engine(
            width,
            base=float(random.choice([1e4, 5e5, 1e6])),
            layout=layout,
            start=int(random.choice([0, 0, 0, 40])),
            powers=str(random.choice(["power", "logarithm", "products"])),
        )
        x = normal((1, heads, rows, head_dim), dtype, int(random.integers(2**30)))
        mistakes = mistakes_of(heads, rows, head_dim, engine) | {"right": {}}
        other = {"half": "interleaved", "interleaved": "half"}[layout]
        mistakes["layout-swapped"] = {"layout": other}
        mistakes["layout-mixed"] = {"written": other}
        mistakes["position-offset by one"] = {"start": engine.start + 1}
        mistakes["position-offset backwards"] = {"start": engine.start - 7}
        mistakes["wrong-base"] = {"base": 150000.0}
        name = str(random.choice(list(mistakes)))
        rotated = engine.with_changes(**mistakes[name]).rotate(x)
        found = explained(x, rotated, engine, dtype, layout=layout)
        if not is_right(found, name, rotated, engine.rotate(x), dtype):
            wrong.append((name, names(found), heads, rows, head_dim, dtype, engine))

    assert not wrong


def is_right(found: Explanation, name: str, rotated: Array, right: Array, dtype: str) -> bool:
    """Return whether the name is found, or nothing, or what a type does not tell from right."""
    half = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
    distance = np.abs(rotated.astype(np.float64) - right.astype(np.float64)).max()
    if found.verdict == "equal":
        return name == "right" or bool(distance <= 40 * half[dtype])
    return name != "right" and names(found) in ([], name.split()[:1])
