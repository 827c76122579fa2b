"""Axial rotary tables, by every convention against an independent evaluation."""

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, get_args
from urllib.parse import parse_qsl

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from service.delivery.parameters import read_parameters
from service.encodings.rotary.axial import (
    Axial,
)
from service.encodings.rotary.axial_conventions import CONVENTIONS
from tests.client import Client, load_npy
from tests.exact import UNIT
from tests.parity.exact_axial import axial_angles


def test_every_convention_names_its_source() -> None:
    for convention in CONVENTIONS.values():
        assert any(character.isdigit() for character in convention.source)
        assert set(convention.axes) <= {1, 2, 3, 4}


URL = "/rope/axial"
Rows: TypeAlias = list[list[Any]]


WORDS = {"convention", "normalize_coords", "grid_indexing"}
NUMBERS = {"head_dim", "rope_theta", "max_freq", "min_period", "max_period", "linear_bands"}


def evaluated(query: str) -> Rows:
    """Evaluate a query of the conventions that ``tests.parity.exact_axial`` knows."""
    return axial_angles(
        {
            name: text if name in WORDS else json.loads(text if name in NUMBERS else f"[{text}]")
            for name, text in parse_qsl(query)
        }
    )


def powers(theta: float, dim: int) -> list[Any]:
    """1 / theta ** (arange(0, dim, 2) / dim)."""
    return [1 / mpf(theta) ** (mpf(i) / dim) for i in range(0, dim, 2)]


def times(coordinate: Any, frequencies: list[Any]) -> list[Any]:
    return [coordinate * frequency for frequency in frequencies]


def rows_of(axes: list[list[Any]], *frequencies: list[Any]) -> Rows:
    """Concatenate, for every token of a grid, the angles of its axes in their order."""
    return [
        [
            angle
            for coordinate, series in zip(token, frequencies, strict=True)
            for angle in times(coordinate, series)
        ]
        for token in product(*axes)
    ]


def llama4() -> Rows:
    series = powers(10000.0, 8)
    tokens = [(i % 5 + 1, i // 5 + 1) for i in range(3 * 5)]
    return [times(x, series) + times(y, series) for x, y in tokens] + [[mpf(0)] * 8]


def ltx(step: Any, offset: Any, fps: Any, *, midpoints: bool, axes: int = 3) -> Rows:
    """One pair at rest, then π·100^(k/2) for k = 0, 1, 2 on each of the axes t, h and w."""

    def place(i: int, moved: Any) -> Any:
        starts = [max(mpf(step) * (i + k) + moved, mpf(0)) for k in range(1 + midpoints)]
        return sum(starts) / len(starts)

    rates, lengths, rows = [mpmath.pi * 10**k for k in range(3)], (2, 2, 3)[:axes], []
    for token in product(*map(range, lengths)):
        time = place(token[0], offset) / fps / 20
        others = [place(i, 0) / 2048 for i in token[1:]]
        places = [coordinate - mpf("0.5") for coordinate in (time, *others)]
        rows.append([mpf(0)] * (axes > 1) + [c * rate for rate in rates for c in places])
    return rows


def fitted(starts: tuple[int, int], stops: tuple[int, int]) -> Rows:
    """Rows and columns of a grid of 3 by 5 from starts to stops, the end excluded."""
    down, across = (
        [start + (mpf(stop) * (n - 1) / n - start) * i / (n - 1) for i in range(n)]
        for start, stop, n in zip(starts, stops, (3, 5), strict=True)
    )
    return rows_of([[0, 1], down, across], EIGHT, powers(10000.0, 12), powers(10000.0, 12))


AXIAL_DOWN, AXIAL_ACROSS = list(range(3)), list(range(5))
EIGHT = powers(10000.0, 8)
VIDEO = [list(range(n)) for n in (2, 3, 5)]
FLAT = "head_dim=16&grid=3,5"
SOLID = "grid=2,3,5"

EVALUATED = [
    f"convention=qwen2_vl&{FLAT}",
    f"convention=qwen2_vl&{FLAT}&rope_theta=100",
    f"convention=dinov3&{FLAT}",
    f"convention=dinov3&{FLAT}&normalize_coords=max",
    f"convention=dinov3&{FLAT}&normalize_coords=min&grid_offset=-0.25",
    f"convention=dinov3&{FLAT}&min_period=0.5&max_period=20",
    f"convention=timm&{FLAT}&grid_offset=0.1",
    f"convention=timm&{FLAT}&grid_offset=1&reference_grid=7,14",
    f"convention=timm&{FLAT}&grid_indexing=xy",
    f"convention=timm_pixels&{FLAT}",
    f"convention=timm_pixels&{FLAT}&max_freq=256&linear_bands=true",
    "convention=timm_pixels&head_dim=8&grid=1",
    f"convention=rotary_embedding_torch&head_dim=24&{SOLID}",
    "convention=rotary_embedding_torch&head_dim=8&grid=5&grid_offset=-2",
    f"convention=rotary_embedding_torch&{FLAT}&grid_offset=2,5",
    f"convention=rotary_embedding_torch_pixel&head_dim=12&{SOLID}",
    f"convention=rotary_embedding_torch_constant&{FLAT}",
    f"convention=diffusers_2d&{FLAT}",
    f"convention=diffusers_2d&{FLAT}&grid_start=4,2.5&grid_stop=30,45",
    f"convention=lumina&{FLAT}",
    f"convention=sam2&{FLAT}",
    f"convention=sam2&{FLAT}&interpolation_scale=3&rope_theta=100",
    f"convention=kimi_k25&{FLAT}",
    f"convention=efficientloftr&{FLAT}",
    f"convention=cogvideox&head_dim=32&{SOLID}",
    f"convention=cogvideox&head_dim=32&{SOLID}&grid_start=0,-4,0.3&grid_stop=2,30,0.7",
    f"convention=allegro&head_dim=24&{SOLID}&interpolation_scale=0.5,2,3",
]
LIBRARIES: dict[str, Callable[[], Rows]] = {
    **{query: partial(evaluated, query) for query in EVALUATED},
    **{
        f"convention=pixtral&head_dim={dim}&grid=3,5": partial(
            rows_of,
            [AXIAL_DOWN, AXIAL_ACROSS],
            powers(10000.0, dim)[0::2],
            powers(10000.0, dim)[1::2],
        )
        for dim in (16, 6)
    },
    f"convention=llama4&{FLAT}&class_token=last": llama4,
    f"convention=llama4&{FLAT}": lambda: llama4()[:-1],
    f"convention=timm&head_dim=24&{SOLID}&grid_indexing=xy": lambda: [
        row[4:8] + row[:4] + row[8:] for row in rows_of(VIDEO, EIGHT, EIGHT, EIGHT)
    ],
    "convention=cogvideox&head_dim=16&grid=1,1,1&grid_start=0,3,4&axes_dim=4,6,6": lambda: rows_of(
        [[0], [3], [4]], powers(10000.0, 4), powers(10000.0, 6), powers(10000.0, 6)
    ),
    f"convention=flux&head_dim=20&axes_dim=4,8,8&{SOLID}": lambda: rows_of(
        VIDEO, powers(10000.0, 4), EIGHT, EIGHT
    ),
    "convention=flux&head_dim=20&axes_dim=4,8,8&positions_t=0,0,3&positions_h=-2,7,1"
    "&positions_w=9:12": lambda: [
        times(t, powers(10000.0, 4)) + times(h, EIGHT) + times(w, EIGHT)
        for t, h, w in ((0, -2, 9), (0, 7, 10), (3, 1, 11))
    ],
    f"convention=minimax_m3&head_dim=26&{SOLID}": lambda: rows_of(VIDEO, EIGHT, EIGHT, EIGHT),
    f"convention=wan&head_dim=28&{SOLID}": lambda: rows_of(
        VIDEO, powers(10000.0, 12), EIGHT, EIGHT
    ),
    f"convention=cosmos&head_dim=28&{SOLID}&ntk_scale=2,1,3&fps=16": lambda: rows_of(
        [[0, mpf("1.5")], *VIDEO[1:]],
        powers(10000 * mpf(2) ** (mpf(12) / 10), 12),
        EIGHT,
        powers(10000 * mpf(3) ** (mpf(8) / 6), 8),
    ),
    f"convention=qwen_image&axes_dim=4,8,8&{SOLID}&grid_offset=3,0,0": lambda: rows_of(
        [[3, 4], [-2, -1, 0], [-3, -2, -1, 0, 1]], powers(10000.0, 4), EIGHT, EIGHT
    ),
    f"convention=cogview4&{FLAT}&reference_grid=7,256": lambda: rows_of(
        [[0, 2, 4], [0, 51, 102, 153, 204]], EIGHT, EIGHT
    ),
    f"convention=flux&head_dim=20&axes_dim=4,8,8&{SOLID}&grid_step=1,2,0.5"
    "&grid_offset=3,0.5,0": lambda: rows_of(
        [[3, 4], [0.5, 2.5, 4.5], [0, 0.5, 1, 1.5, 2]], powers(10000.0, 4), EIGHT, EIGHT
    ),
    # 5 columns for 3 rows are wider than 8 for 6: 8·3/5 rows are 5, one of 6 is left, half of it
    # is rounded to 0. 4 rows are lower than 3·8/5, 7 columns of 8 remain, and the half is 0 again.
    "convention=cogvideox&head_dim=32&grid=2,3,5&reference_grid=6,8": lambda: fitted(
        (0, 0), (5, 8)
    ),
    "convention=cogvideox&head_dim=32&grid=2,3,5&reference_grid=9,8": lambda: fitted(
        (2, 0), (7, 8)
    ),
    "convention=cogvideox&head_dim=32&grid=2,3,5&reference_grid=3,8": lambda: fitted(
        (0, 2), (3, 7)
    ),
    "convention=ltx&head_dim=20&grid=2,2,3&grid_step=32&fps=25&rope_theta=100": partial(
        ltx, 32, 0, 25, midpoints=False
    ),
    "convention=ltx&head_dim=20&grid=2,2,3&grid_step=8&grid_offset=-7,0,0&rope_theta=100": partial(
        ltx, 8, -7, 1, midpoints=False
    ),
    "convention=ltx2&head_dim=20&grid=2,2,3&grid_step=8&grid_offset=-7,0,0&fps=24"
    "&rope_theta=100": partial(ltx, 8, -7, 24, midpoints=True),
    "convention=ltx2&head_dim=6&grid=2&grid_step=4&grid_offset=-3&fps=100&rope_theta=100": partial(
        ltx, 4, -3, 100, midpoints=True, axes=1
    ),
    # Positions list the tokens of Qwen2-VL in blocks of 2 × 2.
    "convention=qwen2_vl&head_dim=16&positions_h=0,0,1,1&positions_w=2,3,2,3"
    "&class_token=first": lambda: [
        [mpf(0)] * 8,
        *(times(h, EIGHT) + times(w, EIGHT) for h, w in ((0, 2), (0, 3), (1, 2), (1, 3))),
    ],
}


@pytest.mark.parametrize("query", LIBRARIES)
def test_angles_cosines_and_sines_are_those_of_the_library(client: Client, query: str) -> None:
    url, expected = f"{URL}.npy?{query}&dtype=float64", LIBRARIES[query]()

    angles = load_npy(client.get(f"{url}&pack=angle"))
    phasors = load_npy(client.get(f"{url}&pack=complex"))

    assert angles.shape == phasors.shape == (len(expected), len(expected[0]))
    for row, places in enumerate(expected):
        for place, exact in enumerate(places):
            assert abs(angles[row, place] - exact) <= mpf("1e-15") * abs(exact), (row, place)
            assert abs(phasors[row, place].real - mpmath.cos(exact)) <= 6 * UNIT
            assert abs(phasors[row, place].imag - mpmath.sin(exact)) <= 6 * UNIT


def test_every_convention_is_compared_with_its_library() -> None:
    assert {query.split("&")[0].removeprefix("convention=") for query in LIBRARIES} == set(
        CONVENTIONS
    )


def test_the_fastest_frequencies_have_exact_cosines(client: Client) -> None:
    query = "convention=dinov3&head_dim=4&grid=3,5&min_period=1e-9&max_period=1e-9"
    found = load_npy(
        client.get(f"{URL}.npy?{query}&interpolation_scale=1e-8&pack=complex&dtype=float64")
    )

    for row, (i, j) in enumerate(product(range(3), range(5))):
        coordinates = [(mpf(2 * i + 1) / 3 - 1), (mpf(2 * j + 1) / 5 - 1)]
        for place, coordinate in enumerate(coordinates):
            exact = coordinate * 2 * mpmath.pi / mpf(1e-9) / mpf(1e-8)
            assert abs(found[row, place].real - mpmath.cos(exact)) <= 6 * UNIT
            assert abs(found[row, place].imag - mpmath.sin(exact)) <= 6 * UNIT


def test_coordinates_below_the_smallest_unit_are_refused(client: Client) -> None:
    url = f"{URL}?convention=diffusers_2d&head_dim=8&grid=3,3&grid_start=0"

    assert client.get(f"{url}&grid_stop=3e-20").status_code == 200
    faults = client.get(f"{url}&grid_stop=3e-306").json()["errors"]
    assert {fault["parameter"] for fault in faults} == {"grid_start", "grid_stop"}


def test_parameters_equal_to_the_defaults_give_the_same_table(client: Client) -> None:
    for convention, beside in (
        ("dinov3", "normalize_coords=separate"),
        ("timm", "grid_indexing=ij"),
    ):
        url = f"{URL}.bin?convention={convention}&head_dim=8&grid=2,3"
        assert client.get(url).headers["ETag"] == client.get(f"{url}&{beside}").headers["ETag"]


def test_grids_and_the_positions_of_their_tokens_have_the_same_table(client: Client) -> None:
    positions = "positions_t=0,0,0,0,0,0,1,1,1,1,1,1&positions_h=0,0,0,1,1,1,0,0,0,1,1,1"
    listed = f"{positions}&positions_w=0,1,2,0,1,2,0,1,2,0,1,2"
    for convention in ("flux", "minimax_m3", "rotary_embedding_torch"):
        head = f"{URL}.npy?convention={convention}&head_dim=24"
        assert client.get(f"{head}&grid=2,2,3").content == client.get(f"{head}&{listed}").content


@pytest.mark.parametrize("grid", ["4,6", "6,4", "3,4,6"])
def test_spatial_merge_size_orders_tokens_in_blocks(client: Client, grid: str) -> None:
    *frames, height, width = map(int, grid.split(","))
    tokens = np.arange(int(np.prod(frames)) * height * width)
    order = tokens.reshape(-1, height // 2, 2, width // 2, 2).transpose(0, 1, 3, 2, 4).reshape(-1)
    convention = "minimax_m3" if frames else "qwen2_vl"
    url = f"{URL}.npy?convention={convention}&head_dim=48&grid={grid}"

    by_rows, by_blocks = (
        load_npy(client.get(url)),
        load_npy(client.get(f"{url}&spatial_merge_size=2")),
    )

    assert (by_blocks == by_rows[order]).all()
    assert (load_npy(client.get(f"{url}&spatial_merge_size=1")) == by_rows).all()


def test_head_dim_follows_from_axes_dim(client: Client) -> None:
    url = f"{URL}.bin?convention=flux&axes_dim=4,6,6&positions_t=0&positions_h=1&positions_w=2"

    assert client.get(url).content == client.get(f"{url}&head_dim=16").content


def test_frames_of_a_video_repeat_the_table_of_one(client: Client) -> None:
    url = f"{URL}.npy?convention=qwen2_vl&head_dim=16&spatial_merge_size=2"

    frame = load_npy(client.get(f"{url}&grid=4,6"))

    assert (load_npy(client.get(f"{url}&grid=3,4,6")) == np.concatenate([frame] * 3)).all()


def test_inv_freq_replaces_the_frequencies_of_every_axis(client: Client) -> None:
    """DINOv3 weights contain bfloat16 periods, whose frequencies are not those of the formula."""
    periods = (100.0 ** (np.arange(4) / 4)).astype(ml_dtypes.bfloat16).astype(np.float64)
    listed = ",".join(repr(float(value)) for value in 2 * np.pi / periods)
    url = f"{URL}.npy?convention=dinov3&head_dim=16&grid=3,5&pack=angle&dtype=float64"

    formula, given = load_npy(client.get(url)), load_npy(client.get(f"{url}&inv_freq={listed}"))

    rows = (2 * np.arange(3) + 1) / 3 - 1
    assert given[::5, :4] == pytest.approx(rows[:, np.newaxis] * 2 * np.pi / periods, abs=1e-15)
    assert np.abs(given - formula).max() > 1e-3


def test_a_huge_grid_costs_nothing_to_describe(client: Client) -> None:
    url = f"{URL}.npy?convention=qwen2_vl&head_dim=64&grid=1048576,1048576"

    head = client.head(url)

    assert head.status_code == 200
    assert head.headers["Array-Shape"] == f"{2**40}, 32, 2"
    assert int(head.headers["Content-Length"]) == 2**48 + 128


def test_the_last_row_of_a_huge_grid_is_computed_from_its_own_positions(client: Client) -> None:
    side = 2**20
    url = f"{URL}.bin?convention=qwen2_vl&head_dim=4&grid={side},{side}&dtype=float64"

    tail = client.get(url, range=f"bytes={32 * side**2 - 32}-").content

    cos, sin = mpmath.cos(side - 1), mpmath.sin(side - 1)
    expected = [cos, sin, cos, sin]
    for found, exact in zip(np.frombuffer(tail), expected, strict=True):
        assert abs(found - exact) <= 6 * UNIT


@pytest.mark.parametrize(
    "query",
    [
        "convention=qwen2_vl&head_dim=16&grid=40,30",
        "convention=qwen2_vl&head_dim=16&grid=40,30&spatial_merge_size=2",
        "convention=cogvideox&head_dim=16&axes_dim=4,6,6&grid=2,2,2&grid_start=100000001&grid_stop=200000004",
        "convention=timm_pixels&head_dim=16&grid=3,2&max_freq=1000000",
        "convention=flux&head_dim=8&positions_h=4611686018427387904&positions_w=100000001",
    ],
)
def test_served_float32_angles_are_within_the_stated_error_bound(
    client: Client, query: str
) -> None:
    url = f"{URL}.npy?{query}&pack=complex&dtype=float64"
    exact = load_npy(client.get(url))

    rounded = client.get(f"{url}&angle=float32")

    bound = float(rounded.headers["Array-Error-Bound"])
    difference = load_npy(rounded) - exact
    assert max(np.abs(difference.real).max(), np.abs(difference.imag).max()) > 0
    assert max(np.abs(difference.real).max(), np.abs(difference.imag).max()) <= bound + 6 * UNIT
    assert bound <= 2.1
    assert "Array-Error-Bound" not in client.get(url).headers


def test_every_parameter_with_too_many_digits_is_reported_with_its_value(client: Client) -> None:
    query = "convention=diffusers_2d&head_dim=16&grid=3,5&grid_start=0&grid_stop=1e300,7"

    faults = client.get(f"{URL}?{query}").json()["errors"]

    assert [(fault["parameter"], fault["value"]) for fault in faults] == [
        ("grid_start", "0"),
        ("grid_stop", "1e+300,7"),
    ]


def test_all_parameters_of_other_conventions_are_refused_at_once(client: Client) -> None:
    query = "convention=dinov3&head_dim=16&grid=3,5&max_freq=9&grid_stop=1&positions_w=1"

    faults = client.get(f"{URL}?{query}").json()["errors"]

    assert {fault["parameter"] for fault in faults} == {"max_freq", "grid_stop", "positions_w"}
    given = "inv_freq=1,0.1,0.01,0.001&min_period=5&max_period=6"
    faults = client.get(f"{URL}?convention=dinov3&head_dim=16&grid=3,5&{given}").json()["errors"]
    assert [fault["parameter"] for fault in faults] == ["min_period", "max_period"]


AXES = st.lists(st.integers(0, 7), min_size=1, max_size=4)
WILD = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-9, 9))
EACH = st.lists(WILD, min_size=1, max_size=4)
POSITIONS = st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=3)
ANYTHING = st.fixed_dictionaries(
    {
        "convention": st.sampled_from(sorted(CONVENTIONS)),
        "head_dim": st.sampled_from([2, 4, 6, 12, 16, 24, 48, 96]),
    },
    optional={
        "grid": AXES,
        "axes_dim": st.sampled_from([[8, 8], [4, 12], [4, 4, 4], [2, 4, 6], [16], [0, 16]]),
        "rope_theta": WILD,
        "grid_offset": EACH,
        "reference_grid": EACH,
        "grid_start": EACH,
        "grid_stop": EACH,
        "interpolation_scale": EACH,
        "min_period": WILD,
        "max_period": WILD,
        "max_freq": WILD,
        "linear_bands": st.booleans(),
        "normalize_coords": st.sampled_from(["separate", "max", "min"]),
        "grid_indexing": st.sampled_from(["ij", "xy"]),
        "class_token": st.sampled_from(["first", "last"]),
        "positions_t": POSITIONS,
        "positions_h": POSITIONS,
        "positions_w": POSITIONS,
        "angle": st.sampled_from(["exact", "float32"]),
        "pack": st.sampled_from(["pair", "flat", "angle", "complex", "timm_cat"]),
        "dtype": st.sampled_from(["float32", "float64", "bfloat16", "float16"]),
        "batch": st.booleans(),
    },
)


@pytest.mark.full
@settings(max_examples=150)
@given(ANYTHING)
def test_any_axial_parameters_give_finite_numbers_or_a_fault(
    client: Client, parameters: dict[str, Any]
) -> None:
    answer = client.post(f"{URL}.safetensors", json=parameters)
    if answer.status_code == 422:
        assert {error["parameter"] for error in answer.json()["errors"]} <= {
            *parameters,
            *("grid", "positions_h", "positions_w"),
        }
        return
    assert answer.status_code == 200, answer.text
    described = client.post(URL, json=parameters)
    if described.status_code == 200:
        assert np.isfinite(np.array(described.json()["data"])).all()


@st.composite
def plausible(draw: st.DrawFn) -> dict[str, Any]:
    """Draw parameters that mostly go together."""
    name = draw(st.sampled_from(sorted(CONVENTIONS)))
    convention = CONVENTIONS[name]
    axes = draw(st.sampled_from(convention.axes))
    quarters = st.integers(-4000, 4000).map(lambda number: number / 4)
    each = st.lists(quarters, min_size=axes, max_size=axes)
    sides = st.lists(st.integers(1, 64), min_size=axes, max_size=axes)
    scales = st.lists(st.floats(1e-8, 1e9), min_size=axes, max_size=axes)
    highest = st.floats(1e-9, 1e9)
    placing: dict[str, dict[str, Any]] = {
        "counted": {"grid_offset": each, "reference_grid": sides, "ntk_scale": scales},
        "spread": {"grid_start": each, "grid_stop": each},
        "timed": {"grid_offset": each, "grid_step": scales, "ntk_scale": scales, "fps": highest},
        "halves": {"grid_offset": each},
        "floored": {"reference_grid": sides},
        "fractions": {
            "grid_offset": each,
            "grid_step": sides,
            "reference_grid": sides,
            "fps": st.integers(1, 60),
        },
        "pixels": {"grid_offset": each, "max_freq": highest, "linear_bands": st.booleans()},
        "centred": {"grid_offset": each, "normalize_coords": st.sampled_from(["max", "min"])},
    }
    optional = placing[convention.places] | {
        "interpolation_scale": scales,
        "class_token": st.sampled_from(["first", "last"]),
        "angle": st.just("float32"),
        "pack": st.sampled_from(["angle", "flat"]),
    }
    if convention.series in {"geometric", "periods"}:
        optional["rope_theta"] = st.floats(1.0, 1e250, exclude_min=True)
    grid = draw(st.lists(st.integers(1, 4), min_size=axes, max_size=axes))
    chosen: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    return {"convention": name, "head_dim": 48, "grid": grid, **chosen}


@pytest.mark.full
@settings(max_examples=150)
@given(plausible())
def test_canonical_axial_parameters_give_the_answer_again(
    client: Client, parameters: dict[str, Any]
) -> None:
    answer = client.post(URL, json=parameters)

    if answer.status_code == 422 and "angle" in parameters:
        assert "angle=float32 requires integer coordinates" in answer.json()["detail"]
        return
    assert answer.status_code == 200, answer.text
    assert np.isfinite(np.array(answer.json()["data"])).all()
    assert client.post(URL, json=answer.json()["parameters"]).content == answer.content


LEAST = {"convention": "qwen2_vl", "head_dim": "16"}


def read(**values: Any) -> Axial:
    return read_parameters(Axial, LEAST | values)


def test_every_axial_convention_is_described() -> None:
    field = Axial.model_fields["convention"]

    assert get_args(field.annotation) == tuple(CONVENTIONS)
    assert field.description is not None
    for name, convention in CONVENTIONS.items():
        assert f"{name} ({convention.source})" in field.description


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("head_dim", "2"),
        ("head_dim", "4096"),
        ("rope_theta", "1e250"),
        ("max_freq", "1e-9"),
        ("max_period", "1e9"),
        ("grid", "1,2,3,4"),
        ("positions_w", "-4611686018427387904"),
    ],
)
def test_axial_values_on_their_bounds_are_accepted(name: str, value: str) -> None:
    assert getattr(read(**{name: value}), name) is not None


def test_the_axes_together_have_the_frequencies_of_a_head() -> None:
    for name, convention in CONVENTIONS.items():
        for axes in convention.axes:
            parameters = Axial.model_validate({"convention": name, "head_dim": 48})
            counts = [rule.count for rule in parameters.frequency_rules(axes)]
            assert (len(counts), sum(counts)) == (axes, 24)


ALLEGRO = "convention=allegro&head_dim=24&grid=2,3,5&interpolation_scale=0.5,2,3&dtype=float64"


def test_allegro_has_the_halves_of_each_axis_side_by_side(client: Client) -> None:
    """diffusers 0.42.1 ``apply_rotary_emb_allegro`` divides a head into t, h and w first."""
    once = load_npy(client.get(f"{URL}.npy?{ALLEGRO}&pack=compact&part=sin"))
    halves = [half for axis in np.split(once, 3, axis=1) for half in (axis, axis)]

    for pack in ("allegro", "half"):
        twice = load_npy(client.get(f"{URL}.npy?{ALLEGRO}&pack={pack}&part=sin"))
        assert (twice == np.concatenate(halves, axis=1)).all()
    refused = client.get(f"{URL}?{ALLEGRO}&pack=half_concat").json()
    assert "pack=half does" in refused["detail"]


LIBRARY_ARRAYS = json.loads((Path(__file__).parent / "diffusers_axial.json").read_text())


@pytest.mark.parametrize("query", LIBRARY_ARRAYS)
def test_tables_are_those_that_diffusers_computes(client: Client, query: str) -> None:
    """The file has the last row of cosines and sines of diffusers 0.42.1, in float32."""
    for part, expected in LIBRARY_ARRAYS[query].items():
        row = load_npy(client.get(f"{URL}.npy?{query}&part={part}"))[-1]

        assert np.abs(row - expected).max() < 3e-5
