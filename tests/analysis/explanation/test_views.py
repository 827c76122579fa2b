"""Every packing and wrapper is read, without copies, and the plausible reading comes first."""

from collections.abc import Callable

import numpy as np
import pytest

from service.analysis.explanation.views import (
    HALF_STEP,
    PACKINGS,
    Columns,
    View,
    evenly,
    is_constant,
    numbers_of,
    step_bound,
    views,
    without_tail,
)
from service.analysis.precision import round_array, spacing
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
)
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels
from service.numerics.tables import StoredTable
from tests.analysis.turning import (
    DTYPES,
    PACKS,
    SINES_FIRST,
    Arrays,
    packed,
    powers,
    target_at,
    turned,
)

ROWS, WIDTH = 12, 16
COSINE, SINE = turned(powers(WIDTH), ROWS)
ALL_PACKS = (*PACKS, *(f"sin_{each}" for each in SINES_FIRST))
NAMES = {"complex": "pair", "sin_complex": "sin_pair"}


def named(pack: str) -> str:
    return NAMES.get(pack, pack)


def reading(arrays: Arrays, pack: str) -> View:
    """Return the most plausible reading with a packing."""
    return next(view for view in views(arrays) if view.packing == named(pack))


def has(view: View, cosine: Float64s, sine: Float64s, dtype: DType = FLOAT32) -> bool:
    """Return whether a view holds these cosines and sines, rounded to a type."""
    have = view.at(slice(None))
    return all(
        part is not None
        and part.shape == each.shape
        and np.allclose(part, each, rtol=0, atol=2 * HALF_STEP[dtype])
        for part, each in ((have.cosine, cosine), (have.sine, sine))
    )


def noted(view: View) -> list[str]:
    return [note.name for note in view.notes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pack", ALL_PACKS)
def test_every_packing_is_read(pack: str, dtype: str) -> None:
    found = reading(packed(COSINE, SINE, pack, DTYPES[dtype]), pack)

    assert has(found, COSINE, SINE, FLOAT32 if pack == "complex" else DTYPES[dtype])
    assert found.count == WIDTH // 2


def test_every_packing_that_views_know_is_tested() -> None:
    assert set(PACKINGS) <= {named(pack) for pack in ALL_PACKS}


@pytest.mark.parametrize("pack", [each for each in PACKS if each != "interleaved_concat"])
def test_the_packing_of_the_expected_table_is_read_first_and_costs_nothing(pack: str) -> None:
    wanted = target_at(f"/rope?head_dim={WIDTH}&seq_len={ROWS}&pack={pack}", ROWS).wanted
    first = next(views(packed(COSINE, SINE, pack), wanted))

    assert (first.packing, first.bits) == (named(pack), 0)
    assert has(first, COSINE, SINE)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_a_sinusoidal_table_is_read_sines_first(layout: str) -> None:
    url = f"/encoding?d_model={WIDTH}&seq_len={ROWS}&layout={layout}"
    pack = {"interleaved": "sin_flat", "concatenated": "sin_concat"}[layout]
    first = next(views(packed(COSINE, SINE, pack), target_at(url, ROWS).wanted))

    assert (first.packing, first.bits) == (pack, 0)
    assert has(first, COSINE, SINE)


@pytest.mark.parametrize("pack", ALL_PACKS)
def test_another_packing_costs_bits_beside_the_expected_one(pack: str) -> None:
    wanted = target_at(f"/rope?head_dim={WIDTH}&seq_len={ROWS}&pack=concat", ROWS).wanted
    found = [view for view in views(packed(COSINE, SINE, pack), wanted) if has(view, COSINE, SINE)]

    assert found
    assert found[0].packing == named(pack)
    assert (found[0].bits == 0) == (pack == "concat")


WRAPPERS: dict[str, tuple[Callable[[Float64s], Float64s], list[str]]] = {
    "a batch of one": (lambda each: each[None], ["squeezed"]),
    "two axes of length 1": (lambda each: each[None, :, None], ["squeezed"]),
    "a batch of three": (lambda each: np.stack([each] * 3), ["batch"]),
    "heads": (lambda each: np.stack([each] * 3, axis=1), ["batch"]),
    "a batch and heads": (lambda each: np.tile(each, (2, 4, 1, 1)), ["batch", "batch"]),
    "a batch of one and heads": (lambda each: np.tile(each, (1, 4, 1, 1)), ["squeezed", "batch"]),
    "transposed": (lambda each: each.T, ["transposed"]),
    "a transposed batch": (lambda each: np.stack([each.T] * 3), ["batch", "transposed"]),
}


@pytest.mark.parametrize("pack", ["half", "interleaved", "compact", "concat", "flat", "sin_concat"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_wrapper_is_undone_and_noted(wrapper: str, pack: str) -> None:
    wrap, notes = WRAPPERS[wrapper]
    arrays = {
        name: StoredTable(np.ascontiguousarray(wrap(each.elements)), each.dtype)
        for name, each in packed(COSINE, SINE, pack).items()
    }

    found = next(view for view in views(arrays) if view.packing == pack and has(view, COSINE, SINE))

    assert noted(found) == notes
    assert all(note.text for note in found.notes)


def test_the_note_of_a_batch_says_which_axis_and_how_many() -> None:
    wrapped = np.stack([np.hstack([COSINE, SINE])] * 5, axis=1)

    (note,) = reading({"x": round_array(wrapped, FLOAT32)}, "concat").notes

    assert note.values == {"axis": 1, "count": 5}


def test_batches_that_differ_are_not_left_out() -> None:
    batches = np.stack([np.hstack([COSINE, SINE])] * 3)
    batches[2, 5, 3] += 1

    assert not [view for view in views({"x": round_array(batches, FLOAT32)}) if view.rows == ROWS]


@pytest.mark.parametrize("pack", ["compact", "half", "interleaved"])
@pytest.mark.parametrize(("axis", "note"), [(0, ["stacked"]), (1, ["stacked"]), (2, [])])
@pytest.mark.parametrize("sines_first", [False, True])
def test_components_that_are_stacked_are_told_apart(
    axis: int, note: list[str], pack: str, sines_first: bool
) -> None:
    arrays = packed(COSINE, SINE, pack)
    parts = [arrays[name].elements for name in ("cos", "sin")]
    stacked = StoredTable(np.stack(parts[:: -1 if sines_first else 1], axis=axis), FLOAT32)
    name = ("sin_" if sines_first else "") + ("pair" if axis == 2 else pack)

    found = next(view for view in views({"x": stacked}) if view.packing == name)

    is_twice = axis == 2 and pack != "compact"
    assert has(found, COSINE, SINE)
    assert noted(found) == (["twice"] if is_twice else note)


def test_complex_numbers_of_both_widths_are_read() -> None:
    both = StoredTable(COSINE + 1j * SINE, COMPLEX128)

    found = next(views({"x": both}))

    assert (found.packing, found.dtype) == ("pair", FLOAT64)
    assert has(found, COSINE, SINE, FLOAT64)


def test_cosines_and_sines_under_each_other_s_name_are_read_as_exchanged() -> None:
    found = [view for view in views(packed(SINE, COSINE, "half")) if has(view, COSINE, SINE)]

    assert noted(found[0]) == ["exchanged"]
    assert found[0].bits > 0


@pytest.mark.parametrize(
    ("name", "part", "bits"),
    [("cos_cached", "cos", 0), ("sin", "sin", 0), ("x", "cos", 2), ("x", "sin", 2)],
)
@pytest.mark.parametrize("copies", ["compact", "half", "interleaved"])
def test_one_component_alone_is_read_by_its_name_or_as_either(
    name: str, part: str, bits: float, copies: str
) -> None:
    wave = COSINE if part == "cos" else SINE
    array = packed(wave, wave, copies)["cos"]

    found = next(
        view
        for view in views({name: array})
        if view.packing == copies
        and not view.has_pairs
        and (view.cosine is None) == (part == "sin")
    )

    np.testing.assert_allclose(np.asarray(found.parts[0]), wave, atol=2.0**-23)
    assert found.bits == bits
    assert noted(found) == ["alone"]


def test_a_name_that_says_cosines_is_not_read_as_sines_alone() -> None:
    found = views({"cos": round_array(COSINE, FLOAT32)})

    assert not [view for view in found if "alone" in noted(view) and view.cosine is None]


@pytest.mark.parametrize("pack", ["half", "interleaved", "half_concat", "interleaved_concat"])
def test_copies_are_kept_for_the_last_pass(pack: str) -> None:
    found = reading(packed(COSINE, SINE, pack), pack)

    copies = sum(one.shape[1] for one, _ in found.rest)
    assert copies == WIDTH
    assert all(np.array_equal(one, other) for one, other in found.rest)


@pytest.mark.parametrize("pack", ["half", "interleaved", "half_concat"])
def test_copies_that_differ_are_read_as_the_expected_packing_at_last(pack: str) -> None:
    wanted = target_at(f"/rope?head_dim={WIDTH}&seq_len={ROWS}&pack={pack}", ROWS).wanted
    arrays = packed(COSINE, SINE, pack)
    next(iter(arrays.values())).elements[3, -1] += 1

    found = list(views(arrays, wanted))

    assert [view.packing == pack for view in found] == [False] * (len(found) - 1) + [True]
    assert found[-1].bits > 0
    assert not all(np.array_equal(one, other) for one, other in found[-1].rest)


@pytest.mark.parametrize("pack", ["concat", "flat", "sin_concat", "half_concat", "pair", "half"])
def test_a_view_shares_the_memory_of_the_array(pack: str) -> None:
    arrays = packed(COSINE, SINE, pack)

    found = reading(arrays, pack)

    for part in (*found.parts, *(each for both in found.rest for each in both)):
        assert any(np.shares_memory(part, each.elements) for each in arrays.values())


@pytest.mark.parametrize("pack", ["concat", "half"])
def test_the_expected_reading_shares_the_memory_of_the_array(pack: str) -> None:
    wanted = target_at(f"/rope?head_dim={WIDTH}&seq_len={ROWS}&pack={pack}", ROWS).wanted
    arrays = packed(COSINE, SINE, pack)

    found = next(views(arrays, wanted))

    assert all(
        any(np.shares_memory(part, each.elements) for each in arrays.values())
        for part in found.parts
    )


@pytest.mark.parametrize("pack", ALL_PACKS)
def test_readings_come_in_the_order_of_their_bits(pack: str) -> None:
    bits = [view.bits for view in views(packed(COSINE, SINE, pack))]

    assert bits == sorted(bits)
    assert bits[0] == 0


@pytest.mark.parametrize(
    ("cheaper", "dearer"),
    [
        (("concat", ()), ("sin_concat", ())),
        (("flat", ()), ("sin_flat", ())),
        (("sin_concat", ()), ("compact", ("alone",))),
        (("compact", ("alone",)), ("concat", ("transposed",))),
        (("concat", ("transposed",)), ("sin_concat", ("transposed",))),
    ],
)
def test_a_less_plausible_reading_costs_more(
    cheaper: tuple[str, tuple[str, ...]], dearer: tuple[str, tuple[str, ...]]
) -> None:
    bits = {
        (view.packing, tuple(noted(view))): view.bits
        for view in views(packed(COSINE, SINE, "concat"))
    }

    assert bits[cheaper] < bits[dearer]


def test_an_odd_width_has_one_more_cosine_or_sine() -> None:
    row = np.hstack([COSINE, SINE])[:, :-1]

    found = reading({"x": round_array(row, FLOAT32)}, "flat")

    assert sorted(part.shape[1] for part in found.parts) == [7, 8]
    assert found.count == 8
    assert found.phasors.shape == (ROWS, 7)


def test_a_single_row_is_a_table_of_one_row() -> None:
    found = reading({"x": round_array(np.hstack([COSINE, SINE])[3], FLOAT32)}, "concat")

    assert has(found, COSINE[3:4], SINE[3:4])


@pytest.mark.parametrize("shape", [(1,), (2, 3, 4, 5), (0,)])
def test_arrays_of_other_shapes_have_no_reading_or_no_pairs(shape: tuple[int, ...]) -> None:
    numbers = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)

    assert not [view for view in views({"x": round_array(numbers, FLOAT32)}) if view.has_pairs]


def test_cosines_and_sines_of_different_shapes_have_no_reading() -> None:
    arrays = {"cos": round_array(COSINE, FLOAT32), "sin": round_array(SINE[:-1], FLOAT32)}

    assert list(views(arrays)) == []


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (0.0, "zero"), (np.inf, "infinite")])
@pytest.mark.parametrize("pack", ["half", "concat", "flat"])
@pytest.mark.parametrize("first", [2, 7, 11])
def test_a_tail_of_padding_is_cut_and_noted(value: float, word: str, pack: str, first: int) -> None:
    cosine, sine = COSINE.copy(), SINE.copy()
    cosine[first:], sine[first:] = value, value

    view, note = without_tail(reading(packed(cosine, sine, pack), pack))

    assert note is not None
    assert note.values == {"from": first, "to": len(COSINE) - 1, "are": word}
    assert note.text == f"rows from {first} on are {word}"
    assert has(view, COSINE[:first], SINE[:first])
    assert all(len(one) == first for one, _ in view.rest)


def test_padding_in_the_middle_and_rows_of_sines_at_position_0_are_no_tail() -> None:
    middle = COSINE.copy()
    middle[3] = np.nan
    sines = View(None, np.zeros((3, 4)), FLOAT32, "compact")

    assert without_tail(View(middle, SINE, FLOAT32, "compact"))[1] is None
    assert without_tail(sines)[1] is None


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_a_table_of_padding_alone_is_left_as_it_is(value: float) -> None:
    view = View(np.full((3, 4), value), np.full((3, 4), value), FLOAT32, "compact")

    assert without_tail(view) == (view, None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pack", ALL_PACKS)
def test_squares_of_a_true_reading_add_up_to_one_number(pack: str, dtype: str) -> None:
    kind = FLOAT32 if pack == "complex" else DTYPES[dtype]
    arrays = packed(3.5 * COSINE, 3.5 * SINE, pack, DTYPES[dtype])

    assert is_constant(reading(arrays, pack).at(slice(None)), 16 * HALF_STEP[kind])


@pytest.mark.parametrize(
    ("pack", "wrong"), [("concat", "flat"), ("flat", "concat"), ("half_concat", "flat")]
)
def test_squares_of_a_wrong_reading_do_not(pack: str, wrong: str) -> None:
    found = reading(packed(COSINE, SINE, pack), wrong)

    assert not is_constant(found.at(slice(None)), 16 * HALF_STEP[FLOAT32])


@pytest.mark.parametrize("pack", [each for each in PACKINGS if "_" not in each])
def test_columns_are_those_of_the_channels(pack: str) -> None:
    channels = PACKINGS[pack].channels(WIDTH)
    assert isinstance(channels, Channels)
    frequency, is_sine = channels.indices()

    columns = Columns.of(channels)

    for chosen, of_sine in ((columns.cosine, False), (columns.sine, True)):
        assert frequency[chosen].tolist() == list(range(WIDTH // 2))
        assert (is_sine[chosen] == of_sine).all()
    assert len(columns.copies) == 0


def test_channels_at_the_end_that_are_zero_are_columns_of_zeros() -> None:
    url = "/encoding?d_model=17&seq_len=12&convention=tensor2tensor"
    target = target_at(url, ROWS)
    (columns,) = target.wanted.columns.values()
    assert columns.zeros.tolist() == [16]
    table = np.hstack([SINE, COSINE, np.zeros((ROWS, 1))])

    first = next(views({"x": round_array(table, FLOAT32)}, target.wanted))

    assert has(first, COSINE, SINE)
    assert first.rest[-1][1].shape == (ROWS, 1)


def test_numbers_are_read_in_their_type() -> None:
    bits, dtype = numbers_of(round_array(COSINE, BFLOAT16))
    integers, of_integers = numbers_of(StoredTable(np.arange(4), INT64))

    np.testing.assert_allclose(bits.astype(np.float64), COSINE, atol=2.0**-8)
    assert (dtype, of_integers) == (BFLOAT16, FLOAT64)
    assert integers.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bound_of_a_step_is_a_step_or_up_to_twice_one(dtype: str) -> None:
    values = np.array([1.0, -0.75, 0.5000001, 0.1, 3e-3, 2.0**-14])
    step = spacing(values, DTYPES[dtype])

    bound = step_bound(values, DTYPES[dtype])

    assert (step <= bound).all()
    assert (bound <= 2 * step).all()
    assert (step_bound(np.zeros(1), DTYPES[dtype]) > 0).all()
    assert float(step_bound(np.ones(1), FLOAT16)[0]) == 2.0**-10


@pytest.mark.parametrize(
    ("count", "most", "found"),
    [(3, 8, [0, 1, 2]), (9, 3, [0, 4, 8]), (1, 4, [0]), (100, 2, [0, 99])],
)
def test_evenly_spaced_indices_have_both_ends(count: int, most: int, found: list[int]) -> None:
    assert evenly(count, most) == found


def test_rows_of_a_view_become_float64() -> None:
    found = reading(packed(COSINE, SINE, "half", BFLOAT16), "half").at(np.array([5, 2]))

    assert found.cosine is not None
    assert found.cosine.dtype == np.float64
    np.testing.assert_allclose(found.cosine, COSINE[[5, 2]], atol=2.0**-8)
    assert found.rest == ()
