"""The conventions: each the formula of its library, at any position, width and parameter."""

from collections.abc import Mapping
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given as each
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables.angle import MAX_POSITION
from service.tables.conventions import ALIASES, CONVENTIONS
from service.tables.dtypes import FLOAT64
from service.tables.positions import Positions, Run
from service.tables.real_positions import MIN_REAL_POSITION, AnyPositions, RealPositions
from service.tables.recipes import bands, recipe
from service.tables.table import size
from tests.sinusoids import NEEDED, WIDTHS, check, rates, tables

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
        for position, row in zip(PLACES, rows.tolist(), strict=True):
            check(row, name, d_model, position)


@pytest.mark.parametrize("name", sorted(set(ALONG) - set(OF_ROWS)))
def test_every_value_is_that_of_the_librarys_formula_at_any_fraction(name: str) -> None:
    for d_model in [*tables(name), 64]:
        rows = rows_of(name, d_model, RealPositions(tuple(FRACTIONS)))
        for position, row in zip(FRACTIONS, rows.tolist(), strict=True):
            check(row, name, d_model, position)


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
