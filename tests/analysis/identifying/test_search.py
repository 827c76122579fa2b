"""How much is looked at in search of what an array is."""

from collections.abc import Iterator

import numpy as np

from service.analysis.identifying.search import MAX_GLANCES, MAX_VERIFIED, Search
from service.analysis.question import Proposal, Question
from service.routes.asked import tables
from service.tables.dtypes import INT64
from tests.analysis.engines import in_float32, proposal, question

ROWS, WIDTH = 40, 8


def every_base(asked: Question) -> Iterator[Proposal]:
    rows, width = asked.sample.values.shape
    if width == WIDTH:
        yield proposal(rows, width)
        for base in range(2, 1000):
            yield proposal(rows, width, base=float(base))


def the_same(asked: Question) -> Iterator[Proposal]:
    rows, width = asked.sample.values.shape
    if width == WIDTH:
        yield proposal(rows, width)
        for step in range(1, 50):
            yield proposal(rows, width, base=10000 + step * 1e-9)


def test_only_so_many_tables_are_looked_at() -> None:
    asked = question(in_float32(ROWS, WIDTH))
    search = Search(asked, tables, [every_base])
    (found,) = search.found(asked)

    assert found.proposal.call.parameters.get("base") is None
    assert len(search.near) == MAX_GLANCES - 1


def test_only_so_many_tables_are_read_whole() -> None:
    asked = question(in_float32(ROWS, WIDTH))

    assert len(Search(asked, tables, [the_same]).found(asked)) == MAX_VERIFIED


def test_a_search_ends_when_what_it_may_read_is_read() -> None:
    asked = question(in_float32(ROWS, WIDTH))
    search = Search(asked, tables, [every_base])
    search.budget = ROWS * WIDTH * 5
    search.found(asked)

    assert len(search.near) < 5


def test_the_beginning_of_a_long_array_says_what_the_whole_is() -> None:
    asked = question(in_float32(1000, WIDTH))
    widths = []

    def counting(part: Question) -> Iterator[Proposal]:
        widths.append(part.sample.values.shape)
        yield from every_base(part)

    (found,) = Search(asked, tables, [counting]).found(asked)
    assert widths == [(256, WIDTH)]
    assert found.proposal.call.parameters["seq_len"] == 1000


def test_an_array_with_its_axes_reversed_is_found() -> None:
    asked = question(in_float32(ROWS, WIDTH).T)
    (found,) = Search(asked, tables, [every_base]).found_reversed(asked)

    assert found.proposal.is_transposed


def test_a_table_is_found_in_the_part_that_is_right() -> None:
    table = in_float32(ROWS, WIDTH)
    table[30:] = 0.5

    def careful(part: Question) -> Iterator[Proposal]:
        if (part.sample.values != 0.5).all():
            yield from every_base(part)

    asked = question(table)
    search = Search(asked, tables, [careful])
    assert not search.found(asked)
    assert not search.found_in_parts(asked)
    best = max(search.near, key=lambda looked: looked.agreeing)
    assert best.proposal.call.parameters == proposal(ROWS, WIDTH).call.parameters


def test_integers_are_not_asked_about_in_parts() -> None:
    asked = question(np.arange(4800.0).reshape(600, 8), INT64)
    lengths = []

    def counting(part: Question) -> Iterator[Proposal]:
        lengths.append(part.sample.values.shape[0])
        yield from ()

    search = Search(asked, tables, [counting])
    assert not search.found(asked)
    assert not search.found_in_parts(asked)
    assert lengths == [600]


def test_what_all_but_a_few_numbers_agree_with_is_near() -> None:
    table = in_float32(ROWS, WIDTH)
    table[7, 3] += 0.5
    asked = question(table)
    search = Search(asked, tables, [every_base])
    assert not search.is_near
    assert not search.found(asked)
    assert search.is_near
