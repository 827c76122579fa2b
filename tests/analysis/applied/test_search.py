"""The shortest list of mistakes is found, or the nearest application."""

from typing import Any

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.search import search
from service.analysis.applied.spin import Target
from service.analysis.applied.wiring import Wiring
from service.analysis.mistakes.catalogue import Mistake
from tests.analysis.rotating import Engine

RIGHT = Application(Wiring(32, 32))


def evidence(rows: int = 40, **changes: Any) -> Evidence:
    want = Engine(32)
    x = np.random.default_rng(0).standard_normal((2, rows, 32)).astype(np.float32)
    y = want.having(**changes).rotate(x).astype(float)
    return Evidence(x.astype(float), y, Target.of(*want.tables(rows)), 2.0**-24)


def names(found: Application) -> list[str]:
    return [mistake.name for mistake in found.mistakes]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert search(evidence(), [RIGHT], 2) is RIGHT


def test_the_first_start_that_is_right_is_given() -> None:
    other = Application(Wiring(32, 32, read="interleaved", written="interleaved"))

    assert search(evidence(layout="interleaved"), [RIGHT, other], 2) is other


def test_the_shortest_list_is_found() -> None:
    one = search(evidence(base=100.0), [RIGHT], 2)
    two = search(evidence(base=100.0, start=4), [RIGHT], 2)

    assert names(one) == ["wrong-base"]
    assert names(two) == ["wrong-base", "position-offset"]


def test_no_more_mistakes_are_made_than_allowed() -> None:
    found = search(evidence(base=100.0, start=4), [RIGHT], 1)

    assert len(names(found)) <= 1


def test_a_name_goes_before_frequencies_without_one() -> None:
    twice = search(evidence(turns=2.0, base=100.0), [RIGHT], 2)
    other = search(evidence(llama3=True), [RIGHT], 2)

    assert names(twice) == ["rotated-twice", "wrong-base"]
    assert names(other) == ["wrong-rule"]


def test_frequencies_without_a_name_may_come_with_another_mistake() -> None:
    assert names(search(evidence(llama3=True, start=4), [RIGHT], 2)) == [
        "wrong-rule",
        "position-offset",
    ]


def test_what_nothing_comes_near_to_is_compared_with_what_is_wanted() -> None:
    seen = evidence()
    seen.y[...] = np.random.default_rng(1).standard_normal(seen.y.shape)

    assert search(seen, [RIGHT], 2) is RIGHT


def test_mistakes_of_a_start_are_kept() -> None:
    start = Application(Wiring(32, 32), mistakes=(Mistake("axes-swapped"),))

    assert names(search(evidence(turns=-1.0), [start], 1)) == ["axes-swapped", "inverse"]
