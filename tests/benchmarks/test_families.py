"""The tables of families that are measured, and the formulas beside them."""

import numpy as np
import pytest

from benchmarks.families.comparisons import COMPARISONS, Comparison
from benchmarks.families.every import measure_family
from benchmarks.families.formulas import FORMULAS, TYPES, evaluate
from benchmarks.families.fresh import in_new_process
from benchmarks.families.requests import MOST_ELEMENTS, request_of
from benchmarks.results import Ratio
from benchmarks.targets import TARGETS, Target
from service.encodings.family import Family
from service.encodings.registry import FAMILIES
from service.numerics.tables import size

EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.path)


@EVERY_FAMILY
def test_every_family_has_a_table_long_enough_to_measure(family: type[Family]) -> None:
    request = request_of(family)
    elements = sum(map(size, request.tables((*request.dtypes, "")[0])))
    assert elements >= 4096


@EVERY_FAMILY
def test_the_formula_of_a_family_computes_its_tables(family: type[Family]) -> None:
    if family.path not in FORMULAS:
        pytest.skip("it is measured without a formula")
    request = request_of(family)
    dtype = "float64" if "float64" in request.dtypes else (*request.dtypes, "")[0]
    results = evaluate(request, dtype)
    for table, result in zip(request.tables(dtype), results, strict=True):
        ours = table.read(0, size(table)).reshape(table.shape)
        np.testing.assert_allclose(result, ours, rtol=1e-6, atol=1e-6)


@EVERY_FAMILY
def test_the_formula_of_a_family_has_the_element_type_that_is_measured(
    family: type[Family],
) -> None:
    if family.path not in FORMULAS:
        pytest.skip("it is measured without a formula")
    request = request_of(family)
    for dtype in request.dtypes[-1:]:
        first, *_ = evaluate(request, dtype)
        assert first.dtype == TYPES[dtype]


def test_a_family_is_measured_in_each_of_its_element_types() -> None:
    rows = in_new_process(measure_family, "/relative/alibi/slopes", 1)
    assert [row.dtype for row in rows] == ["float32", "float64", "float16", "bfloat16"]
    for row in rows:
        assert min(*row.measured.ours, *row.measured.peer, row.first_seconds) > 0
        assert bool(row.to_32_bits) == (row.dtype != "float32")


@pytest.mark.parametrize("limited", [*COMPARISONS, *TARGETS], ids=lambda limited: limited.measure)
def test_every_limit_of_a_ratio_can_be_judged(limited: Comparison | Target) -> None:
    if limited.peer and limited.at_least:
        assert Ratio([1e-9], limited.at_least).misses != Ratio([1e9], limited.at_least).misses


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda comparison: comparison.measure)
def test_both_sides_of_a_comparison_compute_elements(comparison: Comparison) -> None:
    for side in (comparison.ours, comparison.peer):
        compute = side.prepared()
        assert 0 < compute() <= 4 * MOST_ELEMENTS
