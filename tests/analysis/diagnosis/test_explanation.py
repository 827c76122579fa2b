"""Diagnoses of tables: known mistakes are found, alone and two together."""

from collections.abc import Iterator
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from service.analysis.array import Sample, TableRequest
from service.analysis.diagnosis.explanation import (
    Alternative,
    ArrayPair,
    ExpectedTable,
    Explanation,
    check,
    diagnose,
    sampled_rows,
)
from service.analysis.diagnosis.mistakes import Diagnosis, Mistake
from service.analysis.diagnosis.structure import OrderFault, SizeFault, TableView
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.mistaken import (
    FORMS,
    MISTAKES,
    WaveTable,
    expected_table,
    sent_arrays,
    with_mistakes,
)
from tests.analysis.samples import float_sample

DTYPES = pytest.mark.parametrize(
    "dtype", [FLOAT64, FLOAT32, FLOAT16, BFLOAT16], ids=lambda dtype: dtype.name
)

# bfloat16 has every integer up to 256: shorter tables do not show its rounding.
LONG = 300


def diagnosed(
    sent: WaveTable, expected: WaveTable, dtype: DType, *, is_exact: bool = True
) -> Diagnosis:
    diagnosis = diagnose(
        sent_arrays(sent, dtype), expected_table(expected, dtype, is_exact=is_exact)
    )
    assert diagnosis is not None
    return diagnosis


def names(diagnosis: Diagnosis) -> list[str]:
    return sorted(mistake.name for mistake in diagnosis.mistakes)


@pytest.mark.parametrize("name", MISTAKES)
@DTYPES
def test_each_mistake_is_found_alone(name: str, dtype: DType) -> None:
    for rows, channels in ((8, 16), (LONG, 32)):
        for form in FORMS[:2] if dtype is FLOAT32 else FORMS[3:]:
            expected = WaveTable(rows, channels, form)
            diagnosis = diagnosed(with_mistakes(expected, [name]), expected, dtype)

            if name == "narrow-positions" and rows < LONG:
                assert diagnosis.verdict == "equal"
            else:
                assert (diagnosis.verdict, names(diagnosis)) == ("diagnosed", [name])
                assert diagnosis.first_mismatch is None


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize(
    ("expected", "is_exact"),
    [(WaveTable(2048, 128, "half"), True), (WaveTable(LONG, 32, "interleaved"), False)],
    ids=["large", "rounded expected table"],
)
def test_each_mistake_is_found_in_float32(name: str, expected: WaveTable, is_exact: bool) -> None:
    diagnosis = diagnosed(with_mistakes(expected, [name]), expected, FLOAT32, is_exact=is_exact)

    assert names(diagnosis) == [name]


@DTYPES
@pytest.mark.parametrize("form", FORMS)
def test_right_table_is_equal(form: str, dtype: DType) -> None:
    expected = WaveTable(64, 32, form, start=7)

    diagnosis = diagnosed(expected, expected, dtype)

    assert (diagnosis.verdict, diagnosis.mistakes) == ("equal", ())
    assert diagnosis.elements == sum(part.size for part in expected.table().values())


@pytest.mark.parametrize(
    ("expected", "changes", "name", "values"),
    [
        (
            WaveTable(64, 64, "half", base=500000.0),
            {"base": 10000.0},
            "wrong-base",
            {"have": 10000.0, "want": 500000.0},
        ),
        *(
            (
                WaveTable(64, 32, "interleaved", start=10),
                {"start": 10 + rows},
                "position-offset",
                {"rows": rows},
            )
            for rows in (-3, 1, 2, 40)
        ),
        (
            WaveTable(64, 64, "half", factor=1.1386294361119891),
            {"factor": 1.0},
            "missing-factor",
            {"factor": pytest.approx(1.1386294361119891, rel=1e-7)},
        ),
    ],
    ids=str,
)
def test_values_of_a_mistake_are_measured(
    expected: WaveTable, changes: dict[str, float], name: str, values: dict[str, object]
) -> None:
    (mistake,) = diagnosed(replace(expected, **changes), expected, FLOAT32).mistakes  # type: ignore[arg-type]

    assert mistake.name == name
    assert {key: mistake.values[key] for key in values} == values


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


@pytest.mark.full
@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
@pytest.mark.parametrize("form", FORMS[::3])
def test_two_mistakes_are_found_together(pair: tuple[str, str], form: str) -> None:
    expected = WaveTable(LONG, 32, form)

    diagnosis = diagnosed(with_mistakes(expected, pair), expected, FLOAT32)

    assert (diagnosis.verdict, names(diagnosis)) == ("diagnosed", sorted(pair))


@pytest.mark.parametrize("size", [None, 1e-3, 1e-9, 1e-300])
def test_noise_has_no_mistake(size: float | None) -> None:
    expected = WaveTable(64, 32, "interleaved")
    noise = np.random.default_rng(1).normal(size=(64, 32))
    sent = noise if size is None else np.abs(noise) * size

    diagnosis = diagnose({"table": float_sample(sent, FLOAT64)}, expected_table(expected, FLOAT64))

    assert diagnosis is not None
    assert (diagnosis.verdict, diagnosis.mistakes) == ("none", ())
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[0] == 0


@pytest.mark.full
@pytest.mark.parametrize("name", [None, "layout-swapped", "wrong-base", "sine-sign"])
@pytest.mark.parametrize("row", [3, 40, 63])
def test_first_mismatch_is_in_a_corrupted_row(name: str | None, row: int) -> None:
    expected = WaveTable(64, 32, "interleaved", start=100)
    table = with_mistakes(expected, [name] if name else []).table()["table"].copy()
    table[row] += 0.01

    diagnosis = diagnose({"table": float_sample(table, FLOAT32)}, expected_table(expected, FLOAT32))

    assert diagnosis is not None
    assert (diagnosis.verdict, names(diagnosis)) == ("none", [name] if name else [])
    assert diagnosis.first_mismatch is not None
    assert diagnosis.first_mismatch.index[0] == row
    assert diagnosis.first_mismatch.position == 100 + row


LEARNED = np.random.default_rng(7).normal(size=(32, 16))
DISORDERS = [
    ("transposed", LEARNED.T),
    ("halves-swapped", np.roll(LEARNED, 8, axis=1)),
    ("layout-swapped", np.hstack([LEARNED[:, ::2], LEARNED[:, 1::2]])),
    ("positions-reversed", LEARNED[::-1]),
    ("missing-factor", LEARNED / 4),
    ("extra-factor", LEARNED * 2.5),
    ("truncated", LEARNED[:20]),
    ("truncated", LEARNED[:, :12]),
    ("truncated", np.vstack([LEARNED[:20], np.zeros((12, 16))])),
    ("longer", np.vstack([LEARNED, LEARNED[:2]])),
    ("position-offset", np.vstack([LEARNED[3:], LEARNED[:3]])),
]


def learned_diagnosis(sent: np.ndarray) -> Diagnosis | None:
    expected: dict[str, Sample] = {"weight": float_sample(LEARNED, FLOAT32)}
    return diagnose({"weight": float_sample(sent, FLOAT32)}, ExpectedTable(expected, FLOAT32))


@pytest.mark.parametrize(("name", "sent"), DISORDERS, ids=str)
def test_mistakes_of_structure_are_found_in_a_learned_table(name: str, sent: np.ndarray) -> None:
    diagnosis = learned_diagnosis(sent)

    assert diagnosis is not None
    assert (diagnosis.verdict, names(diagnosis)) == ("diagnosed", [name])


def test_another_learned_table_is_not_explained() -> None:
    diagnosis = learned_diagnosis(np.random.default_rng(8).normal(size=(32, 16)) + 1)

    assert diagnosis is not None
    assert diagnosis.verdict == "none"


def test_rows_of_a_learned_table_that_follow_the_expected_ones_are_not_explained() -> None:
    longer = np.vstack([LEARNED, np.random.default_rng(8).normal(size=(3, 16))])

    known, unknown = learned_diagnosis(LEARNED[3:]), learned_diagnosis(longer[3:])

    assert known is not None
    assert unknown is not None
    assert (known.verdict, names(known)) == ("diagnosed", ["position-offset", "truncated"])
    assert (unknown.verdict, names(unknown)) == ("none", ["position-offset"])
    assert known.elements + 3 * 16 == unknown.elements == LEARNED.size
    assert unknown.first_mismatch is not None
    assert unknown.first_mismatch.index == (29, 0)


def test_tables_of_wrong_settings_are_not_kept() -> None:
    def alternatives() -> Iterator[Alternative]:
        for shift in range(8):
            table = ExpectedTable({"weight": float_sample(LEARNED + shift, FLOAT32)}, FLOAT32)
            kept.append(ref(table))
            yield Mistake("rotated-twice"), TableRequest("encoding"), table
            assert sum(each() is not None for each in kept) <= 3

    kept: list[ref[ExpectedTable]] = []
    sent = {"weight": float_sample(np.ones((32, 16)), FLOAT32)}
    expected = ExpectedTable({"weight": float_sample(LEARNED, FLOAT32)}, FLOAT32)
    diagnosis = diagnose(sent, expected, alternatives)

    assert diagnosis is not None
    assert (diagnosis.verdict, len(kept)) == ("none", 16)


def test_unrelated_shapes_have_no_diagnosis() -> None:
    assert learned_diagnosis(np.ones((3, 50))) is None


TABLE = WaveTable(200, 16, "interleaved").table()["table"]
EXPECTED = ExpectedTable({"table": float_sample(TABLE, FLOAT64)}, FLOAT64)
ROWS, COLUMNS = np.arange(200), np.arange(16)


def explanation(*, has_waves: bool = True) -> Explanation:
    size, order = SizeFault((), 200, COLUMNS, COLUMNS), OrderFault((), ROWS, COLUMNS)
    return Explanation((), size, order, EXPECTED.waves if has_waves else None)


def pair_of(sent: np.ndarray, dtype: DType = FLOAT32) -> ArrayPair:
    return ArrayPair(TableView.of({"table": float_sample(sent, FLOAT64)}), EXPECTED, dtype, FLOAT64)


def test_rounding_is_explained_only_in_the_type_that_rounded() -> None:
    sent = rounded(TABLE, BFLOAT16)

    assert check(pair_of(sent, BFLOAT16), explanation(), ROWS).is_complete
    assert not check(pair_of(sent, FLOAT32), explanation(), ROWS).is_complete


@pytest.mark.parametrize(
    ("row", "has_waves", "mismatch"),
    [(199, True, None), (1, True, (1, 0)), (199, False, (199, 0))],
)
def test_tolerance_grows_with_the_angle(
    row: int, has_waves: bool, mismatch: tuple[int, int] | None
) -> None:
    sent = TABLE.copy()
    sent[row, 0] += 2e-5

    result = check(pair_of(sent), explanation(has_waves=has_waves), ROWS)

    assert (result.first_mismatch and result.first_mismatch[:2]) == mismatch
    assert result.share == 1 - (mismatch is not None) / TABLE.size


def test_sampled_rows_include_the_first_and_the_last() -> None:
    assert sampled_rows(10, 16).tolist() == list(range(10))
    many = sampled_rows(100_000, 16)
    assert (len(many), many[0], many[-1]) == (64, 0, 99_999)
    assert len(sampled_rows(100_000, 4096)) == 16
