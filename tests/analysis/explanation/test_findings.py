"""Tables that are right, or have one mistake, but for some numbers: the answer names the place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from service.analysis.explanation.engine import Explanation, explain
from service.analysis.explanation.places import placed
from service.analysis.explanation.target import Target, target_of
from service.analysis.precision import round_array
from service.encodings.rotary.rope import Rope
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable

Fault: TypeAlias = Callable[[Float64s, Float64s], None]
"""Changes cosines and sines, each (S, K), in place."""

DTYPES = {"float32": FLOAT32, "bfloat16": BFLOAT16, "float16": FLOAT16}
RANDOM = np.random.default_rng(7)


@dataclass(frozen=True)
class Table:
    """A rotary table: the one that is expected, or, with another base, a mistaken one."""

    rows: int = 64
    width: int = 32
    base: float = 500000.0
    pack: str = "half"
    dtype: str = "float32"
    start: int = 0
    expected: Mapping[str, Any] = field(default_factory=dict)

    def target(self) -> Target:
        given = {"head_dim": self.width, "rope_theta": 500000, "seq_len": self.rows}
        rope = Rope.model_validate(
            {**given, "pack": self.pack, "dtype": self.dtype, **self.expected}
        )
        target = target_of(rope.document(), None, rope.rule(self.width), rows=self.rows)
        assert target is not None
        return target

    def waves(self) -> tuple[Float64s, Float64s]:
        omega = self.base ** (-np.arange(0, self.width, 2) / self.width)
        angles = np.arange(self.start, self.start + self.rows)[:, None] * omega
        return np.cos(angles), np.sin(angles)

    def packed(self, cosines: Float64s, sines: Float64s) -> dict[str, Float64s]:
        if self.pack == "concat":
            return {"table": np.concatenate([cosines, sines], axis=1)}
        if self.pack == "flat":
            return {"table": np.stack([cosines, sines], axis=2).reshape(len(cosines), -1)}
        if self.pack == "half":
            cosines, sines = (np.concatenate([part, part], axis=1) for part in (cosines, sines))
        return {"cos": cosines, "sin": sines}

    def explained(self, fault: Fault) -> Explanation:
        cosines, sines = self.waves()
        fault(cosines, sines)
        return explain(stored(self.packed(cosines, sines), DTYPES[self.dtype]), self.target())


def stored(arrays: Mapping[str, Float64s], dtype: DType) -> dict[str, StoredTable]:
    return {name: round_array(array, dtype) for name, array in arrays.items()}


def noise(*where: Any) -> Fault:
    def change(cosines: Float64s, sines: Float64s) -> None:
        for part in (cosines, sines):
            part[where] = RANDOM.normal(size=part[where].shape)

    return change


def single(row: int, lane: int, value: float) -> Fault:
    def change(_: Float64s, sines: Float64s) -> None:
        sines[row, lane] = value

    return change


def other_rows(by: int, base: float = 500000.0) -> Fault:
    def change(_: Float64s, sines: Float64s) -> None:
        rows, pairs = sines.shape
        omega = base ** (-np.arange(pairs) / pairs)
        sines[:] = np.sin((np.arange(rows) + by)[:, None] * omega)

    return change


EVERY = slice(None)
PLACES: Mapping[str, tuple[Fault, str, Mapping[str, Any]]] = {
    "rows from 40 on": (noise(slice(40, None)), "rows", {"from": 40, "to": 63}),
    "rows 10 to 19": (noise(slice(10, 20)), "rows", {"from": 10, "to": 19}),
    "every 5th row from 3 on": (noise(slice(3, None, 5)), "rows", {"from": 3, "every": 5}),
    "pairs 4 to 6": (noise(EVERY, slice(4, 7)), "lanes", {"from": 4, "to": 6}),
    "every 3rd pair from 1 on": (
        noise(EVERY, slice(1, None, 3)),
        "lanes",
        {"from": 1, "every": 3},
    ),
    "pair 3": (noise(EVERY, 3), "lanes", {"from": 3, "to": 3}),
    "pairs 2 to 4 in rows from 30 on": (
        noise(slice(30, None), slice(2, 5)),
        "rows",
        {"from": 30, "lanes": {"from": 2, "to": 4}},
    ),
    "the sine of pair 7 of row 5": (single(5, 7, 1.5), "element", {"row": 5, "lane": 7}),
    "rows 3, 4, 40 and 57": (noise([3, 4, 40, 57]), "rows", {"first": [3, 4, 40, 57]}),
}


def has(values: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    return expected.items() <= values.items()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("dtype", "pack"),
    [
        ("float32", "half"),
        ("float32", "flat"),
        ("bfloat16", "concat"),
        ("bfloat16", "half"),
        ("float16", "compact"),
    ],
)
def test_a_right_table_is_right_but_for_the_place(place: str, dtype: str, pack: str) -> None:
    fault, name, values = PLACES[place]

    found = Table(dtype=dtype, pack=pack).explained(fault)

    assert found.verdict == "none"
    assert found.findings[0].name == name
    assert found.findings[0].text == f"right but for {place}"
    assert has(found.findings[0].values, values)


MISTAKEN = {
    "wrong-base": Table(base=10000.0),
    "position-offset": Table(start=5, pack="concat"),
    "config-key-ignored": Table(expected={"rope_type": "linear", "factor": 4}),
}


@pytest.mark.parametrize(
    ("mistake", "place"),
    [
        *(("wrong-base", place) for place in PLACES),
        ("position-offset", "rows from 40 on"),
        ("position-offset", "every 3rd pair from 1 on"),
        ("config-key-ignored", "every 5th row from 3 on"),
        ("config-key-ignored", "pair 3"),
    ],
)
def test_a_mistaken_table_has_its_mistake_and_the_place(mistake: str, place: str) -> None:
    fault, name, values = PLACES[place]

    found = MISTAKEN[mistake].explained(fault)

    assert found.verdict == "none"
    assert found.findings[0].name == name
    assert found.findings[0].text.endswith(f"This explains all numbers but for {place}")
    assert has(found.findings[0].values, values)
    assert [each["name"] for each in found.findings[0].values["mistakes"]] == [mistake]


@pytest.mark.parametrize("first", [518, 519, 1777, 2998])
def test_the_first_wrong_row_of_a_large_table_is_exact(first: int) -> None:
    found = Table(rows=3000, pack="concat").explained(noise(slice(first, None)))

    assert found.verdict == "none"
    assert has(found.findings[0].values, {"from": first, "to": 2999})


def test_one_wrong_number_of_a_large_table_is_found() -> None:
    found = Table(rows=3000, pack="concat").explained(single(2222, 3, 0.25))

    assert found.verdict == "none"
    assert has(found.findings[0].values, {"row": 2222, "lane": 3})


@pytest.mark.parametrize("offset", [-8, -1, 3, 17])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_sines_of_other_rows_beside_right_cosines_are_named(offset: int, base: float) -> None:
    found = Table(base=base, pack="concat").explained(other_rows(offset, base))

    assert found.verdict == "none"
    assert found.findings[0].name == "sine-offset"
    assert found.findings[0].values["offset"] == offset


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("rows", [64, 3000])
def test_the_place_of_numbers_that_are_not_finite_is_named(value: float, rows: int) -> None:
    found = Table(rows=rows).explained(single(61, 2, value))

    assert found.verdict == "none"
    assert found.findings[0].text == "right but for the sine of pair 2 of row 61"
    assert found.findings[1].name == "not-finite"
    assert has(found.findings[1].values, {"row": 61, "lane": 2})


def test_copies_that_differ_are_named() -> None:
    table = Table(pack="half")
    arrays = table.packed(*table.waves())
    arrays["cos"][9, 20] = 0.5

    found = explain(stored(arrays, FLOAT32), table.target())

    assert found.verdict == "none"
    assert found.findings[0].text == "right but for the second copy of pair 4 of row 9"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_the_first_batch_that_is_wrong_is_named(axis: int, base: float) -> None:
    table = Table(base=base, pack="concat")
    cosines, sines = table.waves()
    right = table.packed(cosines, sines)["table"]
    noise(slice(40, None))(cosines, sines)
    wrong = table.packed(cosines, sines)["table"]
    arrays = {"table": np.stack([right, right, wrong, wrong], axis=axis)}

    found = explain(stored(arrays, FLOAT32), table.target())

    assert found.verdict == "none"
    assert found.findings[0].name == "batches"
    assert found.findings[0].text.endswith("but for batches from 2 on")
    assert has(found.findings[0].values, {"axis": axis, "from": 2, "to": 3})
    assert found.findings[1].text.startswith("batch 2: ")
    assert found.findings[1].text.endswith("but for rows from 40 on")


def seen(change: Callable[[Float64s, Float64s], tuple[Float64s, Float64s]]) -> dict[str, Any]:
    """Return the values of findings by name for a changed table."""
    table = Table(pack="concat", base=500000.0)
    arrays = table.packed(*change(*table.waves()))
    found = explain(stored(arrays, FLOAT32), table.target())
    assert found.verdict == "none"
    return {each.name: each.values for each in found.findings}


def test_small_noise_is_near_the_table() -> None:
    found = seen(
        lambda *parts: tuple(each + RANDOM.normal(size=each.shape) / 100 for each in parts)
    )

    assert 0.01 < found["near"]["within"] < 0.02
    assert found["unit-length"]["share"] > 0.9


def test_memory_that_nobody_wrote_is_called_that() -> None:
    found = seen(
        lambda *parts: tuple(np.exp(RANDOM.uniform(-99, 30, each.shape)) for each in parts)
    )

    assert found["uninitialised"]["share"] > 0.1


@pytest.mark.parametrize("step", [1.0, 0.5, -3.0])
def test_large_numbers_alone_are_not_called_memory(step: float) -> None:
    ramp: Float64s = 1000 + step * np.arange(64 * 32, dtype=np.float64).reshape(64, 32)

    found = seen(lambda *_: (ramp[:, :16], ramp[:, 16:]))

    assert found["sizes"]["share"] > 0.3
    assert "uninitialised" not in found


def test_frequencies_of_no_rule_are_no_progression() -> None:
    angles = np.outer(np.arange(64), RANDOM.uniform(0, 3, 16))

    found = seen(lambda *_: (np.cos(angles), np.sin(angles)))

    assert found["frequencies"].keys() == {"first"}


@pytest.mark.parametrize("width", [8, 32, 64])
def test_pairs_in_reverse_order_are_one_mistake(width: int) -> None:
    omega = 500000.0 ** (-np.arange(0, width, 2) / width)[::-1]
    angles = np.outer(np.arange(64), omega)
    table = Table(width=width, pack="concat")
    numbers = table.packed(np.cos(angles), np.sin(angles))["table"]
    sent = {"x": StoredTable(numbers.astype(np.float32), FLOAT32)}

    found = explain(sent, table.target())

    assert [each.sentence for each in found.mistakes] == [
        "The exponent of the frequencies is that of the pairs in reverse order; it should be 2k/d."
    ]


def test_frequencies_that_rise_are_said_to() -> None:
    omega = 500000.0 ** (-np.arange(16) / 16)[::-1] * (1 + 1e-3 * np.arange(16))
    angles = np.outer(np.arange(64), omega)

    sent = StoredTable(np.hstack([np.cos(angles), np.sin(angles)]).astype(np.float32), FLOAT32)
    (found,) = explain({"x": sent}, Table(pack="concat").target()).findings

    assert found.text == "frequencies rise from 4.54198e-06 by 2.273 a pair"


@pytest.mark.parametrize(
    ("where", "name", "text"),
    [
        (np.s_[2, 1], "element", "pair 1 of row 2"),
        (np.s_[:, :], "rows", "all rows"),
        (np.s_[19, :], "rows", "row 19"),
        (np.s_[1:3, :], "rows", "rows 1 and 2"),
        (np.s_[5::11, :], "rows", "rows 5 and 16"),
        (np.s_[:, 2:], "lanes", "pairs from 2 on"),
        (np.s_[1::2, 3], "rows", "pair 3 in every 2nd row from 1 on"),
        (np.s_[4:9:2, :], "rows", "every 2nd row from 4 to 8"),
    ],
)
def test_a_place_is_read_from_a_mask(where: Any, name: str, text: str) -> None:
    bad: NDArray[np.bool_] = np.zeros((20, 8), dtype=np.bool_)
    bad[where] = True

    assert placed(bad).name == name
    assert placed(bad).text == text


def test_rows_and_pairs_that_are_both_wrong_are_told_apart() -> None:
    bad = np.zeros((20, 8), dtype=np.bool_)
    bad[:, 5] = bad[12:, :] = True

    assert placed(bad).text == "pair 5, and rows from 12 on"


def test_a_place_may_have_holes() -> None:
    bad = np.zeros((100, 8), dtype=np.bool_)
    bad[40:] = True
    bad[57] = False

    assert placed(bad).text == "rows from 40 on"
    assert placed(bad).values == {"from": 40, "to": 99, "count": 59}


def test_scattered_faults_are_counted() -> None:
    bad = np.random.default_rng(1).random((100, 30)) < 0.1

    assert placed(bad).name == "scattered"
    assert placed(bad).values["count"] == bad.sum()
