"""The shortest known mistakes: made on purpose, alone and two together, and found.

Whether a suspect explains what is there: element by element, and where not.

Numbers of which nothing is known: a factor and a shift are found by the numbers alone.
"""

from dataclasses import replace

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.diagnosis.explanation import (
    ArrayPair,
    ExpectedTable,
    Hypothesis,
    check,
    diagnose,
    sampled_rows,
)
from service.analysis.diagnosis.mistakes import Diagnosis
from service.analysis.diagnosis.structure import SizeFault, order_faults
from service.analysis.diagnosis.waves import waves_of
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.tables import StoredTable
from tests.analysis.mistaken import FORMS, MISTAKES, Made, had, mistaken, narrowed, stored, wanted

SIZES = ((8, 16), (300, 32))
LARGE = (2048, 128)

# bfloat16 holds every integer up to 256: shorter tables do not show it.
LONG = 300


def found(made: Made, right: Made, dtype: DType, *, is_exact: bool = True) -> Diagnosis:
    diagnosis = diagnose(had(made, dtype), wanted(right, dtype, is_exact=is_exact))
    assert diagnosis is not None
    return diagnosis


def names(diagnosis: Diagnosis) -> list[str]:
    return sorted(mistake.name for mistake in diagnosis.mistakes)


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=lambda d: d.name)
def test_each_mistake_is_found_alone(name: str, dtype: DType) -> None:
    for rows, channels in SIZES:
        for form in FORMS[:2] if dtype is FLOAT32 else FORMS[3:]:
            right = Made(rows, channels, form)
            diagnosis = found(mistaken(right, [name]), right, dtype)

            if name == "narrow-positions" and rows < LONG:
                assert diagnosis.verdict == "equal"
            else:
                assert (diagnosis.verdict, names(diagnosis)) == ("diagnosed", [name])
                assert diagnosis.first_mismatch is None


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_in_a_large_table(name: str) -> None:
    rows, channels = LARGE
    right = Made(rows, channels, "half")

    assert names(found(mistaken(right, [name]), right, FLOAT32)) == [name]


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_where_what_is_wanted_is_rounded_too(name: str) -> None:
    right = Made(LONG, 32, "interleaved")

    assert names(found(mistaken(right, [name]), right, FLOAT32, is_exact=False)) == [name]


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=lambda d: d.name)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_right_is_equal(form: str, dtype: DType) -> None:
    right = Made(64, 32, form, start=7)

    diagnosis = found(right, right, dtype)

    assert (diagnosis.verdict, diagnosis.mistakes) == ("equal", ())
    assert diagnosis.elements == sum(part.size for part in right.table().values())


def test_both_bases_are_named() -> None:
    right = Made(64, 64, "half", base=500000.0)

    (mistake,) = found(replace(right, base=10000.0), right, FLOAT32).mistakes

    assert mistake.values == {"have": 10000.0, "want": 500000.0}


@pytest.mark.parametrize("rows", [-3, 1, 2, 40])
def test_a_position_offset_says_by_how_much(rows: int) -> None:
    right = Made(64, 32, "interleaved", start=10)

    (mistake,) = found(replace(right, start=10 + rows), right, FLOAT16).mistakes

    assert mistake.name == "position-offset"
    assert mistake.values == {"rows": rows}


def test_a_factor_that_is_missing_is_given() -> None:
    right = Made(64, 64, "half", factor=1.1386294361119891)

    (mistake,) = found(replace(right, factor=1.0), right, FLOAT32).mistakes

    assert mistake.name == "missing-factor"
    assert mistake.values["factor"] == pytest.approx(1.1386294361119891, rel=1e-7)


def test_noise_is_no_mistake() -> None:
    right = Made(64, 32, "interleaved")
    noise = np.random.default_rng(1).normal(size=(64, 32))

    diagnosis = diagnose({"table": stored(noise, FLOAT32)}, wanted(right, FLOAT32))

    assert diagnosis is not None
    assert (diagnosis.verdict, diagnosis.mistakes) == ("none", ())
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index == (0, 0)


@pytest.mark.parametrize("name", [None, "layout-swapped", "wrong-base", "sine-sign"])
@pytest.mark.parametrize("row", [3, 40, 63])
def test_one_corrupted_row_is_where_it_leaves(name: str | None, row: int) -> None:
    right = Made(64, 32, "interleaved", start=100)
    table = mistaken(right, [name] if name else []).table()["table"].copy()
    table[row] += 0.01

    diagnosis = diagnose({"table": stored(table, FLOAT32)}, wanted(right, FLOAT32))

    assert diagnosis is not None
    assert diagnosis.verdict == "none"
    assert names(diagnosis) == ([name] if name else [])
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[0] == row
    assert diagnosis.first_mismatch.position == 100 + row


@pytest.mark.parametrize("size", [1e-3, 1e-9, 1e-300])
def test_small_noise_is_no_waves_times_a_small_factor(size: float) -> None:
    right = Made(16, 8, "interleaved")
    noise = np.abs(np.random.default_rng(2).normal(size=(16, 8))) * size

    diagnosis = diagnose({"table": stored(noise, FLOAT64)}, wanted(right, FLOAT64))

    assert diagnosis is not None
    assert diagnosis.verdict == "none"


def learned(rows: int, channels: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(rows, channels))


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("transposed", lambda table: table.T),
        ("halves-swapped", lambda table: np.roll(table, 8, axis=1)),
        ("layout-swapped", lambda table: np.hstack([table[:, ::2], table[:, 1::2]])),
        ("positions-reversed", lambda table: table[::-1]),
        ("missing-factor", lambda table: table / 4),
        ("extra-factor", lambda table: table * 2.5),
        ("truncated", lambda table: table[:20]),
        ("truncated", lambda table: table[:, :12]),
        ("longer", lambda table: np.vstack([table, table[:2]])),
        ("position-offset", lambda table: np.vstack([table[3:], table[:3]])),
        ("truncated", lambda table: np.vstack([table[:20], np.zeros((12, 16))])),
    ],
)
def test_a_learned_table_can_be_in_disorder(name: str, made: object) -> None:
    table = learned(32, 16)
    assert callable(made)

    diagnosis = diagnose(
        {"weight": stored(made(table), FLOAT32)},
        ExpectedTable({"weight": stored(table, FLOAT32)}, FLOAT32),
    )

    assert diagnosis is not None
    assert (diagnosis.verdict, names(diagnosis)) == ("diagnosed", [name])


def test_two_learned_tables_have_nothing_in_common() -> None:
    have, want = stored(learned(32, 16), FLOAT32), stored(learned(33, 16)[1:] + 1, FLOAT32)

    diagnosis = diagnose({"weight": have}, ExpectedTable({"weight": want}, FLOAT32))

    assert diagnosis is not None
    assert diagnosis.verdict == "none"


def test_shapes_that_have_nothing_to_do_with_each_other_have_no_diagnosis() -> None:
    have: dict[str, Sample] = {"a": stored(learned(3, 50), FLOAT32)}

    assert diagnose(have, ExpectedTable({"a": stored(learned(32, 16), FLOAT32)}, FLOAT32)) is None


PAIRS = [
    ("layout-swapped", "sine-sign"),
    ("layout-swapped", "wrong-base"),
    ("layout-swapped", "position-offset"),
    ("layout-swapped", "missing-factor"),
    ("layout-swapped", "rotated-twice"),
    ("layout-swapped", "narrow-positions"),
    ("layout-swapped", "tutorial-slip"),
    ("halves-swapped", "wrong-base"),
    ("halves-swapped", "extra-factor"),
    ("sine-sign", "wrong-base"),
    ("sine-sign", "position-offset"),
    ("missing-factor", "wrong-base"),
    ("rotated-twice", "wrong-base"),
    ("linear-factor", "wrong-base"),
    ("wrong-base", "position-offset"),
    ("wrong-base", "narrow-positions"),
    ("wrong-base", "narrow-frequencies"),
    ("position-offset", "narrow-positions"),
    ("narrow-positions", "narrow-frequencies"),
    ("wrong-base", "truncated"),
    ("layout-swapped", "truncated"),
    ("wrong-base", "transposed"),
    ("partial-width", "wrong-base"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
@pytest.mark.parametrize("form", FORMS[::3])
def test_two_mistakes_are_found_together(pair: tuple[str, str], form: str) -> None:
    right = Made(300, 32, form)

    diagnosis = found(mistaken(right, pair), right, FLOAT32)

    assert (diagnosis.verdict, names(diagnosis)) == ("diagnosed", sorted(pair))


TABLE = Made(200, 16, "interleaved").table()["table"]
COLUMNS = np.arange(16)


def suspect_of(rows: int = 200, *, is_of_waves: bool = True) -> Hypothesis:
    waves = waves_of(TABLE, is_pair=False, positions=None) if is_of_waves else None
    order = next(order_faults(rows, 16, 1))
    return Hypothesis((), SizeFault((), rows, COLUMNS, COLUMNS), order, waves)


def subject_of(have: np.ndarray, dtype: object = FLOAT32) -> ArrayPair:
    waves = waves_of(TABLE, is_pair=False, positions=None)
    return ArrayPair(have, TABLE, dtype, FLOAT64, waves, 1)  # type: ignore[arg-type]


def test_rounding_is_explained_in_the_type_that_did_it_and_in_no_wider_one() -> None:
    have, rows = narrowed(TABLE, BFLOAT16), np.arange(200)

    assert check(subject_of(have, BFLOAT16), suspect_of(), rows).is_complete
    assert not check(subject_of(have, FLOAT32), suspect_of(), rows).is_complete


def test_angles_of_float32_are_explained_far_out_but_not_at_the_start() -> None:
    late, early = TABLE.copy(), TABLE.copy()
    late[199, 0] += 2e-5
    early[1, 0] += 2e-5

    assert check(subject_of(late), suspect_of(), np.arange(200)).is_complete
    match = check(subject_of(early), suspect_of(), np.arange(200))
    assert match.first_mismatch is not None
    assert match.first_mismatch[:2] == (1, 0)
    assert match.share == 1 - 1 / TABLE.size


def test_numbers_without_angles_have_no_more_room_far_out() -> None:
    late = TABLE.copy()
    late[199, 0] += 2e-5

    match = check(subject_of(late), suspect_of(is_of_waves=False), np.arange(200))

    assert match.first_mismatch is not None
    assert match.first_mismatch[:2] == (199, 0)


def test_a_shift_and_a_factor_are_applied() -> None:
    suspect = replace(suspect_of(is_of_waves=False), factor=3.0, shift=5)
    have = np.vstack([3 * TABLE[5:], np.ones((5, 16))])

    assert suspect.rows == 195
    assert check(subject_of(have, FLOAT64), suspect, np.arange(195)).is_complete


def test_few_rows_are_sampled_with_the_first_and_the_last() -> None:
    assert sampled_rows(10, 16).tolist() == list(range(10))
    many = sampled_rows(100_000, 16)
    assert (len(many), many[0], many[-1]) == (64, 0, 99_999)
    assert len(sampled_rows(100_000, 4096)) == 16


LEARNED = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)


def values_names(have: np.ndarray, want: np.ndarray) -> list[str]:
    table_views = [{"x": Sample.of(StoredTable(each, FLOAT32))} for each in (have, want)]
    found = diagnose(table_views[0], ExpectedTable(table_views[1], FLOAT32))
    assert found is not None
    return [mistake.name for mistake in found.mistakes] if found.verdict == "diagnosed" else []


def test_a_factor_is_found_in_a_learned_table() -> None:
    assert values_names(LEARNED * np.float32(0.5), LEARNED) == ["missing-factor"]


def test_rows_from_another_on_are_found_in_a_learned_table() -> None:
    assert "position-offset" in values_names(LEARNED[3:33], LEARNED[:30])


def test_another_learned_table_is_not_explained() -> None:
    other = np.random.default_rng(1).standard_normal((40, 24)).astype(np.float32)

    assert values_names(other, LEARNED) == []
