"""Every known mistake, made on purpose, is named; and what is no mistake is not.

The shortest list of mistakes is found, or the nearest application.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from service.analysis.diagnosis.applied_rotation import Application, Evidence, Target, Wiring
from service.analysis.diagnosis.mistakes import Diagnosis, Mistake
from service.analysis.diagnosis.rotation import ApplicationSearch, diagnose_applied
from service.numerics.dtypes import REAL_DTYPES
from tests.analysis.rotating import TYPES, Array, Engine

# Heads, rows, head_dim, channels that turn, attention factor.
SIZES = [
    (1, 4, 8, 8, 1.0),
    (2, 16, 16, 16, 1.2),
    (8, 64, 64, 32, 1.0),
    (1, 512, 128, 128, 1.0),
    (4, 300, 32, 16, 1.1386294361119891),
]


def mistakes_of(heads: int, rows: int, head_dim: int, want: Engine) -> dict[str, dict[str, Any]]:
    """Say how to make each mistake that there is a way to make at a size."""
    width, factor = want.width, want.factor
    made: dict[str, dict[str, Any]] = {
        "layout-swapped": {"layout": "interleaved"},
        "layout-mixed": {"written": "interleaved"},
        "rotated-twice": {"turns": 2.0, "factor": factor**2},
        "inverse": {"turns": -1.0},
        "not-rotated": {"turns": 0.0, "factor": 1.0},
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
        made["missing-factor"] = {"factor": 1.0}
        made["extra-factor twice"] = {"factor": factor**2}
        made["one-sided-factor"] = {"sine_factor": 1.0}
    if rows > 256:
        made["narrow-positions"] = {"position_dtype": "bfloat16"}
    if rows >= 8:
        for beyond in ("unrotated", "zero", "clamped", "wrapped"):
            made[f"truncated {beyond}"] = {"beyond": (rows // 2, beyond)}
    if width < head_dim:
        made["partial-width wider"] = {"width": head_dim}
        made["partial-width and zeros"] = {"width": width // 2, "is_rest_zero": True}
        made["rest-zeroed"] = {"is_rest_zero": True}
        made["rotary-offset"] = {"offset": head_dim - width}
    if heads > 1:
        made["axes-swapped"] = {"axis": -3}
    return made


def diagnosed(x: Array, rotated: Array, want: Engine, dtype: str, **options: Any) -> Diagnosis:
    cosine, sine = want.tables(x.shape[-2])
    before, after = x.astype(np.float64), rotated.astype(np.float64)
    return diagnose_applied(before, after, cosine, sine, REAL_DTYPES[dtype], **options)


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(TYPES[dtype])


def case(size: tuple[int, int, int, int, float], dtype: str) -> tuple[Array, Engine]:
    heads, rows, head_dim, width, factor = size
    return drawn((1, heads, rows, head_dim), dtype), Engine(width, factor=factor)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_right_is_equal(size: tuple[int, int, int, int, float], dtype: str) -> None:
    x, want = case(size, dtype)

    diagnosis = diagnosed(x, want.rotate(x), want, dtype, layout="half")

    assert (diagnosis.verdict, diagnosis.mistakes) == ("equal", ())
    assert diagnosis.elements == x.size


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_mistake_is_named(size: tuple[int, int, int, int, float], dtype: str) -> None:
    x, want = case(size, dtype)
    wrong = {}
    for name, changes in mistakes_of(*size[:3], want).items():
        rotated = want.with_changes(**changes).rotate(x)
        diagnosis = diagnosed(x, rotated, want, dtype, layout="half")
        said = [mistake.name for mistake in diagnosis.mistakes]
        if diagnosis.verdict != "diagnosed" or said != name.split()[:1]:
            wrong[name] = said

    assert not wrong


# Half types cannot tell these from something else: what they change is below their rounding.
BELOW_ROUNDING = {"narrow-frequencies", "narrow-tables"}


@pytest.mark.parametrize("size", SIZES[1::2], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_each_mistake_is_named_in_half_types(
    size: tuple[int, int, int, int, float], dtype: str
) -> None:
    x, want = case(size, dtype)
    wrong = {}
    for name, changes in mistakes_of(*size[:3], want).items():
        if name in BELOW_ROUNDING:
            continue
        rotated = want.with_changes(**changes).rotate(x)
        diagnosis = diagnosed(x, rotated, want, dtype, layout="half")
        said = [mistake.name for mistake in diagnosis.mistakes]
        if diagnosis.verdict != "diagnosed" or said != name.split()[:1]:
            wrong[name] = said

    assert not wrong


# One hides the other, or both together are another mistake, or can be made in several ways.
HIDING = {"not-rotated", "positions-stuck", "axes-swapped"}
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


def pairs_of(mistakes: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """List pairs of mistakes that can be made together and seen apart."""
    return [
        (one, other)
        for one, other in combinations(mistakes, 2)
        if not set(mistakes[one]) & set(mistakes[other])
        and not {one, other} & HIDING
        and {one, other} not in SAME
        and "wrong-rule" not in {one, other}
    ]


@pytest.mark.parametrize("size", SIZES[1:3], ids=str)
def test_two_mistakes_together_are_explained(size: tuple[int, int, int, int, float]) -> None:
    x, want = case(size, "float32")
    mistakes = mistakes_of(*size[:3], want)
    pairs = pairs_of(mistakes)[::11]
    unexplained, named = [], 0
    for one, other in pairs:
        rotated = want.with_changes(**mistakes[one], **mistakes[other]).rotate(x)
        diagnosis = diagnosed(x, rotated, want, "float32", layout="half")
        if diagnosis.verdict != "diagnosed" or len(diagnosis.mistakes) > 2:
            unexplained.append((one, other))
        said = sorted(mistake.name for mistake in diagnosis.mistakes)
        named += said == sorted([one.split()[0], other.split()[0]])

    assert not unexplained
    assert named >= 0.85 * len(pairs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_noise_is_none(size: tuple[int, int, int, int, float], dtype: str) -> None:
    x, want = case(size, dtype)

    diagnosis = diagnosed(x, drawn(x.shape, dtype, 1), want, dtype)

    assert diagnosis.verdict == "none"
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[:3] == (0, 0, 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("changes", [{}, {"layout": "interleaved"}, {"base": 5e5}], ids=str)
def test_a_corrupted_row_is_none_and_said_where(dtype: str, changes: dict[str, Any]) -> None:
    x, want = case(SIZES[2], dtype)
    rotated = want.with_changes(**changes).rotate(x)
    rotated[0, 3, 41] = drawn((64,), dtype, 1)

    diagnosis = diagnosed(x, rotated, want, dtype, layout="half")

    assert diagnosis.verdict == "none"
    assert len(diagnosis.mistakes) == len(changes)
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[:3] == (0, 3, 41)
    assert diagnosis.first_mismatch.position == 41


def test_a_corrupted_element_is_said_where() -> None:
    x, want = case(SIZES[3], "float32")
    rotated = want.rotate(x)
    rotated[0, 0, 500, 77] += 0.01

    diagnosis = diagnosed(x, rotated, want, "float32")

    assert diagnosis.verdict == "none"
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index == (0, 0, 500, 77)
    assert diagnosis.first_mismatch.value == pytest.approx(
        diagnosis.first_mismatch.expected + 0.01, abs=1e-4
    )


def test_zeros_say_nothing_and_do_not_disturb() -> None:
    x, want = case(SIZES[2], "float32")
    x[..., 32:, :], x[..., 0], x[0, 1] = 0, 0, 0

    right = diagnosed(x, want.rotate(x), want, "float32", layout="half")
    swapped = want.with_changes(layout="interleaved").rotate(x)
    wrong = diagnosed(x, swapped, want, "float32", layout="half")
    nothing = diagnosed(0 * x, 0 * x, want, "float32", layout="half")

    assert (right.verdict, nothing.verdict) == ("equal", "equal")
    assert [mistake.name for mistake in wrong.mistakes] == ["layout-swapped"]


def test_either_layout_is_right_where_none_is_said() -> None:
    x, want = case(SIZES[1], "float32")

    both = [
        diagnosed(x, want.with_changes(layout=layout).rotate(x), want, "float32").verdict
        for layout in ("half", "interleaved")
    ]

    assert both == ["equal", "equal"]


def test_what_is_wanted_may_be_mixed_and_lie_elsewhere_in_the_head() -> None:
    x, want = case(SIZES[2], "float32")
    want = want.with_changes(layout="interleaved", written="half", offset=32)
    options = {"layout": "interleaved", "output_layout": "half", "rotary_offset": 32}

    right = diagnosed(x, want.rotate(x), want, "float32", **options)
    wrong = diagnosed(x, want.with_changes(written=None).rotate(x), want, "float32", **options)
    moved = diagnosed(x, want.with_changes(offset=0).rotate(x), want, "float32", **options)

    assert right.verdict == "equal"
    assert [mistake.name for mistake in wrong.mistakes] == ["layout-mixed"]
    assert [mistake.name for mistake in moved.mistakes] == ["rotary-offset"]


def test_values_that_are_wrong_are_measured() -> None:
    x, want = case(SIZES[2], "float32")

    def values(**changes: Any) -> dict[str, Any]:
        rotated = want.with_changes(**changes).rotate(x)
        (mistake,) = diagnosed(x, rotated, want, "float32", layout="half").mistakes
        return dict(mistake.values)

    assert values(base=500000.0) == {"have": 500000.0, "want": 10000.0}
    assert values(start=3) == {"rows": 3}
    assert values(linear=4.0) == {"ratio": 0.25}
    assert values(factor=1.25) == {"factor": 1.25}
    assert values(width=64)["have"] == 64
    assert values(beyond=(40, "clamped"))["have"] == 40


def test_a_scaling_rule_that_was_not_applied_is_said_with_the_base() -> None:
    x, want = case(SIZES[2], "float32")
    scaled = want.with_changes(llama3=True)

    (mistake,) = diagnosed(x, want.rotate(x), scaled, "float32", layout="half").mistakes

    assert (mistake.name, mistake.values) == ("config-key-ignored", {"have": 10000.0})


def test_positions_far_out_are_found_from_the_table_alone() -> None:
    x, want = case(SIZES[2], "float64")
    far = want.with_changes(start=5000)

    equal = diagnosed(x, far.rotate(x), far, "float64", layout="half")
    (late,) = diagnosed(
        x, far.with_changes(start=5001).rotate(x), far, "float64", layout="half"
    ).mistakes
    (stuck,) = diagnosed(x, want.with_changes(positions="stuck").rotate(x), far, "float64").mistakes

    assert equal.verdict == "equal"
    assert late.values == {"rows": 1}
    assert stuck.values == {"position": 5.0}


def test_a_decode_step_at_the_wrong_position_is_found_where_frequencies_are_known() -> None:
    want = Engine(64, start=700)
    x = drawn((1, 8, 1, 64), "float32")
    known = {"positions": np.array([700.0]), "omega": want.frequencies(), "layout": "half"}

    early = diagnosed(x, want.with_changes(start=699).rotate(x), want, "float32", **known)
    never = diagnosed(x, want.with_changes(start=0).rotate(x), want, "float32", **known)

    assert [mistake.values for mistake in early.mistakes] == [{"rows": -1}]
    assert [mistake.name for mistake in never.mistakes] == ["not-rotated"]


def test_numbers_of_float64_may_come_from_float32() -> None:
    x, want = case(SIZES[2], "float32")
    rotated = want.with_changes(layout="interleaved").rotate(x).astype(np.float64)

    exactly = diagnosed(x, rotated, want, "float64", layout="half")
    in_text = diagnosed(x, rotated.round(9), want, "float64", layout="half")

    for diagnosis in (exactly, in_text):
        assert [mistake.name for mistake in diagnosis.mistakes] == ["layout-swapped"]


def test_every_mistake_says_a_sentence_and_what_to_do() -> None:
    x, want = case(SIZES[4], "float32")
    for name, changes in mistakes_of(*SIZES[4][:3], want).items():
        rotated = want.with_changes(**changes).rotate(x)
        (mistake,) = diagnosed(x, rotated, want, "float32", layout="half").mistakes
        assert mistake.sentence.endswith("."), name
        assert mistake.correction.endswith("."), name
        assert "{" not in mistake.sentence + mistake.correction


RIGHT = Application(Wiring(32, 32))


def evidence(rows: int = 40, **changes: Any) -> Evidence:
    want = Engine(32)
    x = np.random.default_rng(0).standard_normal((2, rows, 32)).astype(np.float32)
    y = want.with_changes(**changes).rotate(x).astype(float)
    return Evidence(x.astype(float), y, Target.of(*want.tables(rows)), 2.0**-24)


def shortest(seen: Evidence, starts: list[Application], most: int) -> Application:
    return ApplicationSearch(seen).shortest(starts, most)


def names(found: Application) -> list[str]:
    return [mistake.name for mistake in found.mistakes]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert shortest(evidence(), [RIGHT], 2) is RIGHT


def test_the_first_start_that_is_right_is_given() -> None:
    other = Application(Wiring(32, 32, read="interleaved", written="interleaved"))

    assert shortest(evidence(layout="interleaved"), [RIGHT, other], 2) is other


def test_the_shortest_list_is_found() -> None:
    one = shortest(evidence(base=100.0), [RIGHT], 2)
    two = shortest(evidence(base=100.0, start=4), [RIGHT], 2)

    assert names(one) == ["wrong-base"]
    assert names(two) == ["wrong-base", "position-offset"]


def test_no_more_mistakes_are_made_than_allowed() -> None:
    found = shortest(evidence(base=100.0, start=4), [RIGHT], 1)

    assert len(names(found)) <= 1


def test_a_name_goes_before_frequencies_without_one() -> None:
    twice = shortest(evidence(turns=2.0, base=100.0), [RIGHT], 2)
    other = shortest(evidence(llama3=True), [RIGHT], 2)

    assert names(twice) == ["rotated-twice", "wrong-base"]
    assert names(other) == ["wrong-rule"]


def test_frequencies_without_a_name_may_come_with_another_mistake() -> None:
    assert names(shortest(evidence(llama3=True, start=4), [RIGHT], 2)) == [
        "wrong-rule",
        "position-offset",
    ]


def test_what_nothing_comes_near_to_is_compared_with_what_is_wanted() -> None:
    seen = evidence()
    seen.y[...] = np.random.default_rng(1).standard_normal(seen.y.shape)

    assert shortest(seen, [RIGHT], 2) is RIGHT


def test_mistakes_of_a_start_are_kept() -> None:
    start = Application(Wiring(32, 32), mistakes=(Mistake("axes-swapped"),))

    assert names(shortest(evidence(turns=-1.0), [start], 1)) == ["axes-swapped", "inverse"]
