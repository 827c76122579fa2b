"""What an array is, from its numbers alone."""

import numpy as np
import pytest

from service.analysis.call import Call
from service.analysis.identifying.identify import Identified, identify
from service.analysis.question import Question
from service.analysis.sample import Sample
from service.routes.asked import tables, url_of
from service.tables.dtypes import BFLOAT16, FLOAT32, FLOAT64
from service.tables.table import StoredTable, size
from tests.analysis.engines import (
    ENGINES,
    Numbers,
    in_float32,
    in_float64,
    question,
    sample,
)


def identified(table: Numbers, dtype: object = FLOAT32) -> Identified:
    return identify(question(table, dtype), tables)  # type: ignore[arg-type]


def urls(found: Identified) -> list[str]:
    return [url_of(verdict.proposal.call) for verdict in found.hypotheses]


@pytest.mark.parametrize("name", ENGINES)
def test_the_papers_encoding_is_identified_with_its_arithmetic(name: str) -> None:
    found = identified(ENGINES[name](512, 64))

    assert found.outcome == "identified"
    assert urls(found)[0] == "/encoding?seq_len=512&d_model=64"
    assert found.hypotheses[0].arithmetic[0].name == name


def test_two_names_of_one_table_are_one_answer() -> None:
    found = identified(in_float64(40, 16))

    assert found.outcome == "identified"
    assert len(found.hypotheses) > 1
    assert "names of one table" in found.notes[0]


def test_another_base_is_measured() -> None:
    found = identified(in_float32(300, 32, base=12345.0))

    assert urls(found)[0] == "/encoding?seq_len=300&d_model=32&base=12345"


def test_numbers_of_a_narrow_type_are_known_in_a_wide_one() -> None:
    narrow = sample(in_float64(64, 32), BFLOAT16).reals()
    found = identified(narrow, FLOAT64)

    assert urls(found)[0] == "/encoding?seq_len=64&d_model=32&dtype=bfloat16"
    assert found.hypotheses[0].arithmetic[0].name == "exact"


def test_an_array_with_its_axes_reversed_is_identified() -> None:
    found = identified(in_float32(64, 32).T)

    assert found.outcome == "identified"
    assert found.hypotheses[0].proposal.is_transposed
    assert urls(found)[0] == "/encoding?seq_len=64&d_model=32"


def test_positions_that_the_engine_could_not_count_are_named() -> None:
    found = identified(in_float32(600, 32, positions_in=BFLOAT16))
    names = [each.name for verdict in found.hypotheses for each in verdict.arithmetic]

    assert found.outcome == "identified"
    assert "bfloat16 positions" in names


@pytest.mark.parametrize("row", [0, 100, 511])
def test_one_wrong_row_is_none_and_said_where(row: int) -> None:
    table = in_float32(512, 64)
    table[row] = np.random.default_rng(5).normal(size=64)
    found = identified(table)

    assert found.outcome == "none"
    assert found.nearest is not None
    assert found.nearest.leaves_at is not None
    assert found.nearest.leaves_at.row == row
    assert url_of(found.nearest.proposal.call) == "/encoding?seq_len=512&d_model=64"


def test_one_wrong_number_is_none_and_said_where() -> None:
    table = in_float32(512, 64)
    table[77, 41] += 3e-6
    found = identified(table)

    assert found.outcome == "none"
    assert found.nearest is not None
    assert found.nearest.leaves_at is not None
    assert found.nearest.leaves_at.index == (77, 41)


@pytest.mark.parametrize("shape", [(1, 8), (4, 4), (64, 32), (700, 16), (3, 5, 7), (128,)])
def test_noise_is_none(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(9).normal(size=shape)

    assert identified(noise).outcome == "none"


def test_a_learned_table_is_none() -> None:
    learned = in_float32(256, 32) + np.random.default_rng(2).normal(size=(256, 32)) * 0.02

    assert identified(learned).outcome == "none"


@pytest.mark.parametrize("number", [0.0, 1.0, 0.5])
def test_a_constant_is_nothing_in_particular(number: float) -> None:
    found = identified(np.full((6, 8), number))

    assert found.outcome == "none"
    assert "the same" in found.notes[0]


def test_a_number_that_is_none_is_named() -> None:
    table = in_float32(40, 16)
    table[7, 3] = np.nan
    found = identified(table)

    assert found.outcome == "none"
    assert "first is at 7, 3" in found.notes[0]


def test_cosines_and_sines_are_identified_together() -> None:
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(8) / 8))
    twice = np.concatenate([angles, angles], axis=1)
    pair = Question({"cos": sample(np.cos(twice)), "sin": sample(np.sin(twice))})
    found = identify(pair, tables)

    assert found.outcome == "identified"
    assert "head_dim=16" in urls(found)[0]
    assert "pack=half" in urls(found)[0]


def test_copies_of_a_table_are_looked_at_once() -> None:
    table = np.repeat(in_float32(20, 16)[:, None], 3, axis=1)
    found = identified(table)

    assert found.outcome == "identified"
    assert urls(found)[0] == "/encoding?seq_len=20&d_model=16"
    assert any("axis 1 holds 3 copies" in note for note in found.notes)


def test_batches_that_differ_are_no_copies() -> None:
    table = np.repeat(in_float32(20, 16)[:, None], 3, axis=1)
    table[7, 1, 4] += 0.5

    assert identified(table).outcome == "none"


POINTWISE = (
    Call("relative/alibi", {"num_heads": 8, "query_len": 12}),
    Call("relative/kerple", {"a": "1,0.5,0.25", "p": "2,1,0.5", "query_len": 12}),
    Call("relative/swin-v2", {"window_size": "8,8"}),
    Call("relative/alibi/slopes", {"num_heads": 12}),
    Call("encoding", {"d_model": 32, "seq_len": 1, "start": 5}),
)


@pytest.mark.parametrize("call", POINTWISE, ids=lambda call: call.resource)
def test_a_number_a_little_off_is_never_part_of_the_table(call: Call) -> None:
    (table,) = tables(call).arrays.values()
    numbers = table.read(0, size(table)).reshape(table.shape).astype(np.float64)
    assert call.resource in urls(identified(numbers))[0]

    sizes = np.abs(numbers)
    for at in (int(sizes.argmax()), int(np.argmin(np.where(sizes > 0, sizes, np.inf)))):
        wrong = numbers.copy()
        wrong.flat[at] *= 1 + 2e-5
        assert not any(url.startswith(f"/{call.resource}?") for url in urls(identified(wrong)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_offset_far_out_is_not_named_for_rows_from_0(dtype: str) -> None:
    call = Call("encoding", {"convention": "mlx", "d_model": 4, "seq_len": 64, "dtype": dtype})
    table = next(iter(tables(call).arrays.values()))
    stored = StoredTable(table.read(0, size(table)).reshape(table.shape), table.dtype)
    found = identify(Question({"x": Sample.of(stored)}), tables)

    assert found.hypotheses
    assert max(verdict.max_absolute for verdict in found.hypotheses) < 1e-3
