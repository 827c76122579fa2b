"""Biases of heads."""

from dataclasses import dataclass

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.dtypes import FLOAT64
from service.tables.heads import bias_document, biases
from service.tables.positions import Positions
from service.tables.query_key import QueryKey

PAIRS = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(0, 3))


@dataclass(frozen=True, eq=False)
class Tens:
    work_per_element: int = 7

    def values(self, distances: Int64s, head: int) -> Float64s:
        return np.asarray(10.0 * head + distances, dtype=np.float64)


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
