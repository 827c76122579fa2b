"""Identification of arrays: by all families, within a budget, in other views, and of libraries."""

from collections.abc import Iterator

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.identification.search import (
    FAMILIES,
    MAX_SAMPLED,
    MAX_VERIFIED,
    Identification,
    Search,
    extended,
    head,
    identify,
    narrowed,
    transposed,
    windows,
    without_copies,
)
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
)
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import tables, url_of
from tests.analysis.engines import (
    ENGINES,
    Numbers,
    in_float32,
    in_float64,
    proposal,
    question,
    sample,
)
from tests.analysis.samples import (
    GRID_FAMILIES,
    agreeing,
    distance,
    input_from,
    input_of,
    nearest,
    proposed,
)
from tests.parity.golden import golden_folder, read_cases


def identified(table: Numbers, dtype: object = FLOAT32) -> Identification:
    return identify(question(table, dtype), tables)  # type: ignore[arg-type]


def urls(found: Identification) -> list[str]:
    return [url_of(verdict.proposal.request) for verdict in found.hypotheses]


@pytest.mark.parametrize("name", ENGINES)
def test_encoding_of_the_paper_is_identified_with_its_arithmetic(name: str) -> None:
    found = identified(ENGINES[name](512, 64))

    assert found.outcome == "identified"
    assert urls(found)[0] == "/encoding?seq_len=512&d_model=64"
    assert found.hypotheses[0].arithmetic[0].name == name


def test_several_names_of_one_table_are_identified() -> None:
    found = identified(in_float64(40, 16))

    assert found.outcome == "identified"
    assert len(found.hypotheses) > 1
    assert "names of one table" in found.notes[0]


def test_unusual_base_is_measured() -> None:
    found = identified(in_float32(300, 32, base=12345.0))

    assert urls(found)[0] == "/encoding?seq_len=300&d_model=32&base=12345"


def test_bfloat16_table_sent_as_float64_is_identified() -> None:
    narrow = sample(in_float64(64, 32), BFLOAT16).reals()
    found = identified(narrow, FLOAT64)

    assert urls(found)[0] == "/encoding?seq_len=64&d_model=32&dtype=bfloat16"
    assert found.hypotheses[0].arithmetic[0].name == "exact"


def test_transposed_array_is_identified() -> None:
    found = identified(in_float32(64, 32).T)

    assert found.outcome == "identified"
    assert found.hypotheses[0].proposal.is_transposed
    assert urls(found)[0] == "/encoding?seq_len=64&d_model=32"


def test_bfloat16_positions_are_named() -> None:
    found = identified(in_float32(600, 32, positions_in=BFLOAT16))
    names = [each.name for verdict in found.hypotheses for each in verdict.arithmetic]

    assert found.outcome == "identified"
    assert "bfloat16 positions" in names


@pytest.mark.parametrize("place", [(0, 0), (100, 0), (511, 0), (77, 41)])
def test_nearest_table_of_a_corrupted_array_has_the_mismatch_there(place: tuple[int, int]) -> None:
    table = in_float32(512, 64)
    if place[1]:
        table[place] += 3e-6
    else:
        table[place[0]] = np.random.default_rng(5).normal(size=64)
    found = identified(table)

    assert found.outcome == "none"
    assert found.nearest is not None
    assert found.nearest.first_mismatch is not None
    assert found.nearest.first_mismatch.index[: 1 + bool(place[1])] == place[: 1 + bool(place[1])]
    assert url_of(found.nearest.proposal.request) == "/encoding?seq_len=512&d_model=64"


@pytest.mark.parametrize("shape", [(1, 8), (4, 4), (64, 32), (700, 16), (3, 5, 7), (128,)])
def test_noise_is_not_identified(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(9).normal(size=shape)

    assert identified(noise).outcome == "none"
    if shape == (64, 32):
        assert identified(in_float32(64, 32) + 0.02 * noise).outcome == "none"


@pytest.mark.parametrize("number", [0.0, 1.0, 0.5])
def test_constant_array_is_not_identified(number: float) -> None:
    found = identified(np.full((6, 8), number))

    assert found.outcome == "none"
    assert "the same" in found.notes[0]


def test_note_has_the_index_of_a_nan() -> None:
    table = in_float32(40, 16)
    table[7, 3] = np.nan
    found = identified(table)

    assert found.outcome == "none"
    assert "first is at 7, 3" in found.notes[0]


def test_cosines_and_sines_are_identified_together() -> None:
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(8) / 8))
    twice = np.concatenate([angles, angles], axis=1)
    pair = IdentifyInput({"cos": sample(np.cos(twice)), "sin": sample(np.sin(twice))})
    found = identify(pair, tables)

    assert found.outcome == "identified"
    assert "head_dim=16" in urls(found)[0]
    assert "pack=half" in urls(found)[0]


def test_copies_along_an_axis_are_identified_with_a_note() -> None:
    table = np.repeat(in_float32(20, 16)[:, None], 3, axis=1)
    copies = identified(table)
    table[7, 1, 4] += 0.5

    assert copies.outcome == "identified"
    assert urls(copies)[0] == "/encoding?seq_len=20&d_model=16"
    assert any("axis 1 has 3 copies" in note for note in copies.notes)
    assert identified(table).outcome == "none"


POINTWISE = (
    TableRequest("relative/alibi", {"num_heads": 8, "query_len": 12}),
    TableRequest("relative/kerple", {"a": "1,0.5,0.25", "p": "2,1,0.5", "query_len": 12}),
    TableRequest("relative/swin-v2", {"window_size": "8,8"}),
    TableRequest("relative/alibi/slopes", {"num_heads": 12}),
    TableRequest("encoding", {"d_model": 32, "seq_len": 1, "start": 5}),
)


@pytest.mark.parametrize("call", POINTWISE, ids=lambda call: call.resource)
def test_table_with_a_slightly_wrong_number_is_not_identified(call: TableRequest) -> None:
    (table,) = tables(call).arrays.values()
    numbers = table.read(0, size(table)).reshape(table.shape).astype(np.float64)
    assert call.resource in urls(identified(numbers))[0]

    sizes = np.abs(numbers)
    for at in (int(sizes.argmax()), int(np.argmin(np.where(sizes > 0, sizes, np.inf)))):
        wrong = numbers.copy()
        wrong.flat[at] *= 1 + 2e-5
        assert not any(url.startswith(f"/{call.resource}?") for url in urls(identified(wrong)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_from_0_are_not_identified_with_a_distant_offset(dtype: str) -> None:
    call = TableRequest(
        "encoding", {"convention": "mlx", "d_model": 4, "seq_len": 64, "dtype": dtype}
    )
    table = next(iter(tables(call).arrays.values()))
    stored = StoredTable(table.read(0, size(table)).reshape(table.shape), table.dtype)
    found = identify(IdentifyInput({"x": Sample.of(stored)}), tables)

    assert found.hypotheses
    assert max(verdict.max_absolute for verdict in found.hypotheses) < 1e-3


ROWS, WIDTH = 40, 8


def every_base(asked: IdentifyInput) -> Iterator[Proposal]:
    rows, width = asked.sample.values.shape
    if width == WIDTH:
        yield proposal(rows, width)
        for base in range(2, 1000):
            yield proposal(rows, width, base=float(base))


def the_same(asked: IdentifyInput) -> Iterator[Proposal]:
    rows, width = asked.sample.values.shape
    if width == WIDTH:
        yield proposal(rows, width)
        for step in range(1, 50):
            yield proposal(rows, width, base=10000 + step * 1e-9)


@pytest.mark.full
def test_search_samples_a_limited_number_of_tables() -> None:
    asked = question(in_float32(ROWS, WIDTH))
    search = Search(asked, tables, [every_base])
    (found,) = search.matches(asked)

    assert found.proposal.request.parameters.get("base") is None
    assert len(search.near) == MAX_SAMPLED - 1


def test_search_verifies_a_limited_number_of_tables() -> None:
    asked = question(in_float32(ROWS, WIDTH))

    assert len(Search(asked, tables, [the_same]).matches(asked)) == MAX_VERIFIED


def test_search_ends_when_the_budget_is_spent() -> None:
    asked = question(in_float32(ROWS, WIDTH))
    search = Search(asked, tables, [every_base])
    search.budget = ROWS * WIDTH * 5
    search.matches(asked)

    assert len(search.near) < 5


@pytest.mark.full
def test_long_array_is_found_by_its_first_rows() -> None:
    asked = question(in_float32(1000, WIDTH))
    widths = []

    def counting(part: IdentifyInput) -> Iterator[Proposal]:
        widths.append(part.sample.values.shape)
        yield from every_base(part)

    (found,) = Search(asked, tables, [counting]).matches(asked)
    assert widths == [(256, WIDTH)]
    assert found.proposal.request.parameters["seq_len"] == 1000


@pytest.mark.full
def test_transposed_array_is_found() -> None:
    asked = question(in_float32(ROWS, WIDTH).T)
    (found,) = Search(asked, tables, [every_base]).matches(asked, is_transposed=True)

    assert found.proposal.is_transposed


@pytest.mark.full
def test_closest_table_is_found_by_the_rows_that_are_right() -> None:
    table = in_float32(ROWS, WIDTH)
    table[30:] = 0.5

    def careful(part: IdentifyInput) -> Iterator[Proposal]:
        if (part.sample.values != 0.5).all():
            yield from every_base(part)

    asked = question(table)
    search = Search(asked, tables, [careful])
    assert not search.matches(asked)
    assert not search.matches_of_parts(asked)
    best = max(search.near, key=lambda looked: looked.agreeing)
    assert best.proposal.request.parameters == proposal(ROWS, WIDTH).request.parameters


def test_integers_are_not_searched_in_parts() -> None:
    asked = question(np.arange(4800.0).reshape(600, 8), INT64)
    lengths = []

    def counting(part: IdentifyInput) -> Iterator[Proposal]:
        lengths.append(part.sample.values.shape[0])
        yield from ()

    search = Search(asked, tables, [counting])
    assert not search.matches(asked)
    assert not search.matches_of_parts(asked)
    assert lengths == [600]


@pytest.mark.full
def test_search_is_near_where_most_numbers_agree() -> None:
    table = in_float32(ROWS, WIDTH)
    table[7, 3] += 0.5
    asked = question(table)
    search = Search(asked, tables, [every_base])
    assert not search.is_near
    assert not search.matches(asked)
    assert search.is_near


RANDOM = np.random.default_rng(11)
ODD_ARRAYS = {
    "nan": np.full((4, 4), np.nan),
    "some nan": np.where(np.eye(6) == 1, np.nan, 0.5),
    "infinite": np.where(np.eye(6) == 1, np.inf, 0.5),
    "zeros": np.zeros((5, 6)),
    "one number": np.array([0.25]),
    "one row": RANDOM.normal(size=(1, 8)),
    "one column": RANDOM.normal(size=(8, 1)),
    "three axes": RANDOM.normal(size=(2, 3, 4)),
    "eight axes": RANDOM.normal(size=(2,) * 8),
    "huge": RANDOM.normal(size=(6, 8)) * 1e300,
    "tiny": RANDOM.normal(size=(6, 8)) * 1e-300,
    "unit circle": np.exp(1j * RANDOM.normal(size=(9, 4))).view(np.float64),
    "falling": np.exp(-np.arange(12.0)),
    "rising": np.exp(np.arange(12.0)),
    "negative": -np.arange(1.0, 9.0),
}


def arrays_of_kinds() -> Iterator[tuple[str, Sample]]:
    """Yield odd float arrays, integers and complex numbers."""
    with np.errstate(over="ignore"):
        for name, values in ODD_ARRAYS.items():
            for dtype in (FLOAT32, FLOAT64):
                elements = values.astype(dtype.storage)
                yield f"{name} {dtype.name}", Sample.of(StoredTable(elements, dtype))
    for shape in ((1,), (7,), (5, 5), (5, 4), (2, 3, 4), (1, 1)):
        integers = RANDOM.integers(-(2**40), 2**40, size=shape)
        yield f"int64 {shape}", Sample.of(StoredTable(integers, INT64))
        numbers = RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)
        yield f"complex64 {shape}", Sample.of(StoredTable(numbers.astype("<c8"), COMPLEX64))


KINDS = dict(arrays_of_kinds())


@pytest.mark.parametrize("sample", KINDS.values(), ids=KINDS)
def test_families_accept_arrays_of_every_kind(sample: Sample) -> None:
    for family in FAMILIES:
        assert len(list(family(IdentifyInput({"x": sample})))) < 100
        assert len(list(family(IdentifyInput({"cos": sample, "sin": sample})))) < 100


def test_array_wider_than_any_table_has_no_proposals() -> None:
    values = np.ones((2, 2**20 + 1), dtype=np.float32)
    question = IdentifyInput({"x": Sample.of(StoredTable(values, FLOAT32))})

    assert not [proposal for family in FAMILIES for proposal in family(question)]


def test_only_arrays_of_two_axes_are_transposed() -> None:
    turned = transposed(question(in_float64(5, 8)))

    assert turned is not None
    assert turned.sample.shape == (8, 5)
    assert transposed(question(np.ones((2, 3, 4)))) is None


def test_array_is_narrowed_to_the_type_of_its_numbers() -> None:
    for narrow in (BFLOAT16, FLOAT16, FLOAT32):
        numbers = sample(in_float64(5, 8), narrow).reals()
        view = narrowed(question(numbers, FLOAT64))
        assert view is not None
        assert view.sample.dtype is narrow
    assert narrowed(question(in_float64(5, 8), FLOAT64)) is None
    assert narrowed(question(in_float64(5, 8), FLOAT32)) is None


def test_head_of_a_long_array_is_256_rows() -> None:
    beginning = head(question(in_float64(2000, 8)))

    assert beginning is not None
    assert beginning.sample.shape == (256, 8)
    assert head(question(in_float64(400, 8))) is None


def test_windows_have_their_first_row_and_positions() -> None:
    whole = IdentifyInput({"x": sample(in_float64(64, 8))}, positions=np.arange(64.0))
    parts = list(windows(whole))

    assert [(part.sample.shape[0], first) for part, first in parts] == [
        (32, 0),
        (32, 32),
        (16, 0),
        (16, 48),
        (4, 0),
        (4, 60),
    ]
    assert all(part.positions is not None and part.positions[0] == first for part, first in parts)


def test_windows_of_a_long_array_have_256_rows_and_exclude_the_head() -> None:
    parts = windows(question(in_float64(4096, 8)))

    assert [(part.sample.shape[0], first) for part, first in parts] == [
        (256, 2048),
        (256, 3072),
        (256, 3840),
    ]


def test_proposal_for_some_rows_is_extended_to_all() -> None:
    whole = extended(proposal(32, 8), 16, 64)

    assert whole is not None
    assert whole.angles is not None
    assert whole.request.parameters["seq_len"] == 64
    assert whole.request.parameters["start"] == -16
    assert (whole.angles.coordinates[:, 0] == np.arange(-16, 48)).all()


def test_first_copy_keeps_the_shape_of_the_other_axes() -> None:
    copied = np.repeat(in_float64(5, 8)[None, :, None], 3, axis=2)
    single = without_copies(question(copied))

    assert single is not None
    assert single[1] == 2
    assert single[0].sample.shape == (1, 5, 1, 8)
    assert single[0].sample.values.shape == (5, 8)
    copied[0, 2, 1, 3] += 1
    assert without_copies(question(copied)) is None


def test_grid_of_diffusers_whose_axes_are_not_concatenated_is_proposed() -> None:
    (case,) = (
        case
        for case in read_cases(golden_folder())
        if case.id == "rotary_table.diffusers_rope_2d.dev.04"
    )
    inputs = input_from({"out": case.outputs["out"]})

    assert min(nearest(family, inputs) for family in GRID_FAMILIES) <= case.atol["out"]


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_no_grid(seed: int) -> None:
    noise = input_from({"out": np.random.default_rng(seed).standard_normal((48, 32))})

    assert not proposed(noise, GRID_FAMILIES)


@pytest.mark.parametrize("url", ["/encoding?seq_len=64&d_model=32", "/rope?seq_len=64&head_dim=32"])
def test_sequence_is_no_grid(url: str) -> None:
    assert not proposed(input_of(url), GRID_FAMILIES)


def test_angles_of_a_proposal_give_its_table() -> None:
    question = input_of("/rope/axial?convention=qwen2_vl&head_dim=16&grid=3,5&pack=concat")
    proposal = next(each for family in GRID_FAMILIES for each in family(question))
    assert proposal.angles is not None
    turning = proposal.angles

    channels = turning.channels["rope"]
    frequency, is_sine = channels.indices()
    angles = turning.coordinates[:, turning.axis] * turning.omega
    made = np.where(is_sine, np.sin(angles[:, frequency]), np.cos(angles[:, frequency]))

    assert proposal.request == TableRequest(
        "rope/axial", {"convention": "qwen2_vl", "head_dim": 16, "grid": (3, 5), "pack": "concat"}
    )
    assert np.abs(made - question.sample.reals()).max() < 2**-23
    assert distance(proposal, question) == 0


# A few operations of float32.
FLOAT32_SHARE = 2.0**-18


@pytest.mark.parametrize(
    "url",
    [
        "/relative/t5?query_len=40",
        "/relative/deberta?query_len=300",
        "/relative/shaw?query_len=9&max_relative_position=3",
        "/relative/swin?window_size=3,4",
        "/rope/permutation?head_dim=8&num_attention_heads=2",
        "/relative/alibi/slopes?num_heads=12",
        "/relative/alibi?num_heads=12&query_len=6",
        "/relative/kerple?a=1,0.5&p=2,1&query_len=9",
        "/relative/sandwich?num_heads=4&head_dim=64&query_len=9",
        "/relative/fire?query_len=9",
        "/relative/swin-v2?window_size=4,6",
        "/relative/dynamic?seq_len=7&log_distance=true",
    ],
)
def test_first_proposal_for_a_table_is_its_own_resource(url: str) -> None:
    question = input_of(url)

    proposals = proposed(question)

    assert f"/{proposals[0].request.resource}" == url.partition("?")[0]
    assert agreeing(question, proposals[:1], FLOAT32_SHARE)


@pytest.mark.parametrize("shape", [(7,), (64,), (9, 9), (40, 12), (4, 9, 9), (12, 5, 30)])
@pytest.mark.parametrize("seed", range(3))
def test_noise_has_no_proposals(shape: tuple[int, ...], seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=shape)
    integers = np.random.default_rng(seed).integers(0, 32, size=shape)

    assert not proposed(input_from(noise))
    assert not proposed(input_from(noise.astype(np.float32)))
    assert not proposed(input_from(np.abs(noise)))
    if len(shape) == 2:
        assert not proposed(input_from(integers))
    for dtype in (FLOAT16, BFLOAT16):
        assert not proposed(question(noise, dtype))


def test_learned_biases_have_no_proposals() -> None:
    buckets = input_of("/relative/t5?query_len=40").sample.integers()
    assert buckets is not None
    weight = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)

    assert not proposed(input_from(np.moveaxis(weight[buckets], 2, 0).copy()))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, np.nan, np.inf])
@pytest.mark.parametrize("shape", [(1,), (2,), (1, 5), (4, 4), (2, 3, 3), (0,)])
def test_constant_and_tiny_arrays_have_few_proposals(value: float, shape: tuple[int, ...]) -> None:
    question = input_from(np.full(shape, value))

    assert not agreeing(question, [], 0)
    assert len(proposed(question)) <= 4


def test_pair_of_arrays_has_no_distance_proposals() -> None:
    sample = input_of("/relative/t5?query_len=40").sample

    assert not proposed(IdentifyInput({"cos": sample, "sin": sample}))
