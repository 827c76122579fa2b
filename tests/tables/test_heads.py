"""Biases of heads."""

from dataclasses import dataclass

import numpy as np

from service.tables.alibi import Linear
from service.tables.angle import Float64s, Int64s
from service.tables.dtypes import FLOAT16, FLOAT32, FLOAT64
from service.tables.heads import bias_document, biases
from service.tables.kerple import kernel
from service.tables.positions import Positions
from service.tables.query_key import QueryKey
from service.tables.slopes import GivenSlopes, SlopeRule
from service.tables.table import overflows, setup_work

PAIRS = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(0, 3))


@dataclass(frozen=True, eq=False)
class Tens:
    work_per_element: int = 7

    def values(self, distances: Int64s, heads: range) -> Float64s:
        tens = 10.0 * np.arange(heads.start, heads.stop)[:, np.newaxis]
        return np.asarray(tens + distances, dtype=np.float64)

    def bound(self, pairs: QueryKey, heads: range) -> float:
        return 10.0 * (heads.stop - 1) + pairs.farthest


def test_all_heads_come_first_and_one_alone_is_a_matrix() -> None:
    all_of_them = biases(Tens(), PAIRS, FLOAT64, 3, None)
    last = biases(Tens(), PAIRS, FLOAT64, 3, 2)

    assert (all_of_them.shape, last.shape) == ((3, 2, 3), (2, 3))
    assert all_of_them.read(12, 18).tolist() == last.read(0, 6).tolist() == [20, 21, 22, 19, 20, 21]
    assert last.work_per_element == 7


def test_the_one_head_is_a_parameter_and_no_axis() -> None:
    table = biases(Tens(), PAIRS, FLOAT64, 3, 2)

    one = bias_document("relative-alibi", {"num_heads": 3}, table, 2)
    every = bias_document("relative-alibi", {"num_heads": 3}, table, None)

    assert (one.axes, one.parameters["head"]) == (("query", "key"), 2)
    assert (every.axes, "head" in every.parameters) == (("head", "query", "key"), False)
    assert one.states_axes
    assert every.states_axes


def test_a_table_overflows_where_a_head_that_is_wanted_does() -> None:
    far = QueryKey(Positions.contiguous(0, 1), Positions.contiguous(65_490, 1))

    assert not overflows(biases(Tens(), far, FLOAT16, 3, None))
    assert overflows(biases(Tens(), far, FLOAT16, 4, None))
    assert overflows(biases(Tens(), far, FLOAT16, 4, 3))
    assert not overflows(biases(Tens(), far, FLOAT16, 4, 2))
    assert not overflows(biases(Tens(), far, FLOAT32, 4, 3))


def test_biases_take_the_setting_up_of_their_slopes() -> None:
    ones = np.ones(12)
    rule, sent = SlopeRule("original", 12, 8.0), GivenSlopes(ones)
    expected = setup_work(rule)

    for head in (None, 3):
        linear = [Linear(of, is_symmetric=False, is_masked=False) for of in (rule, sent)]
        found = [setup_work(biases(of, PAIRS, FLOAT64, 12, head)) for of in linear]
        assert found == [expected, 0]
        numbers = {"a": ones, "p": ones}
        kernels = [
            kernel("nemo", given, is_causal=True) for given in (numbers, {**numbers, "b": ones})
        ]
        found = [setup_work(biases(of, PAIRS, FLOAT64, 12, head)) for of in kernels]
        assert found == [expected, 0]
