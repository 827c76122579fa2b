"""Every mistake proposes itself: a table that is made with it is explained by it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from service.analysis.explanation import arithmetic, candidates, engine
from service.analysis.explanation.candidates import MOST_MISTAKES, Candidate, Proposer, simplest
from service.analysis.explanation.catalogue import CATALOGUE, mistake
from service.analysis.explanation.engine import _Search, explain
from service.analysis.explanation.sampling import readings_of
from service.analysis.explanation.sources import USUAL_BASES
from service.analysis.explanation.views import HALF_STEP
from service.analysis.precision import round_array
from service.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64
from service.numerics.phase import Float64s
from service.routes.diagnose import DiagnoseReport, report_of
from service.routes.expected_tables import elements_of
from service.routes.table_urls import read_url
from service.settings import default_settings
from tests.analysis.round_trips import ROWS, RULES, TRIPS, WIDTH, Trip, omega_of
from tests.analysis.turning import (
    DTYPES,
    PACKS,
    expected,
    explained,
    names,
    packed,
    powers,
    target_at,
    turned,
)

# Mistakes that no single table along one axis can have: other modules name them.
ELSEWHERE = {
    "rules-by-layer",
    "one-sided-factor",
    "wrong-sign",
    "rotary-offset",
    "rest-zeroed",
    "layout-mixed",
    "table-layout-swapped",
    "axes-swapped",
    "inverse",
    "another-table",
    "padding-counted",
    "next-sequence",
    "downscale-shift",
    "missing-part",
    "missing-exponent",
    "missing-division",
    "factor-inverted",
    "wrong-heads",
}
OF_AXES = {"sections-exchanged", "sections-interleaved"}


def has(value: Any, wanted: Any) -> bool:
    """Return whether a value is the wanted one, but for what float32 cannot tell."""
    if isinstance(wanted, float) and not isinstance(value, str):
        return bool(np.isclose(value, wanted, rtol=1e-6))
    return bool(value == wanted)


@pytest.mark.parametrize("name", TRIPS)
def test_a_table_with_a_mistake_is_explained_by_it(name: str) -> None:
    trip = TRIPS[name]

    found = trip.found

    assert (found.verdict, names(found)) == ("diagnosed", sorted(trip.named))
    for each in found.mistakes:
        wrong = {
            key: (each.values.get(key), value)
            for key, value in trip.named[each.name].items()
            if not has(each.values.get(key), value)
        }
        assert not wrong


def test_every_mistake_of_the_catalogue_makes_a_round_trip_here_or_is_of_another_kind() -> None:
    made = {name for trip in TRIPS.values() for name in trip.named}
    known = {key.partition("/")[0] for key in CATALOGUE}

    assert made | OF_AXES | ELSEWHERE == known
    assert not made & (OF_AXES | ELSEWHERE)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_base_is_found_in_every_type(rule: str, dtype: str) -> None:
    trip = replace(TRIPS[f"{rule}, wrong-base"], dtype=dtype, asked={"dtype": dtype})

    assert names(trip.found) == ["wrong-base"]


def right_table(rule: str, pack: str, dtype: str) -> Trip:
    right = RULES[rule]
    asked = {"pack": pack} if pack == "complex" else {"pack": pack, "dtype": dtype}
    return Trip(
        right, {}, omega_of(right), scale=right.attention(), pack=pack, dtype=dtype, asked=asked
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rule", RULES)
def test_a_right_table_of_any_rule_is_equal(rule: str, dtype: str) -> None:
    found = right_table(rule, "half", dtype).found

    assert (found.verdict, found.mistakes, found.alternatives) == ("equal", (), ())


@pytest.mark.parametrize(
    ("pack", "dtype"),
    [
        *product(
            [each for each in PACKS if "complex" not in each and "terleaved_" not in each], DTYPES
        ),
        ("complex", "float32"),
    ],
)
def test_a_right_table_in_any_packing_is_equal(pack: str, dtype: str) -> None:
    trip = right_table("none", pack, dtype)

    assert (trip.found.verdict, trip.found.mistakes) == ("equal", ())
    assert trip.found.elements == sum(table.elements.size for table in trip.arrays.values())


TWO: Mapping[str, Trip] = {
    "wrong-base, layout-swapped": replace(TRIPS["none, wrong-base"], pack="interleaved"),
    "wrong-base, halves-swapped": replace(
        TRIPS["none, wrong-base"], wrap=lambda cosine, sine: (sine, cosine)
    ),
    "wrong-base, sine-sign": replace(
        TRIPS["none, wrong-base"], wrap=lambda cosine, sine: (cosine, -sine)
    ),
    "wrong-base, position-offset": replace(
        TRIPS["none, wrong-base"], positions=np.arange(3.0, ROWS)
    ),
    "wrong-base, extra-factor": replace(TRIPS["none, wrong-base"], scale=1.25),
    "wrong-base, narrow-tables": replace(TRIPS["none, wrong-base"], narrow="tables"),
    "wrong-base, narrow-frequencies": replace(
        TRIPS["none, wrong-base"], narrow="frequencies", positions=np.arange(300.0)
    ),
    "wrong-base, narrow-positions": replace(
        TRIPS["none, wrong-base"], narrow="positions", positions=np.arange(400.0)
    ),
    "wrong-base, transposed": replace(
        TRIPS["none, wrong-base"], wrap_arrays=TRIPS["none, transposed"].wrap_arrays
    ),
    "wrong-base, config-key-ignored": replace(
        TRIPS["linear, config-key-ignored"], omega=powers(WIDTH, 10000.0)
    ),
    "layout-swapped, sine-sign": replace(TRIPS["none, sine-sign"], pack="interleaved"),
    "layout-swapped, missing-factor": replace(TRIPS["yarn, missing-factor"], pack="interleaved"),
    "layout-swapped, tutorial-slip": replace(
        TRIPS["none, tutorial-slip (i + 1)/d"], pack="interleaved"
    ),
    "position-offset, sine-sign": replace(
        TRIPS["none, position-offset 1"], wrap=TRIPS["none, sine-sign"].wrap
    ),
    "position-offset, tutorial-slip": replace(
        TRIPS["none, tutorial-slip (i + 1)/d"], positions=np.arange(1.0, ROWS)
    ),
    "partial-width, wrong-base": replace(
        TRIPS["none, partial-width"],
        omega=np.where(np.arange(WIDTH // 2) < 16, powers(WIDTH, 10000.0), 0),
    ),
}


@pytest.mark.parametrize("pair", TWO)
def test_two_mistakes_are_named_together(pair: str) -> None:
    found = TWO[pair].found

    assert (found.verdict, names(found)) == ("diagnosed", sorted(pair.split(", ")))


def proposers(trip: Trip) -> Iterator[Proposer]:
    """Yield the proposers of the readings that have the packing of the expected table."""
    arrays = trip.arrays
    target = target_at(trip.url, max(next(iter(arrays.values())).shape))
    for reading in readings_of(arrays, target):
        if reading.view.packing == target.wanted.packing and reading.is_constant:
            yield from _Search(target)._proposers(reading)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["wrong-base", "partial-width"])
def test_candidates_come_in_the_order_of_their_bits(rule: str, name: str) -> None:
    found = [
        [candidate.bits for candidate in islice(proposer.candidates(), 200)]
        for proposer in proposers(TRIPS[f"{rule}, {name}"])
    ]

    assert max(map(len, found)) > 2
    assert all(bits == sorted(bits) for bits in found)


def test_the_candidates_that_are_tried_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    proposer, *_ = proposers(TRIPS["none, wrong-base"])
    count = len(list(proposer.candidates()))

    assert len(list(proposer.candidates(most_products=1))) < count
    monkeypatch.setattr(candidates, "_MOST_TRIED", 2)
    assert len(list(proposer.candidates())) == 2 < count


@pytest.mark.parametrize(
    "name", [name for name in TRIPS if name.split(", ")[0] in {"none", "llama3"}]
)
def test_no_candidate_has_more_mistakes_or_channels_than_the_table(name: str) -> None:
    for proposer in proposers(TRIPS[name]):
        for candidate in proposer.candidates(12):
            assert len(candidate.mistakes) <= MOST_MISTAKES
            assert len(candidate.omega) == proposer.view.count
            for each in candidate.mistakes:
                if each.name == "partial-width":
                    assert each.values["have"] <= 2 * proposer.view.count


@pytest.mark.parametrize("base", [100.0, 10000.0, 1e6, 123456.0])
@pytest.mark.parametrize("width", [8, 32, 128])
def test_a_wrong_base_is_never_a_width_above_that_of_the_table(base: float, width: int) -> None:
    arrays = packed(*turned(powers(width, base), ROWS), "half")

    found = explained(arrays, f"/rope?head_dim={width}&rope_theta=500000&pack=half")

    assert names(found) == ["wrong-base"]
    assert found.mistakes[0].values["have"] == base
    for other in found.alternatives:
        assert all(each.name != "partial-width" for each in other)


@pytest.mark.parametrize("channels", [128, 256])
def test_more_channels_than_a_head_has_are_not_a_width(channels: int) -> None:
    arrays = packed(*turned(powers(channels), ROWS), "half")

    found = explained(arrays, f"/rope?head_dim={WIDTH}&pack=half")

    assert "partial-width" not in names(found)


def test_fewer_pairs_than_expected_are_a_beginning_or_a_smaller_width() -> None:
    url = f"/rope?head_dim={WIDTH}&pack=half"
    beginning = explained(packed(*turned(powers(WIDTH)[:16], ROWS), "half"), url)
    narrower = explained(packed(*turned(powers(WIDTH // 2), ROWS), "half"), url)

    assert names(beginning) == ["truncated"]
    assert names(narrower) == ["partial-width"]
    assert narrower.mistakes[0].values == {"have": WIDTH // 2, "want": WIDTH}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("rows", [16, 64, 300])
@pytest.mark.parametrize("base", [43871.0, 10000.0, 77777.0, 250000.0])
def test_the_interval_of_a_base_holds_the_true_base(base: float, rows: int, dtype: str) -> None:
    arrays = packed(*turned(powers(32, base), rows), "concat", DTYPES[dtype])

    found = explained(arrays, f"/rope?head_dim=32&rope_theta=500000&pack=concat&dtype={dtype}")

    assert names(found) == ["wrong-base"]
    have = found.mistakes[0].values["have"]
    # A usual base is said without an interval.
    low, high = found.mistakes[0].values.get("interval", (have, have))
    assert low <= base <= high or have in USUAL_BASES
    assert low <= have <= high


@pytest.mark.full
def test_the_interval_narrows_with_the_type_and_with_rows() -> None:
    widths = []
    for rows, dtype in ((16, "bfloat16"), (16, "float16"), (16, "float32"), (500, "float32")):
        arrays = packed(*turned(powers(32, 57123.0), rows), "concat", DTYPES[dtype])
        found = explained(arrays, f"/rope?head_dim=32&pack=concat&dtype={dtype}")
        low, high = found.mistakes[0].values["interval"]
        widths.append(high - low)

    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 10 * widths[-1]


def report(trip: Trip) -> DiagnoseReport:
    """Return what /diagnose answers."""
    rows = max(length for each in trip.arrays.values() for length in each.shape)
    named = expected(trip.url, rows)
    return report_of(trip.found, named.target, named, default_settings())


@pytest.mark.parametrize("name", TRIPS)
def test_the_table_that_the_array_is_has_its_numbers_and_is_never_the_expected_one(
    name: str,
) -> None:
    said = report(TRIPS[name])

    assert said.correct is not None
    if said.yours is None or said.yours.post:
        return
    assert said.yours.url != said.correct.url
    claimed = read_url(said.yours.url).document
    for table, own in zip(claimed.arrays.values(), TRIPS[name].arrays.values(), strict=True):
        have = np.asarray(own.elements, dtype=np.float64)
        # float32 angles of up to 100 radians
        np.testing.assert_allclose(elements_of(table), have, atol=3e-5)


@pytest.mark.parametrize(
    "name",
    [
        "none, wrong-base",
        "none, position-offset 1",
        "none, positions-reset",
        "none, layout-swapped",
        "yarn, config-key-ignored",
        "yarn, missing-factor",
        "llama3, wrong-parameter factor",
        "dynamic, dynamic-length context_length",
        "longrope, short-for-long-factors",
        "ntk, wrong-rule linear",
    ],
)
def test_a_mistake_of_a_setting_has_a_url(name: str) -> None:
    assert report(TRIPS[name]).yours is not None


@pytest.mark.parametrize(
    ("have", "want", "names_of_both"),
    [
        # √b, and the exponent k/d
        (100.0, 10000.0, {"wrong-base", "tutorial-slip"}),
        # b², and the exponent 2·(2k)/d
        (1e8, 10000.0, {"wrong-base", "tutorial-slip"}),
    ],
)
def test_mistakes_that_give_the_same_numbers_are_both_said(
    have: float, want: float, names_of_both: set[str]
) -> None:
    arrays = packed(*turned(powers(WIDTH, have), ROWS), "half")

    found = explained(arrays, f"/rope?head_dim={WIDTH}&rope_theta={want:.0f}&pack=half")

    said = {*names(found), *(each.name for other in found.alternatives for each in other)}
    assert said >= names_of_both


def test_a_single_row_is_explained() -> None:
    url = f"/rope?head_dim={WIDTH}&rope_theta=500000&pack=concat&start=7"
    right, wrong = (
        packed(*turned(powers(WIDTH, base), np.array([7.0])), "concat") for base in (5e5, 1e4)
    )

    assert names(explain(right, target_at(url, 1))) == ["equal"]
    assert names(explain(wrong, target_at(url, 1))) == ["wrong-base"]


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9, 1e-300])
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, BFLOAT16], ids=lambda dtype: dtype.name)
def test_noise_has_no_mistake(size: float, dtype: Any) -> None:
    noise = np.random.default_rng(1).normal(size=(ROWS, WIDTH)) * size

    found = explained({"x": round_array(noise, dtype)}, f"/rope?head_dim={WIDTH}&pack=concat")

    assert (found.verdict, found.mistakes) == ("none", ())


def test_of_candidates_with_the_same_names_the_cheapest_is_kept() -> None:
    omega: Float64s = np.ones(2)
    cheap, dear, other = (
        Candidate((mistake(name),), bits, omega, 1.0)
        for name, bits in (("wrong-base", 2.0), ("wrong-base", 5.0), ("sine-sign", 6.0))
    )

    assert simplest([cheap, dear, other]) == [cheap, other]


@pytest.mark.parametrize(
    ("name", "order", "axes"),
    [
        ("equal", [0, 1, 2], np.repeat([0, 1, 2], [4, 6, 6])),
        ("sections-exchanged", [0, 2, 1], np.repeat([0, 1, 2], [4, 6, 6])),
        ("sections-interleaved", [0, 1, 2], np.arange(16) % 3),
    ],
)
def test_sections_of_axes_that_are_exchanged_are_named(
    name: str, order: list[int], axes: Any
) -> None:
    url = (
        "/rope?head_dim=32&pack=concat&mrope_section=4,6,6"
        "&positions_t=0:40&positions_h=3:43&positions_w=9:49"
    )
    places = np.arange(40.0) + np.array([[0.0], [3.0], [9.0]])
    angles = places[order][axes].T * powers(32)

    assert names(explained(packed(np.cos(angles), np.sin(angles), "concat"), url)) == [name]


# Bounds that are changed on purpose: the tests above can fail.


def test_with_angles_that_may_be_off_a_right_base_is_accepted_for_a_wrong_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = packed(*turned(powers(WIDTH, 500100.0), ROWS), "half")
    url = f"/rope?head_dim={WIDTH}&rope_theta=500000&pack=half"
    assert names(explained(arrays, url)) == ["wrong-base"]

    monkeypatch.setattr(arithmetic, "UNIT", 2.0**-12)

    assert names(explained(arrays, url)) == ["equal"]


def test_with_a_type_that_is_taken_for_granted_narrow_tables_are_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trip = TRIPS["none, narrow-tables bfloat16"]
    assert names(explained(trip.arrays, trip.url)) == ["narrow-tables"]

    tight = dict.fromkeys(HALF_STEP, 2.0**-8)
    monkeypatch.setattr(engine, "HALF_STEP", tight)

    assert names(explained(trip.arrays, trip.url)) != ["narrow-tables"]
