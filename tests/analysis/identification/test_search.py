"""Arrays are identified within a budget, also by views of them, and noise is not."""

from collections.abc import Iterator

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Proposal, Sample
from service.analysis.identification.search import (
    MAX_SAMPLED,
    Identification,
    Search,
    identify,
    narrowed,
    propose,
    without_copies,
)
from service.analysis.precision import rounded
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
)
from service.numerics.tables import ParameterValue, StoredTable
from service.routes.table_urls import tables, url_of
from tests.analysis.engines import ENGINES, Numbers, in_float32, in_float64, laid_out, proposal
from tests.analysis.samples import (
    GRID_FAMILIES,
    agreeing,
    float_input,
    float_sample,
    input_from,
    input_of,
    nearest,
    proposed,
    sample_of,
)
from tests.parity.golden import golden_folder, read_cases


def identified(table: Numbers, dtype: object = FLOAT32) -> Identification:
    return identify(float_input(table, dtype), tables)  # type: ignore[arg-type]


def urls(found: Identification) -> list[str]:
    return [url_of(verdict.proposal.request) for verdict in found.hypotheses]


@pytest.mark.parametrize("name", ENGINES)
def test_encoding_of_the_paper_is_identified_with_its_arithmetic(name: str) -> None:
    found = identified(ENGINES[name](512, 64))

    assert found.outcome == "identified"
    assert urls(found)[0] == "/encoding?seq_len=512&d_model=64"
    assert found.hypotheses[0].arithmetic[0].name == name


@pytest.mark.parametrize(
    ("table", "url"),
    [
        (in_float32(300, 32, base=12345.0), "/encoding?seq_len=300&d_model=32&base=12345"),
        (in_float32(64, 32).T, "/encoding?seq_len=64&d_model=32"),
        (in_float32(600, 32, positions_in=BFLOAT16), "/encoding?seq_len=600&d_model=32"),
    ],
    ids=["unusual base", "transposed", "bfloat16 positions"],
)
def test_table_is_identified_however_it_is_made(table: Numbers, url: str) -> None:
    found = identified(table)

    assert (found.outcome, urls(found)[0]) == ("identified", url)


def test_large_float64_table_is_identified_where_few_numbers_are_rounded_to_their_neighbors() -> (
    None
):
    found = identified(in_float64(4096, 512))

    assert (found.outcome, urls(found)[0]) == ("identified", "/encoding?seq_len=4096&d_model=512")
    # Otherwise the test shows nothing.
    assert found.hypotheses[0].max_absolute > 0


def test_half_table_of_a_usual_base_is_not_identified_as_one_of_an_unusual_base() -> None:
    ratio = np.float32(500000) ** np.float32(-2 / 512)
    angle, angles = np.arange(4096, dtype=np.float32), []
    for _ in range(256):
        angles.append(angle)
        angle = angle * ratio
    found = identified(laid_out(np.stack(angles, axis=1)), FLOAT16)

    assert urls(found)[0] == "/encoding?seq_len=4096&d_model=512&base=500000&dtype=float16"


def waves_from_1(rows: int, pairs: int) -> Numbers:
    angles = np.outer(1 + np.arange(rows), 1e6 ** (-np.arange(pairs) / pairs))
    return laid_out(angles)


@pytest.mark.parametrize(
    ("table", "dtype"),
    [
        (1e30 * waves_from_1(7, 64), FLOAT32),
        (np.where(np.arange(64).reshape(2, 32) == 32, 0.3, 0.0), FLOAT16),
        (np.where(np.arange(40).reshape(20, 2) == 1, 0.3, 0.0), FLOAT16),
    ],
    ids=["multiples beyond any position", "one number in a row", "one number in a column"],
)
def test_array_that_no_table_has_is_not_identified(table: Numbers, dtype: object) -> None:
    assert identified(table, dtype).outcome == "none"


def test_table_of_a_rule_with_a_steep_mixture_is_identified_or_not_without_an_error() -> None:
    url = (
        "/rope?head_dim=64&seq_len=16&rope_theta=1000000&rope_type=llama3&factor=8"
        "&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=4096&pack=concat"
    )

    found = identify(input_of(url), tables)

    assert all("mixed_b" not in each for each in urls(found))


def test_less_exact_and_less_plain_table_is_not_verified_beside_one_that_matches() -> None:
    table = in_float32(300, 32)
    found = identified(np.hstack([table[:, 1::2], table[:, ::2]]))

    assert found.hypotheses[0].arithmetic[0].name == "float32"
    assert all(each.arithmetic[0].name == "float32" for each in found.hypotheses)


def test_several_requests_for_one_table_are_identified_with_a_note() -> None:
    found = identified(in_float64(40, 16))

    assert found.outcome == "identified"
    assert len(found.hypotheses) > 1
    assert "URLs describe the same table" in found.notes[0]


def test_transposed_float64_array_of_float32_numbers_is_identified() -> None:
    table = sample_of("encoding", seq_len=8, d_model=4, layout="concatenated").reals()
    found = identified(table.T, FLOAT64)

    assert urls(found)[0] == "/encoding?seq_len=8&d_model=4&convention=mae"
    assert found.hypotheses[0].proposal.is_transposed


@pytest.mark.parametrize("pack", ["half_concat", "sin_half_concat"])
@pytest.mark.parametrize("rows", [3, 5, 17])
def test_reversed_rows_of_a_rotary_table_are_identified(pack: str, rows: int) -> None:
    table = sample_of("rope", head_dim=4, seq_len=rows, pack=pack).reals()
    (url,) = urls(identified(table[::-1]))

    positions = f"{rows - 1}:-1:-1"
    assert url == f"/rope?head_dim=4&rope_theta=10000&positions={positions}&pack={pack}"


def test_measured_list_of_frequencies_is_not_the_nearest_table() -> None:
    omega = np.sort(np.random.default_rng(3).uniform(0.01, 1, 8))[::-1]
    angles = np.arange(64.0)[:, None] * omega
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    table[40, 3] += 0.5

    found = identified(table)

    assert (found.outcome, found.nearest) == ("none", None)


@pytest.mark.parametrize("index", [(0, 0), (100, 0), (511, 0), (77, 41)])
def test_nearest_table_of_a_corrupted_array_has_the_mismatch_there(index: tuple[int, int]) -> None:
    table = in_float32(512, 64)
    if index[1]:
        table[index] += 3e-6
    else:
        table[index[0]] = np.random.default_rng(5).normal(size=64)
    found = identified(table)

    assert found.outcome == "none"
    assert found.nearest is not None
    assert found.nearest.first_mismatch is not None
    assert found.nearest.first_mismatch.index[: 1 + bool(index[1])] == index[: 1 + bool(index[1])]
    assert url_of(found.nearest.proposal.request) == "/encoding?seq_len=512&d_model=64"


@pytest.mark.parametrize("shape", [(1, 8), (4, 4), (64, 32), (700, 16), (3, 5, 7), (128,)])
def test_noise_is_not_identified(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(9).normal(size=shape)

    assert identified(noise).outcome == "none"
    if shape == (64, 32):
        assert identified(in_float32(64, 32) + 0.02 * noise).outcome == "none"


WITH_NAN = in_float32(40, 16)
WITH_NAN[7, 3] = np.nan


@pytest.mark.parametrize(
    ("table", "note"),
    [
        (np.zeros((6, 8)), "all elements are equal"),
        (np.full((6, 8), 0.5), "all elements are equal"),
        (WITH_NAN, "has the index 7, 3"),
    ],
    ids=["zeros", "constant", "nan"],
)
def test_constant_array_and_nan_are_not_identified_with_a_note(table: Numbers, note: str) -> None:
    found = identified(table)

    assert found.outcome == "none"
    assert note in found.notes[0]


def test_cosines_and_sines_are_identified_together() -> None:
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(8) / 8))
    twice = np.concatenate([angles, angles], axis=1)
    pair = IdentifyInput({"cos": float_sample(np.cos(twice)), "sin": float_sample(np.sin(twice))})
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
    assert any("axis 1 repeats one array 3 times" in note for note in copies.notes)
    assert identified(table).outcome == "none"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("first", ["cosines", "sines"])
def test_stacked_cosines_and_sines_are_identified_with_a_note(axis: int, first: str) -> None:
    angles = np.outer(np.arange(20), 10000.0 ** (-np.arange(8) / 8))
    parts = [np.cos(angles), np.sin(angles)]
    found = identified(np.stack(parts if first == "cosines" else parts[::-1], axis=axis))

    assert found.outcome == "identified"
    assert urls(found)[0] == "/rope?head_dim=16&rope_theta=10000&seq_len=20&pack=compact"
    assert any(f"stacked along axis {axis}" in note for note in found.notes)


@pytest.mark.parametrize("column", [0, 1], ids=["sines", "cosines"])
def test_one_part_made_in_float32_is_identified_in_many_rows(column: int) -> None:
    found = identified(in_float32(1024, 64)[:, column::2])

    assert (found.outcome, found.hypotheses[0].arithmetic[0].name) == ("identified", "float32")
    assert "head_dim=64" in urls(found)[0]


@pytest.mark.parametrize(
    ("resource", "parameters"),
    [
        ("relative/alibi", {"num_heads": 8, "query_len": 12}),
        ("relative/kerple", {"a": "1,0.5,0.25", "p": "2,1,0.5", "query_len": 12}),
        ("relative/swin-v2", {"window_size": "8,8"}),
        ("relative/alibi/slopes", {"num_heads": 12}),
        ("encoding", {"d_model": 32, "seq_len": 1, "start": 5}),
    ],
)
def test_table_with_one_changed_number_is_not_identified(
    resource: str, parameters: dict[str, ParameterValue]
) -> None:
    numbers = sample_of(resource, **parameters).reals()
    assert urls(identified(numbers))[0].startswith(f"/{resource}?")

    sizes = np.abs(numbers)
    for at in (int(sizes.argmax()), int(np.argmin(np.where(sizes > 0, sizes, np.inf)))):
        wrong = numbers.copy()
        # Sines and cosines of engines are within a few units of 1.
        size = 0.1 if resource == "encoding" else 0.0
        wrong.flat[at] += 2e-5 * max(numbers.flat[at], size, key=abs)
        assert not any(url.startswith(f"/{resource}?") for url in urls(identified(wrong)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_from_0_are_not_identified_with_a_distant_offset(dtype: str) -> None:
    table = sample_of("encoding", convention="mlx", d_model=4, seq_len=64, dtype=dtype)
    found = identify(IdentifyInput({"x": table}), tables)

    assert found.hypotheses
    assert max(verdict.max_absolute for verdict in found.hypotheses) < 1e-3


ROWS, WIDTH = 40, 8


def every_base(inputs: IdentifyInput) -> Iterator[Proposal]:
    rows, width = inputs.sample.values.shape
    if width == WIDTH:
        for base in (10000, *range(2, 1000)):
            yield proposal(rows, width, base=float(base))


@pytest.mark.full
def test_search_samples_a_limited_number_of_tables() -> None:
    inputs = float_input(in_float32(ROWS, WIDTH) * 0.999)
    search = Search(inputs, tables, (every_base,))

    assert not search.matches(inputs)
    assert len(search.near) == MAX_SAMPLED


def test_table_that_is_found_ends_the_search_for_other_numbers_of_its_parameters() -> None:
    inputs = float_input(in_float32(ROWS, WIDTH))
    search = Search(inputs, tables, (every_base,))
    (found,) = search.matches(inputs)

    assert found.proposal.request.parameters["base"] == 10000
    assert not search.near


def test_search_ends_when_the_budget_is_spent() -> None:
    inputs = float_input(in_float32(ROWS, WIDTH) * 0.999)
    search = Search(inputs, tables, (every_base,))
    search.budget = ROWS * WIDTH * 4
    search.matches(inputs)

    assert len(search.near) < 5


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
    "angles of a huge frequency": 1e30 * np.arange(1e5, 1e5 + 18)[:, None],
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
    for arrays in ({"x": sample}, {"cos": sample, "sin": sample}):
        assert len(list(propose(IdentifyInput(arrays)))) < 200


def test_array_wider_than_any_table_has_no_proposals() -> None:
    assert not list(propose(float_input(np.ones((2, 2**20 + 1), dtype=np.float32))))


def test_array_is_narrowed_to_the_type_of_its_numbers() -> None:
    for narrow in (BFLOAT16, FLOAT16, FLOAT32):
        numbers = float_sample(in_float64(64, 32), narrow).reals()
        view = narrowed(float_input(numbers, FLOAT64))
        assert view is not None
        assert view.sample.dtype is narrow
        (best, *_) = identified(numbers, FLOAT64).hypotheses
        assert best.arithmetic[0].name == "exact"
        assert best.proposal.request.parameters.get("dtype", "float32") == narrow.name
    for dtype in (FLOAT32, FLOAT64):
        assert narrowed(float_input(in_float64(5, 8), dtype)) is None


def test_first_copy_keeps_the_shape_of_the_other_axes() -> None:
    copied = np.repeat(in_float64(5, 8)[None, :, None], 3, axis=2)
    single = without_copies(float_input(copied))

    assert single is not None
    assert single[1] == 2
    assert single[0].sample.shape == (1, 5, 1, 8)
    assert single[0].sample.values.shape == (5, 8)


def test_grid_of_diffusers_whose_axes_are_not_concatenated_is_proposed() -> None:
    (case,) = (
        case
        for case in read_cases(golden_folder())
        if case.id == "rotary_table.diffusers_rope_2d.dev.04"
    )
    inputs = input_from({"out": case.outputs["out"]})

    assert min(nearest(family, inputs) for family in GRID_FAMILIES) <= case.atol["out"]


@pytest.mark.parametrize("url", ["/encoding?seq_len=64&d_model=32", "/rope?seq_len=64&head_dim=32"])
def test_sequence_is_no_grid(url: str) -> None:
    assert not proposed(input_of(url), GRID_FAMILIES)


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
    request = input_of(url)

    proposals = proposed(request)

    assert f"/{proposals[0].request.resource}" == url.partition("?")[0]
    assert agreeing(request, proposals[:1], FLOAT32_SHARE)


@pytest.mark.parametrize("shape", [(7,), (64,), (9, 9), (40, 12), (4, 9, 9), (12, 5, 30)])
def test_noise_has_no_proposals_of_distances_and_grids(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(2).normal(size=shape)

    for dtype in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16):
        assert not proposed(float_input(noise, dtype))
    assert not proposed(input_from(np.abs(noise)))
    assert not proposed(input_from({"out": noise}), GRID_FAMILIES)
    if len(shape) == 2:
        assert not proposed(input_from(np.random.default_rng(2).integers(0, 32, size=shape)))


def test_learned_biases_have_no_proposals() -> None:
    buckets = input_of("/relative/t5?query_len=40").sample.integers()
    assert buckets is not None
    weight = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)

    assert not proposed(input_from(np.moveaxis(weight[buckets], 2, 0).copy()))


@pytest.mark.parametrize("value", [0.0, -3.0, np.nan, np.inf])
@pytest.mark.parametrize("shape", [(1,), (1, 5), (2, 3, 3), (0,)])
def test_constant_and_tiny_arrays_have_few_proposals(value: float, shape: tuple[int, ...]) -> None:
    assert len(proposed(input_from(np.full(shape, value)))) <= 4


def test_pair_of_arrays_has_no_distance_proposals() -> None:
    sample = input_of("/relative/t5?query_len=40").sample

    assert not proposed(IdentifyInput({"cos": sample, "sin": sample}))


def pair_of(omega: Numbers, rows: int, dtype: type[np.floating], *, single: bool) -> IdentifyInput:
    """Return cosines and sines of frequencies, each twice; angles in float32 if ``single``."""
    inner = np.float32 if single else np.float64
    angles = np.arange(rows, dtype=inner)[:, None] * omega.astype(inner)
    parts = {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
    of_type = {np.float16: FLOAT16, np.float32: FLOAT32, np.float64: FLOAT64}[dtype]
    return IdentifyInput(
        {
            name: Sample.of(StoredTable(np.concatenate([each, each], axis=1), of_type))
            for name, each in parts.items()
        }
    )


@pytest.mark.parametrize("rows", [32, 512, 2048])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_frequencies_in_a_narrow_type_are_those_of_their_base(
    rows: int, single: bool, base: float, dtype: DType
) -> None:
    omega = rounded(base ** (-np.arange(0, 64, 2) / 64), dtype)

    found = identify(pair_of(omega, rows, np.float32, single=single), tables)

    assert found.outcome == "identified"
    first = found.hypotheses[0]
    assert first.proposal.request.parameters["rope_theta"] == base
    assert first.arithmetic[0].name == f"{dtype.name}-frequencies"


@pytest.mark.parametrize("base", [10000.0, 500000.0, 7777.0])
def test_frequencies_in_a_narrow_type_are_listed_for_float64(base: float) -> None:
    omega = rounded(base ** (-np.arange(0, 64, 2) / 64), FLOAT16)

    found = identify(pair_of(omega, 512, np.float64, single=False), tables)

    assert found.outcome == "identified"
    first = found.hypotheses[0]
    assert first.arithmetic[0].name in {"exact", "float64"}
    assert first.proposal.request.parameters["inv_freq"] == tuple(omega)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("count", [8, 32])
def test_measured_lists_claim_no_arithmetic_that_hides_their_errors(
    dtype: type[np.floating], single: bool, count: int
) -> None:
    rng = np.random.default_rng(count)
    for rows in (40, 600):
        omega = np.sort(rng.uniform(1e-4, 1, count))[::-1]

        found = identify(pair_of(omega, rows, dtype, single=single), tables)

        far = 4 * 2.0**-24 * rows if single else 4 * 2.0**-53 * rows
        step = 2.0 ** {np.float16: -11, np.float32: -23, np.float64: -45}[dtype]
        for each in found.hypotheses:
            assert each.arithmetic[0].name in {"exact", "float64", "float32"}
            assert each.max_absolute <= far + step
        if dtype is not np.float16:
            assert found.outcome != "none"
