"""Arrays match proposed tables under the arithmetic that computed them, and no others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Proposal, Sample, TableRequest, read_rows
from service.analysis.identification.structures import ArrayRows, matching_tables
from service.analysis.identification.verification import TableMatch, Verdict, compared
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
)
from service.numerics.tables import ParameterValue, StoredTable
from service.routes.table_urls import tables
from tests.analysis.engines import (
    Numbers,
    by_exponentials,
    by_multiplication,
    in_float32,
    in_float64,
    proposal,
    verify,
)
from tests.analysis.samples import float_input, float_sample, sample_of

ROWS, WIDTH = 600, 64


def verdict(table: Numbers, dtype: DType = FLOAT32, **parameters: float) -> Verdict:
    rows, width = table.shape
    found = verify(
        float_input(table, dtype), proposal(rows, width, dtype.name, **parameters), tables
    )
    assert found is not None
    return found


def verdict_of_request(sample: Sample, request: TableRequest) -> Verdict:
    verdict = verify(IdentifyInput({"x": sample}), Proposal(request, ()), tables)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (in_float64, "exact"),
        (in_float32, "float32"),
        (by_exponentials, "float32"),
        (by_multiplication, "iterated"),
    ],
)
def test_arithmetic_of_an_engine_is_named(engine: Callable[[int, int], Numbers], name: str) -> None:
    found = verdict(engine(ROWS, WIDTH))

    assert found.arithmetic[0].name == name
    assert found.first_mismatch is None
    assert found.agreeing == 1


def test_float64_table_is_not_called_exact() -> None:
    found = verdict(in_float64(ROWS, WIDTH), FLOAT64)

    assert found.arithmetic[0].name == "float64"
    assert 0 < found.max_absolute < 1e-12


@pytest.mark.parametrize("narrow", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("part", ["positions", "frequencies"])
def test_narrow_positions_and_frequencies_have_different_names(narrow: DType, part: str) -> None:
    found = verdict(in_float32(3000, WIDTH, **{f"{part}_in": narrow}))  # type: ignore[arg-type]

    assert [each.name for each in found.arithmetic] == [f"{narrow.name}-{part}"]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_float32_table_cast_to_a_narrow_type_matches(dtype: DType) -> None:
    assert verdict(in_float32(2048, WIDTH), dtype).arithmetic[0].name in {"exact", "float32"}


@pytest.mark.parametrize(("index", "error"), [((50, 40), 2e-6), ((300, 20), 8e-7), ((333, 0), 0.5)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_first_mismatch_is_a_wrong_element_however_small_its_error(
    index: tuple[int, int], error: float, *, is_transposed: bool
) -> None:
    table = in_float32(ROWS, WIDTH)
    table[index] += error
    given = replace(proposal(ROWS, WIDTH), is_transposed=is_transposed)

    found = verify(float_input(table.T if is_transposed else table), given, tables)

    assert found is not None
    assert not found.matches
    assert 0.9999 < found.agreeing < 1
    mismatch = found.first_mismatch
    assert mismatch is not None
    assert mismatch.index == (index[::-1] if is_transposed else index)
    assert mismatch.position == index[0]
    assert mismatch.error > mismatch.allowed


@pytest.mark.parametrize("base", [10001.0, 9999.0, 500000.0])
def test_table_of_another_base_does_not_match(base: float) -> None:
    assert not verdict(in_float64(ROWS, WIDTH, base)).matches
    assert verdict(in_float64(ROWS, WIDTH, base), base=base).matches


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_noise_does_not_match_alone_or_added_to_the_table(share: float, size: float) -> None:
    noise = size * np.random.default_rng(3).normal(size=(ROWS, WIDTH))

    assert not verdict(share * in_float32(ROWS, WIDTH) + noise).matches


@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_integers_match_only_if_equal(dtype: DType) -> None:
    request = TableRequest("relative/t5", {"query_len": 9})
    values = sample_of("relative/t5", query_len=9).values.astype(dtype.storage)
    changed = values.copy()
    changed[4, 5] += 1

    right, wrong = (
        verdict_of_request(Sample.of(StoredTable(each, dtype)), request)
        for each in (values, changed)
    )

    assert (right.matches, right.max_ulp) == (True, None)
    assert wrong.first_mismatch is not None
    assert wrong.first_mismatch.index == (4, 5)


def test_infinities_match_only_infinities() -> None:
    parameters: dict[str, ParameterValue] = {"num_heads": 2, "query_len": 4, "masked": True}
    request = TableRequest("relative/alibi", parameters)
    values = sample_of("relative/alibi", **parameters).reals()
    changed = values.copy()
    changed[0, 3, 0] = -np.inf

    right, wrong = (verdict_of_request(float_sample(each), request) for each in (values, changed))

    assert (right.matches, wrong.matches) == (True, False)


def test_proposal_without_a_table_has_no_verdict() -> None:
    impossible = Proposal(TableRequest("encoding", {"seq_len": 4, "d_model": 0}), ())

    assert verify(float_input(in_float64(4, 4)), impossible, tables) is None


def sampled(table: Numbers, given: Proposal | None = None) -> TableMatch:
    match = compared(float_input(table), given or proposal(*table.shape), tables)
    assert match is not None
    return match


def test_claims_that_fail_on_sampled_rows_are_dropped_except_the_best_where_all_fail() -> None:
    table = in_float32(4096, 64)
    right = sampled(table)
    table[0, 0] = 0.5
    wrong = sampled(table)

    assert right.agreeing == 1
    assert right.claims[0].arithmetic.name == "float32"
    assert 0.999 < wrong.agreeing < 1
    assert len(wrong.claims) == 1


@pytest.mark.parametrize(
    ("array", "count", "is_transposed", "element", "index"),
    [
        (float_sample(np.zeros((1, 6, 1, 4))), None, False, (2, 3), (0, 2, 0, 3)),
        (float_sample(np.zeros((4, 6))), None, True, (2, 3), (3, 2)),
        (Sample.of(StoredTable(np.zeros((6, 2), "<c8"), COMPLEX64)), 6, False, (2, 3), (2, 1)),
    ],
    ids=["axes of length 1", "reversed axes", "complex numbers"],
)
def test_index_refers_to_the_submitted_array(
    array: Sample,
    count: int | None,
    element: tuple[int, int],
    index: tuple[int, ...],
    *,
    is_transposed: bool,
) -> None:
    table = StoredTable(np.zeros((6, 4), np.float32), FLOAT32)
    rows = ArrayRows.of(array, table, count, is_transposed=is_transposed)

    assert rows.values.shape == (6, 4)
    assert rows.index(*element) == index


def test_table_rows_are_read_by_index() -> None:
    table = StoredTable(np.arange(24, dtype=np.float32).reshape(6, 4), FLOAT32)

    assert (read_rows(np.array([0, 2, 3, 5]), table, 4)[:, 0] == [0, 8, 12, 20]).all()


def test_table_rows_are_rounded_to_the_type_of_the_array() -> None:
    table = StoredTable(np.array([[1 / 3]]), FLOAT64)
    rows = ArrayRows.of(float_sample(np.zeros((1, 1))), table, None, is_transposed=False)

    assert rows.expected(np.array([0]))[0, 0] == np.float32(1 / 3)


ENCODING = Proposal(TableRequest("encoding", {"seq_len": 6, "d_model": 4}), ())


@pytest.mark.parametrize(
    ("shape", "is_paired"),
    [((1, 6, 4), True), ((6, 5), False), ((5, 4), False), ((24,), False), ((4, 6), False)],
)
def test_table_is_paired_with_an_array_of_its_shape(
    shape: tuple[int, ...], *, is_paired: bool
) -> None:
    found = matching_tables(tables(ENCODING.request), float_input(np.zeros(shape)), ENCODING)

    assert (found is not None) == is_paired


def test_cosines_and_sines_are_paired_by_name() -> None:
    request = TableRequest("rope", {"head_dim": 8, "seq_len": 6, "pack": "half"})
    pair = IdentifyInput({name: float_sample(np.zeros((6, 8))) for name in ("cos", "sin")})
    found = matching_tables(tables(request), pair, Proposal(request, ()))

    assert found is not None
    assert found.keys() == {"cos", "sin"}
    assert matching_tables(tables(ENCODING.request), pair, ENCODING) is None
