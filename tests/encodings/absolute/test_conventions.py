"""The conventions: each the formula of its library, at any position, width and parameter.

Recipes: what they do with positions, and the row of padding.

What a convention is filled in with; test_conventions holds the tables that come of it.

Conventions through HTTP: every one, by every name, with what it takes and what it refuses.
"""

import io
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import given as each
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.conventions import (
    ALIASES,
    CONVENTIONS,
    ConventionParameters,
    FrequencyParameters,
    Recipe,
    SpreadRecipe,
    ZeroRow,
    bands,
    ends,
    recipe,
)
from service.grammar import to_query
from service.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, round_into
from service.numerics.phase import MAX_POSITION
from service.numerics.phasors import PhasorTable
from service.numerics.positions import Positions, Run
from service.numerics.real_positions import MIN_REAL_POSITION, AnyPositions, RealPositions
from service.numerics.tables import Table, size
from tests.client import Client
from tests.sinusoids import NEEDED, WIDTHS, check, rates, row, tables

PLACES = [0, 1, -1, 2, 3, 63, 64, -65, 12345, MAX_POSITION - 2, -MAX_POSITION]
FRACTIONS = [0.5, -0.1, 1e-3, MIN_REAL_POSITION, 17.25, -1e6 / 3, 2.0**40 + 0.5, 4e18]
ALONG = sorted(set(CONVENTIONS) - {"perceiver"})
OF_ROWS = ["fairseq", "m2m100", "xglm"]


def listed(positions: list[int]) -> Positions:
    return Positions.of_runs(Run(position, 1, 1) for position in positions)


def rows_of(name: str, d_model: int, positions: AnyPositions, **given: Any) -> NDArray[np.float64]:
    made = recipe(name, d_model, given | dict(NEEDED.get(name, {})))
    table = made.table(positions, FLOAT64, (positions.count, made.width))
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


@pytest.mark.parametrize("name", ALONG)
def test_every_value_is_that_of_the_librarys_formula_at_any_integer(name: str) -> None:
    for d_model in [*tables(name), 64]:
        rows = rows_of(name, d_model, listed(PLACES))
        for position, found in zip(PLACES, rows.tolist(), strict=True):
            check(found, name, d_model, position)


@pytest.mark.parametrize("name", sorted(set(ALONG) - set(OF_ROWS)))
def test_every_value_is_that_of_the_librarys_formula_at_any_fraction(name: str) -> None:
    for d_model in [*tables(name), 64]:
        rows = rows_of(name, d_model, RealPositions(tuple(FRACTIONS)))
        for position, found in zip(FRACTIONS, rows.tolist(), strict=True):
            check(found, name, d_model, position)


@pytest.mark.parametrize("name", ["vaswani", "positional-encodings", "tensor2tensor", "m2m100"])
def test_large_odd_widths_are_as_good(name: str) -> None:
    (row,) = rows_of(name, 2047, listed([987_654_321])).tolist()

    check(row, name, 2047, 987_654_321)


@pytest.mark.parametrize("name", sorted(CONVENTIONS))
def test_odd_and_tiny_widths_are_those_that_the_library_gives(name: str) -> None:
    for d_model in tables(name):
        rows = rows_of(name, d_model, Positions.contiguous(0, 2))

        assert rows.shape[1] == WIDTHS[name][d_model - 1], d_model


@pytest.mark.parametrize("name", ALONG)
def test_what_a_library_refuses_has_no_convention_here(name: str) -> None:
    convention = CONVENTIONS[name]
    for d_model in set(range(1, 10)) - set(tables(name)):
        is_refused = convention.odd == "refused" and d_model % 2
        is_empty = convention.width(d_model) == 0
        divides_by_zero = convention.span(d_model) == 0
        assert is_refused or is_empty or divides_by_zero, d_model


REALS = {
    "base": st.one_of(st.floats(1.0, 1e12), st.just(1e300)),
    "min_timescale": st.floats(1e-9, 10.0),
    "max_timescale": st.one_of(st.floats(10.0, 1e9), st.just(1e250)),
    "min_freq": st.one_of(st.floats(1e-9, 1e-2), st.just(1e-250)),
    "max_freq": st.floats(1e-2, 1e9),
    "full_turns": st.booleans(),
    "cos_first": st.booleans(),
    "flip_sin_to_cos": st.booleans(),
    "scale": st.floats(1e-9, 1e4),
    "offset": st.integers(-(2**61), 2**61),
    "padding_idx": st.integers(-3, 3),
}


@st.composite
def requests(draw: st.DrawFn, names: list[str]) -> tuple[str, int, dict[str, Any]]:
    name = draw(st.sampled_from(names))
    taken = [key for key in CONVENTIONS[name].takes if draw(st.booleans())]
    has_base = "max_freq" not in CONVENTIONS[name].takes and not set(taken) & {
        "min_timescale",
        "max_timescale",
    }
    given: dict[str, Any] = {
        key: draw(REALS[key]) for key in taken + ["base"] * (has_base and draw(st.booleans()))
    }
    if CONVENTIONS[name].is_free and draw(st.booleans()):
        given["layout"] = draw(st.sampled_from(["interleaved", "concatenated"]))
    d_model = draw(
        st.one_of(st.sampled_from(tables(name)), st.integers(5, 100).map(lambda n: 2 * n))
    )
    return name, d_model, given


@settings(max_examples=200)
@each(requests(ALONG), st.one_of(st.integers(-(2**61), 2**61), st.integers(-100, 100)))
def test_parameters_mean_what_the_library_means(
    request: tuple[str, int, dict[str, Any]], position: int
) -> None:
    name, d_model, given = request

    (row,) = rows_of(name, d_model, listed([position]), **given).tolist()

    check(row, name, d_model, position, **given)


@each(requests(ALONG))
def test_canonical_parameters_fix_everything(request: tuple[str, int, dict[str, Any]]) -> None:
    name, d_model, given = request
    made = recipe(name, d_model, given)
    spelled: dict[str, Any] = {**made.parameters()}

    again = recipe(spelled.pop("convention"), spelled.pop("d_model"), spelled)

    assert again.parameters() == made.parameters()
    assert (again.rule, again.channels, again.scale) == (made.rule, made.channels, made.scale)
    assert (again.offset, again.padding_idx) == (made.offset, made.padding_idx)


@pytest.mark.parametrize("name", ["tensor2tensor", "tf-models", "whisper"])
def test_a_base_by_its_other_name_is_the_same_table(name: str) -> None:
    one, other = (recipe(name, 8, {key: 500.0}) for key in ("base", "max_timescale"))

    assert one.parameters() == other.parameters()
    assert one.rule == other.rule


def test_a_shortest_timescale_of_one_needs_no_name() -> None:
    spelled = recipe("tensor2tensor", 8, {"min_timescale": 1.0}).parameters()

    assert spelled == recipe("tensor2tensor", 8, {}).parameters()
    assert "min_timescale" not in spelled


def test_a_shortest_timescale_multiplies_frequencies_instead_of_dividing_them() -> None:
    *_, slowest = frequencies = recipe("tensor2tensor", 8, {"min_timescale": 2.0}).rule.exact()

    assert [float(frequencies[0]), float(slowest)] == [2.0, 2.0 * 2.0 / 10000]


SAME = [
    ("mae", "diffusers", 6),
    ("mae", "marian", 6),
    ("mae", "transformer-xl", 6),
    ("ddpm", "tensor2tensor", 7),
    ("ddpm", "whisper", 6),
    ("ddpm", "tf-models", 6),
    ("vaswani", "positional-encodings", 6),
]


@pytest.mark.parametrize(("one", "other", "d_model"), SAME)
def test_conventions_that_agree_have_the_same_bytes(one: str, other: str, d_model: int) -> None:
    rows = [rows_of(name, d_model, listed(PLACES)).tobytes() for name in (one, other)]

    assert rows[0] == rows[1]


@pytest.mark.parametrize("d_model", [1, 2, 7, 8])
def test_marian_is_the_paper_with_its_sines_first(d_model: int) -> None:
    apart = rows_of("vaswani", d_model, listed(PLACES), layout="concatenated")

    assert rows_of("marian", d_model, listed(PLACES)).tobytes() == apart.tobytes()


DIFFERENT = [("positional-encodings", "vaswani", 5), ("tensor2tensor", "mae", 6), ("mae", "mlx", 6)]


@pytest.mark.parametrize(("one", "other", "d_model"), DIFFERENT)
def test_conventions_that_look_alike_differ(one: str, other: str, d_model: int) -> None:
    rows = [rows_of(name, d_model, listed([5])) for name in (one, other)]

    assert (np.abs(rows[0] - rows[1]) > 1e-3).any()


def test_an_odd_width_of_transformer_xl_is_the_one_above_with_frequencies_of_its_own() -> None:
    odd, even = (rows_of("transformer-xl", d_model, listed([3])) for d_model in (5, 6))

    assert odd.shape == even.shape
    assert odd[0, 1] != even[0, 1]


def test_an_odd_width_of_tf_models_is_the_one_below() -> None:
    odd, even = (rows_of("tf-models", d_model, listed(PLACES)) for d_model in (7, 6))

    assert odd.tobytes() == even.tobytes()


@pytest.mark.parametrize("name", OF_ROWS)
def test_the_row_of_padding_is_zero_and_no_other(name: str) -> None:
    offset = {"fairseq": 0, "m2m100": 3, "xglm": 2}[name]
    rows = rows_of(name, 6, Positions.contiguous(-4, 9), padding_idx=2)

    (zero,) = np.nonzero((rows == 0).all(axis=1))[0]

    assert zero - 4 + offset == 2


@pytest.mark.parametrize(
    ("name", "padding_idx", "first"), [("m2m100", 1, 2), ("m2m100", 0, 1), ("xglm", 0, 2)]
)
def test_tokens_begin_after_the_row_of_padding_or_at_a_fixed_one(
    name: str, padding_idx: int, first: int
) -> None:
    fairseq = rows_of("fairseq", 7, Positions.contiguous(first, 40), padding_idx=padding_idx)
    rows = rows_of(name, 7, Positions.contiguous(0, 40), padding_idx=padding_idx)

    assert rows.tobytes() == fairseq.tobytes()


@pytest.mark.parametrize(("name", "of"), [("mlx", 2), ("x-transformers", 1)])
def test_a_scale_is_the_number_nearest_to_its_root(name: str, of: int) -> None:
    for d_model in range(2, 2000, 2):
        expected = float(mpmath.sqrt(mpmath.mpf(of) / d_model))
        assert recipe(name, d_model, {}).parameters()["scale"] == expected


@pytest.mark.parametrize("has_coordinates", [True, False])
@pytest.mark.parametrize("is_sine", [True, False])
@pytest.mark.parametrize("resolution", [1, 2, 7, 224, 10**9])
@pytest.mark.parametrize("count", [1, 2, 5, 1001])
def test_perceiver_spreads_its_rows_from_minus_one_to_one(
    count: int, resolution: int, is_sine: bool, has_coordinates: bool
) -> None:
    given = {"max_resolution": resolution, "sine_only": is_sine, "concat_pos": has_coordinates}
    for number in (1, 2, 3):
        d_model = number * (2 - is_sine) + has_coordinates
        made = recipe("perceiver", d_model, given)
        table = made.table(Positions.contiguous(0, count), FLOAT64, (count, made.width))

        for index in {0, count // 3, count - 1}:
            place = mpmath.mpf(2 * index) / max(count - 1, 1) - 1
            found = table.read(index * d_model, (index + 1) * d_model).tolist()
            check(found, "perceiver", d_model, place, **given)


@pytest.mark.parametrize("d_model", range(1, 10))
@pytest.mark.parametrize("concat_pos", [True, False])
@pytest.mark.parametrize("sine_only", [True, False])
def test_bands_are_as_many_as_make_the_channels(
    d_model: int, concat_pos: bool, sine_only: bool
) -> None:
    found = bands(d_model, concat_pos=concat_pos, sine_only=sine_only)

    made = {number * (2 - sine_only) + concat_pos: number for number in range(1, 10)}
    assert found == made.get(d_model, 0)


@pytest.mark.parametrize("name", sorted(CONVENTIONS))
def test_frequencies_are_those_of_the_formula_to_sixty_digits(name: str) -> None:
    needed: Mapping[str, Any] = NEEDED.get(name, {})
    for d_model in [width for width in [*tables(name), 64 + (name == "perceiver")] if width > 1]:
        found = recipe(name, d_model, needed).rule.exact()
        expected = rates(name, d_model, needed)

        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert abs(mpmath.mpf(str(one)) - other) <= other * mpmath.mpf("1e-60")


def test_names_of_conventions_and_of_their_aliases_are_apart() -> None:
    assert set(ALIASES.values()) <= set(CONVENTIONS)
    assert not set(ALIASES) & set(CONVENTIONS)
    assert set(WIDTHS) == set(CONVENTIONS)
    assert len({convention.source for convention in CONVENTIONS.values()}) == len(CONVENTIONS)


PADDED = recipe("fairseq", 6, {})
PLAIN = recipe("ddpm", 6, {})


def table_of(made: Recipe, positions: Positions, dtype: str = "float64") -> Table:
    return made.table(positions, REAL_DTYPES[dtype], (positions.count, made.width))


def bytes_of(table: Table) -> bytes:
    return table.read(0, size(table)).tobytes()


@given(
    st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=9),
    st.integers(-(2**61), 2**61),
)
def test_an_offset_moves_every_position(positions: list[int], offset: int) -> None:
    moved = recipe("fairseq", 6, {"offset": offset, "padding_idx": MAX_POSITION})

    expected = table_of(PLAIN, listed([position + offset for position in positions]))

    assert bytes_of(table_of(moved, listed(positions))) == bytes_of(expected)


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@given(st.lists(st.integers(-2, 4), min_size=1, max_size=12), st.integers(-2, 4), st.data())
def test_only_the_rows_of_padding_are_zero_whichever_are_read(
    dtype: str, positions: list[int], zero: int, data: st.DataObject
) -> None:
    padded = table_of(recipe("fairseq", 6, {"padding_idx": zero}), listed(positions), dtype)
    start = data.draw(st.integers(0, size(padded) - 1))
    stop = data.draw(st.integers(start + 1, size(padded)))

    expected = table_of(PLAIN, listed(positions), dtype).read(0, size(padded)).copy()
    expected.reshape(len(positions), 6)[np.array(positions) == zero] = 0

    assert padded.read(start, stop).tobytes() == expected[start:stop].tobytes()


def test_the_row_of_padding_is_found_however_far_it_is() -> None:
    far = recipe("fairseq", 6, {"padding_idx": 2**61 + 7})
    rows = table_of(far, Positions.contiguous(0, 2**61 + 8))

    last = rows.read(size(rows) - 12, size(rows)).reshape(2, 6)

    assert last[0].any()
    assert not last[1].any()


def test_a_padded_table_is_described_by_the_other_rows() -> None:
    made = PADDED.table(Positions.contiguous(0, 3), FLOAT32, (1, 3, 6))

    assert isinstance(made, ZeroRow)
    assert (made.shape, made.dtype, made.row_width) == ((1, 3, 6), FLOAT32, 6)
    assert made.work_per_element == made.table.work_per_element


def test_without_padding_there_is_nothing_around_the_table() -> None:
    assert isinstance(table_of(PLAIN, Positions.contiguous(0, 3)), PhasorTable)


def test_whole_and_fractional_positions_have_the_same_rows() -> None:
    mlx = recipe("mlx", 8, {"cos_first": True, "full_turns": True})
    real = RealPositions((0.5, 3.0, -7.0))
    rows = np.asarray(mlx.table(real, FLOAT64, (3, 8)).read(0, 24)).reshape(3, 8)

    assert rows[1:].tobytes() == bytes_of(table_of(mlx, listed([3, -7])))


@pytest.mark.parametrize(
    ("name", "given_parameters", "spelled"),
    [
        ("vaswani", {}, ["convention", "d_model", "base", "layout"]),
        (
            "tensor2tensor",
            {"min_timescale": 2.0},
            ["convention", "d_model", "min_timescale", "max_timescale", "layout"],
        ),
        ("m2m100", {}, ["convention", "d_model", "base", "layout", "offset", "padding_idx"]),
        (
            "mlx",
            {},
            [
                *("convention", "d_model", "min_freq", "max_freq", "full_turns", "layout"),
                *("cos_first", "scale"),
            ],
        ),
        (
            "perceiver",
            {"max_resolution": 9},
            ["convention", "d_model", "max_resolution", "concat_pos", "sine_only", "layout"],
        ),
    ],
)
def test_a_recipe_is_spelled_by_what_its_convention_has(
    name: str, given_parameters: dict[str, Any], spelled: list[str]
) -> None:
    d_model = 9 if name == "perceiver" else 8

    assert list(recipe(name, d_model, given_parameters).parameters()) == spelled


PERCEIVER = recipe("perceiver", 9, {"max_resolution": 224})


def test_rows_that_are_spread_depend_on_their_number_alone() -> None:
    assert isinstance(PERCEIVER, SpreadRecipe)
    rows = [table_of(PERCEIVER, Positions.contiguous(start, 5)) for start in (0, 7)]

    assert bytes_of(rows[0]) == bytes_of(rows[1])
    assert bytes_of(rows[0]) != bytes_of(table_of(PERCEIVER, Positions.contiguous(0, 6)))[:360]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_coordinates_are_the_nearest_numbers_from_minus_one_to_one(count: int) -> None:
    rows = table_of(PERCEIVER, Positions.contiguous(0, count)).read(0, 9 * count).reshape(-1, 9)

    assert rows[:, 0].tolist() == [
        (2 * index - (count - 1)) / (count - 1) if count > 1 else -1.0 for index in range(count)
    ]


def test_any_number_of_rows_is_spread() -> None:
    table = table_of(PERCEIVER, Positions.contiguous(0, 2**53))

    first, last = table.read(0, 9), table.read(size(table) - 9, size(table))

    assert [first[0], last[0]] == [-1.0, 1.0]
    assert (first[1:5] == -last[1:5]).all()
    assert (first[5:] == last[5:]).all()


def test_parts_of_spread_rows_are_the_whole() -> None:
    table = table_of(PERCEIVER, Positions.contiguous(0, 11), "bfloat16")
    whole = table.read(0, 99)

    for start, stop in [(0, 99), (3, 4), (8, 10), (17, 80), (98, 99)]:
        assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize(
    ("name", "given", "names", "numbers", "frequencies"),
    [
        ("vaswani", {}, ("min_timescale", "base"), (1.0, 10000.0), (1e-4, 1.0)),
        ("whisper", {"base": 100.0}, ("min_timescale", "base"), (1.0, 100.0), (0.01, 1.0)),
        (
            "tensor2tensor",
            {"min_timescale": 2.0, "max_timescale": 8.0},
            ("min_timescale", "max_timescale"),
            (2.0, 8.0),
            (0.5, 2.0),
        ),
        ("mlx", {"max_freq": 4.0}, ("min_freq", "max_freq"), (1e-4, 4.0), (1e-4, 4.0)),
        ("mlx", {"min_freq": 3.0}, ("min_freq", "max_freq"), (3.0, 1.0), (1.0, 3.0)),
    ],
)
def test_frequencies_lie_between_two_parameters(
    name: str,
    given: dict[str, Any],
    names: tuple[str, str],
    numbers: tuple[float, float],
    frequencies: tuple[float, float],
) -> None:
    found = ends(CONVENTIONS[name], given)

    assert (found.least_name, found.greatest_name) == names
    assert (found.least, found.greatest) == numbers
    assert found.frequencies == frequencies


@pytest.mark.parametrize("name", [name for name in CONVENTIONS if name != "perceiver"])
def test_every_frequency_is_between_the_slowest_and_the_fastest(name: str) -> None:
    given = {"min_timescale": 3.0} if "min_timescale" in CONVENTIONS[name].takes else {}

    frequencies = recipe(name, 16, given).rule.exact()

    slowest, fastest = ends(CONVENTIONS[name], given).frequencies
    assert float(min(frequencies)) >= slowest * (1 - 1e-15)
    assert float(max(frequencies)) <= fastest * (1 + 1e-15)


@pytest.mark.parametrize(
    ("d_model", "concat_pos", "sine_only", "count"),
    [
        (9, True, False, 4),
        (8, True, False, 0),
        (8, False, False, 4),
        (5, True, True, 4),
        (1, 1, 0, 0),
    ],
)
def test_bands_are_counted_only_where_they_fit(
    d_model: int, concat_pos: bool, sine_only: bool, count: int
) -> None:
    assert bands(d_model, concat_pos=concat_pos, sine_only=sine_only) == count


NAMES = sorted(CONVENTIONS)

CHOICES: dict[str, list[dict[str, Any]]] = {
    "vaswani": [{"base": 100}, {"layout": "concatenated"}, {"positions": "0.5,-3,1e-9"}],
    "positional-encodings": [{"base": 1}, {"positions": "7,5,3,17.25"}],
    "tensor2tensor": [
        {"min_timescale": 2, "max_timescale": 500},
        {"base": 500, "min_timescale": 0.125},
        {"max_timescale": 1e250},
        {"min_timescale": 3, "positions": "0.1,-2.75"},
    ],
    "tf-models": [{"min_timescale": 1, "max_timescale": 20}, {"min_timescale": 3e4}],
    "fairseq": [{"padding_idx": 3}, {"offset": 5, "padding_idx": -2}, {"start": -4}],
    "m2m100": [{"padding_idx": 0, "positions": "3,-2,-2,9"}, {"offset": 0}],
    "xglm": [{"padding_idx": 0, "positions": "3,-2,-2,9"}, {"offset": 0}],
    "ddpm": [{"base": 1e300}, {"positions": "999.5,0.25"}],
    "whisper": [{"max_timescale": 77}, {"base": 77.5}],
    "marian": [{"base": 12.5}, {"positions": f"{2**62},{-(2**62)},0"}],
    "mae": [{"base": 3}, {"positions": "0.5,1.5,2.5"}],
    "diffusers": [{"flip_sin_to_cos": "true"}, {"flip_sin_to_cos": "false", "positions": "1.875"}],
    "x-transformers": [{"scale": 1}, {"scale": 0.3, "positions": "4611686018427387904,0.5"}],
    "transformer-xl": [{"base": 7}, {"positions": "9:-1:-1"}],
    "mlx": [
        {"cos_first": "true", "full_turns": "true"},
        {"min_freq": 1e-250, "max_freq": 1e9, "scale": 10000},
        {"scale": 1, "positions": "0.5,1"},
        {"min_freq": 2},
    ],
    "perceiver": [
        {"concat_pos": "true", "sine_only": "true"},
        {"concat_pos": "false", "sine_only": "true", "max_resolution": 1},
        {"batch": "true"},
    ],
}
"""Parameters that each convention has, and positions that go with it."""


def choices(name: str) -> list[dict[str, Any]]:
    along = {"seq_len": 5, "convention": name, "d_model": tables(name)[-1]} | dict(
        NEEDED.get(name, {})
    )
    every = [along, *(along | choice for choice in CHOICES[name])]
    for query in every:
        if "positions" in query:
            del query["seq_len"]
    return every


def npy(client: Client, **query: Any) -> NDArray[np.float64]:
    answer = client.get(f"/encoding.npy?{urlencode(query)}")
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_an_answer_ask_for_the_same_answer(client: Client, name: str) -> None:
    for query in choices(name):
        for dtype in ("float64", "float16"):
            first = client.get(f"/encoding.json?{urlencode(query)}&dtype={dtype}")
            assert first.status_code == 200, first.text
            canonical = first.json()["parameters"]
            again = urlencode({key: to_query(value) for key, value in canonical.items()})

            assert client.get(f"/encoding.json?{again}&dtype={dtype}").content == first.content
            posted = client.post("/encoding.json", json=canonical | {"dtype": dtype})
            assert posted.content == first.content
            binary = [
                client.get(f"/encoding.npy?{asked}&dtype={dtype}")
                for asked in (urlencode(query), again)
            ]
            assert binary[0].content == binary[1].content
            assert binary[0].headers["ETag"] == binary[1].headers["ETag"]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_frequencies_ask_for_the_same_frequencies(client: Client, name: str) -> None:
    known = FrequencyParameters.model_fields
    for query in choices(name):
        asked = {key: value for key, value in query.items() if key in {*known, "d_model"}}
        first = client.get(f"/encoding/frequencies?{urlencode(asked)}")
        assert first.status_code == 200, first.text
        canonical = first.json()["parameters"]
        again = urlencode({key: to_query(value) for key, value in canonical.items()})

        assert client.get(f"/encoding/frequencies?{again}").content == first.content


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_an_alias_is_its_convention_by_another_name(client: Client, alias: str, name: str) -> None:
    for d_model in tables(name):
        query = f"d_model={d_model}&positions=0,1,-1,7,900&dtype=float64"
        by_alias, by_name = (
            client.get(f"/encoding.npy?convention={which}&{query}") for which in (alias, name)
        )
        assert by_alias.status_code == 200
        assert by_alias.content == by_name.content
        assert by_alias.headers["ETag"] == by_name.headers["ETag"]

    answer = client.get(f"/encoding?convention={alias}&d_model=8&seq_len=1").json()
    assert answer["parameters"]["convention"] == name


def test_the_paper_is_what_comes_unless_another_is_asked_for(client: Client) -> None:
    query = "/encoding?seq_len=3&d_model=5"

    assert client.get(query).content == client.get(f"{query}&convention=vaswani").content


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_librarys_formula(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model in tables(name):
        rows = npy(client, convention=name, d_model=d_model, seq_len=7, dtype="float64", **needed)
        for index, found in enumerate(rows.tolist()):
            place = mpmath.mpf(index) / 3 - 1 if name == "perceiver" else index
            check(found, name, d_model, place, **needed)


@pytest.mark.parametrize("name", NAMES)
def test_the_width_of_odd_and_tiny_d_model_is_the_librarys(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model, width in enumerate(WIDTHS[name], start=1):
        query = urlencode({"convention": name, "d_model": d_model, "seq_len": 2} | needed)
        answer = client.get(f"/encoding?{query}")

        if width:
            assert answer.json()["shape"] == [2, width], d_model
            continue
        (fault,) = answer.json()["errors"]
        assert answer.status_code == 422
        assert (fault["parameter"], fault["value"]) == ("d_model", str(d_model))
        assert f"convention={name}" in fault["detail"]


@pytest.mark.parametrize("name", NAMES)
def test_frequencies_times_positions_are_the_angles_of_the_table(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model in [width for width in tables(name) if width > 1]:
        query = {"convention": name, "d_model": d_model} | needed
        answer = client.get(f"/encoding/frequencies?{urlencode(query)}").json()["data"]
        exact = rates(name, d_model, needed)
        assert answer["frequency"] == [float(rate) for rate in exact]
        assert answer["wavelength"] == [float(2 * mpmath.pi / rate) for rate in exact]

        rows = npy(client, **query, seq_len=3, dtype="float64")
        place = 1 if name == "perceiver" else 2
        turned = place + (2 if name in {"m2m100", "xglm"} else 0)
        angles = [angle for angle, _ in row(name, d_model, place, needed) if angle is not None]
        assert {float(angle / turned) for angle in angles} <= set(answer["frequency"])
        check(rows[2].tolist(), name, d_model, place, **needed)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"fairseq", "m2m100", "xglm", "perceiver"}))
def test_fractions_are_posted_as_numbers_and_sent_as_text(client: Client, name: str) -> None:
    positions = [0.5, -3, 17.25, 1e-9, 2.0**60]
    query = {"convention": name, "d_model": 8, "dtype": "float64"}

    posted = client.post("/encoding.npy", json=query | {"positions": positions})

    rows = npy(client, **query, positions=to_query(positions))
    assert posted.status_code == 200, posted.text
    assert posted.content.endswith(rows.tobytes())
    for position, found in zip(positions, rows.tolist(), strict=True):
        check(found, name, 8, position)


@pytest.mark.parametrize("name", NAMES)
def test_every_convention_is_added_to_embeddings(client: Client, name: str) -> None:
    for query in choices(name):
        asked = {key: value for key, value in query.items() if key not in {"seq_len", "batch"}}
        del asked["d_model"]
        if "." in str(asked.get("positions", "")) or "e" in str(asked.get("positions", "")):
            continue
        table = npy(client, **query | {"dtype": "float64"}).reshape(-1, WIDTHS[name][-1] or 8)
        if table.shape[1] != query["d_model"]:
            continue
        x = np.arange(table.size, dtype=np.float64).reshape(table.shape)

        answer = client.post(f"/encoding/apply?{urlencode(asked)}", json={"x": x.tolist()})

        assert answer.status_code == 200, answer.text
        assert answer.json()["data"] == (x + table).tolist()
        assert answer.json()["parameters"]["convention"] == name


@pytest.mark.parametrize(("name", "width"), [("transformer-xl", 6), ("tf-models", 4)])
def test_embeddings_of_an_odd_width_do_not_fit_a_table_of_another(
    client: Client, name: str, width: int
) -> None:
    answer = client.post(f"/encoding/apply?convention={name}", json={"x": [[0.0] * 5]})

    assert answer.status_code == 422
    assert f"convention={name} has {width} channels for the 5 there are" in answer.json()["detail"]


OWN = {
    name: {*convention.takes, "layout", "convention"}
    | ({"base"} if name not in {"mlx", "perceiver"} else set())
    for name, convention in CONVENTIONS.items()
}
FOREIGN = {
    "base": "100",
    "min_timescale": "2",
    "max_timescale": "500",
    "min_freq": "0.001",
    "max_freq": "2",
    "full_turns": "false",
    "cos_first": "false",
    "flip_sin_to_cos": "false",
    "scale": "1",
    "offset": "0",
    "padding_idx": "1",
    "max_resolution": "224",
    "concat_pos": "true",
    "sine_only": "false",
}


def test_every_parameter_of_conventions_is_refused_somewhere() -> None:
    assert {*FOREIGN, "layout", "convention"} == set(ConventionParameters.model_fields)


@pytest.mark.parametrize("name", [*NAMES, *sorted(ALIASES)])
def test_what_a_convention_does_not_have_is_refused(client: Client, name: str) -> None:
    of = ALIASES.get(name, name)
    query = {"convention": name, "d_model": tables(of)[-1], "seq_len": 1} | dict(NEEDED.get(of, {}))
    for parameter in set(FOREIGN) - OWN[of]:
        answer = client.get(f"/encoding?{urlencode(query | {parameter: FOREIGN[parameter]})}")

        assert answer.status_code == 422
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["errors"] == [
            {
                "parameter": parameter,
                "value": FOREIGN[parameter],
                "detail": f"{parameter} does not go with convention={name}",
            }
        ]


@pytest.mark.parametrize("name", [*NAMES, *sorted(ALIASES)])
def test_a_layout_is_free_only_in_the_paper(client: Client, name: str) -> None:
    of = ALIASES.get(name, name)
    query = {"convention": name, "d_model": tables(of)[-1], "seq_len": 1} | dict(NEEDED.get(of, {}))
    own = CONVENTIONS[of].layout
    (other,) = {"interleaved", "concatenated"} - {own}

    agreed, refused = (
        client.get(f"/encoding?{urlencode(query | {'layout': layout})}") for layout in (own, other)
    )

    assert agreed.status_code == 200
    assert agreed.content == client.get(f"/encoding?{urlencode(query)}").content
    if name == "vaswani":
        assert refused.status_code == 200
        return
    (fault,) = refused.json()["errors"]
    assert (fault["parameter"], fault["value"]) == ("layout", other)
    assert fault["detail"] == f"convention={name} is {own}"


REFUSED = [
    ("convention=tensor2tensor&d_model=4&base=9&max_timescale=9", "base", "9", "are the same"),
    (
        "convention=tensor2tensor&d_model=4&min_timescale=1e6&max_timescale=1e-8",
        *("max_timescale", "1e-08", "frequencies must stay below 1e+18"),
    ),
    (
        "convention=tensor2tensor&d_model=4&base=1e280&min_timescale=2",
        *("base", "1e+280", "base must be at most 1e+250 beside min_timescale"),
    ),
    ("convention=mlx&d_model=5", "d_model", "5", "convention=mlx has an even d_model only"),
    ("convention=whisper&d_model=2", "d_model", "2", "divides by zero"),
    ("convention=xglm&d_model=3", "d_model", "3", "convention=xglm divides by zero"),
    ("convention=tf-models&d_model=1", "d_model", "1", "has no channels for it"),
    ("convention=perceiver&d_model=5", "max_resolution", None, "max_resolution is required"),
    ("convention=perceiver&d_model=4&max_resolution=9", "d_model", "4", "2·num_bands + 1 channels"),
    (
        "convention=perceiver&d_model=1&max_resolution=9&sine_only=true",
        *("d_model", "1", "num_bands + 1 channels"),
    ),
    (
        "convention=perceiver&d_model=5&max_resolution=9&concat_pos=false",
        *("d_model", "5", "2·num_bands channels"),
    ),
    ("convention=perceiver&d_model=5&max_resolution=0", "max_resolution", "0", "at least 1"),
    ("convention=perceiver&d_model=5&max_resolution=9&start=1", "start", "1", "convention="),
    ("convention=m2m100&d_model=4&offset=4611686018427387905", "offset", None, "at most"),
    ("convention=fairseq&d_model=4&padding_idx=1.5", "padding_idx", "1.5", "an integer"),
    ("convention=mlx&d_model=4&scale=0", "scale", "0", "at least"),
    ("convention=mlx&d_model=4&scale=-1", "scale", "-1", "at least"),
    ("convention=x-transformers&d_model=4&scale=20000", "scale", "20000", "at most"),
    ("convention=mlx&d_model=4&full_turns=1", "full_turns", "1", "true or false"),
    ("convention=transformerxl&d_model=4", "convention", "transformerxl", "mean transformer-xl?"),
    ("convention=Whisper&d_model=4", "convention", "Whisper", "did you mean whisper?"),
    ("convention=vaswani&d_model=4&base=0.5", "base", "0.5", "at least 1"),
    (
        "convention=diffusers&d_model=4&flip_sin_cos=true",
        "flip_sin_cos",
        "true",
        "did you mean flip_sin_to_cos?",
    ),
]


@pytest.mark.parametrize(("query", "parameter", "value", "rule"), REFUSED)
def test_a_refusal_names_the_parameter_the_value_and_the_rule(
    client: Client, query: str, parameter: str, value: str | None, rule: str
) -> None:
    answer = client.get(f"/encoding?{query}&seq_len=2")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, parameter)
    assert value in {None, fault["value"]}
    assert rule in fault["detail"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_everything_that_does_not_go_with_a_convention_is_named_at_once(client: Client) -> None:
    query = "convention=whisper&d_model=4&seq_len=2&scale=2&offset=1&layout=interleaved"

    faults = client.get(f"/encoding?{query}").json()["errors"]

    assert {fault["parameter"] for fault in faults} == {"scale", "offset", "layout"}


OUT = [
    ("convention=fairseq&d_model=4&positions=0.5,1", "positions", "looks rows up"),
    ("convention=xglm&d_model=4&positions=1e-3", "positions", "convention=xglm looks rows up"),
    ("convention=m2m100&d_model=4&start=4611686018427387903&seq_len=2", "offset", "beyond 2^62"),
    ("convention=fairseq&d_model=4&positions=-4611686018427387904&offset=-1", "offset", "2^62"),
    ("convention=ddpm&d_model=4&positions=0.5&base=1e251", "base", "whole positions only"),
    ("convention=perceiver&d_model=5&max_resolution=9&positions=0", "positions", "perceiver"),
]


@pytest.mark.parametrize(("query", "parameter", "rule"), OUT)
def test_positions_that_a_convention_cannot_turn_are_refused(
    client: Client, query: str, parameter: str, rule: str
) -> None:
    answer = client.get(f"/encoding?{query}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, parameter)
    assert rule in fault["detail"]


@pytest.mark.parametrize("offset", ["", "&offset=-4611686018427387904"])
def test_whole_numbers_spelled_as_reals_are_as_far_as_integers(client: Client, offset: str) -> None:
    answer = client.get(f"/encoding?convention=fairseq&d_model=4&positions=9e18{offset}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, "positions")


@pytest.mark.parametrize("name", ["fairseq", "perceiver"])
def test_a_refusal_does_not_send_a_long_list_back(client: Client, name: str) -> None:
    query = {"convention": name, "d_model": 5} | dict(NEEDED.get(name, {}))
    positions = [index + 0.5 for index in range(10_000)]

    answer = client.post("/encoding", json=query | {"positions": positions})

    assert answer.json()["errors"][0]["parameter"] == "positions"
    assert len(answer.content) < 2000


def test_whole_numbers_spelled_as_reals_may_be_looked_up(client: Client) -> None:
    query = "/encoding?convention=fairseq&d_model=4&positions="

    assert client.get(f"{query}2.0,1e1").content == client.get(f"{query}2,10").content


@pytest.mark.parametrize("name", ["tensor2tensor", "fairseq", "m2m100", "xglm", "ddpm"])
def test_one_channel_of_zeros_has_no_frequency(client: Client, name: str) -> None:
    answer = client.get(f"/encoding/frequencies?convention={name}&d_model=1")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "d_model"
    assert (npy(client, convention=name, d_model=1, seq_len=3) == 0).all()


@pytest.mark.parametrize("parameter", ["layout", "scale", "offset", "padding_idx", "cos_first"])
def test_frequencies_take_nothing_that_does_not_matter_to_them(
    client: Client, parameter: str
) -> None:
    answer = client.get(f"/encoding/frequencies?d_model=4&{parameter}={FOREIGN.get(parameter)}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, parameter)


def test_the_documentation_names_every_convention_and_its_source() -> None:
    schema = ConventionParameters.model_json_schema()["properties"]["convention"]

    assert schema["enum"] == [*CONVENTIONS, *ALIASES]
    for convention in CONVENTIONS.values():
        assert convention.source in schema["description"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_narrow_types_hold_the_float64_value_rounded_once(
    client: Client, name: str, dtype: str
) -> None:
    for query in choices(name):
        wide = npy(client, **query | {"dtype": "float64"})
        narrow = client.get(f"/encoding.bin?{urlencode(query | {'dtype': dtype})}").content
        expected = np.empty(wide.size, dtype=REAL_DTYPES[dtype].storage)
        round_into(wide.reshape(-1), expected, REAL_DTYPES[dtype])
        assert narrow == expected.tobytes()
