"""Angles of rotary tables: along a sequence or three axes, with xPos, rounded to float32."""

import json
import struct
from decimal import Decimal
from typing import Any

import httpx
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.grid.grids import Tokens
from service.encodings.rotary.angles import AXES, RotaryAngles, SequenceAngles, packed
from service.encodings.rotary.mrope import LAYOUTS, mrope_angles
from service.encodings.rotary.rules import Default, GivenFrequencies, RotaryFrequencies, Yarn
from service.encodings.rotary.xpos import XPos
from service.numerics.axes import float32_distance
from service.numerics.dtypes import FLOAT64
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.phasors import Channels
from service.numerics.positions import Positions, Run
from service.numerics.tables import size
from tests.client import Client, load_npy, npy_bytes
from tests.exact import UNIT

RULE = Default(8, 10000.0)
SCALED = Yarn(8, 10000.0, 8.0, 4096, 1.25)
POSITIONS = Positions.contiguous(-3, 10)
COMPACT = Channels(("cos", "sin"), interleaved=False, width=8)


@pytest.mark.parametrize("inverse", [False, True])
def test_peak_bounds_cosines_and_sines(inverse: bool) -> None:
    for xpos in (None, XPos(8, 4.0, 2, inverse)):
        angles = SequenceAngles(SCALED, POSITIONS, "exact", xpos)
        table = angles.table(COMPACT, FLOAT64, (10, 8))

        assert np.abs(table.read(0, size(table))).max() <= angles.peak * (1 + 1e-15)
    assert SequenceAngles(SCALED, POSITIONS).peak == 1.25


def test_exact_angles_have_no_error_bound() -> None:
    assert SequenceAngles(SCALED, POSITIONS).distance() is None
    distance = SequenceAngles(SCALED, POSITIONS, "float32").distance()

    moved = float32_distance(list(SCALED.exact()), 6)
    assert distance is not None
    assert 1.25 * float(moved) < distance < 1.25 * (float(moved) + 13 * 2.0**-53)


def test_the_error_bound_is_that_of_the_farthest_position() -> None:
    near, far = [Decimal("0.1")], [Decimal("0.3")]

    def distance(frequencies: list[Decimal], farthest: int, scale: float = 1.0) -> float:
        rule = GivenFrequencies(tuple(map(float, frequencies)), scale)
        angles = SequenceAngles(rule, Positions.contiguous(farthest, 1), "float32")
        return angles.distance() or 0.0

    assert distance(near + far, 1000) == distance(far, 1000) > distance(near, 5)
    assert distance(far, 2**62, 3.0) == pytest.approx(6.0)


def test_the_error_bound_of_angles_grows_without_limit() -> None:
    exact, rounded = (
        SequenceAngles(SCALED, Positions.contiguous(2**40 + 1, 1), rounding)
        for rounding in ("exact", "float32")
    )

    assert exact.angle_distance() is None
    found, near = (angles.angle_table(FLOAT64, (1, 4)).read(0, 4) for angles in (rounded, exact))
    moved = np.abs(found - near).max()
    assert 2 < moved <= (rounded.angle_distance() or 0) < 100 * moved
    assert np.abs(found).max() <= rounded.reach


MROPE_RULE = Default(16, 10000.0)
SECTION = (2, 3, 3)
GRID = Tokens.of_grid((2, 3, 4), AXES)
BOTH_KINDS = pytest.mark.parametrize("layout", ["chunked", "interleaved"])


def read(angles: RotaryAngles, pack: str = "compact") -> dict[str, NDArray[Any]]:
    document = packed(angles=angles, pack=pack, dtype=FLOAT64)
    return {
        name: table.read(0, size(table)).reshape(table.shape)
        for name, table in document.arrays.items()
    }


@pytest.mark.parametrize(
    ("section", "layout", "expected"),
    [
        ((16, 24, 24), "chunked", "t" * 16 + "h" * 24 + "w" * 24),
        ((24, 20, 20), "interleaved", "thw" * 20 + "tttt"),
    ],
    ids=["Qwen2-VL-7B-Instruct", "Qwen3-VL-4B-Instruct"],
)
def test_published_sections_give_each_frequency_its_axis(
    section: tuple[int, ...], layout: str, expected: str
) -> None:
    assert LAYOUTS[layout].axis_of_each(section) == expected


@BOTH_KINDS
@given(section=st.tuples(*[st.integers(0, 12)] * 3).filter(any))
def test_every_frequency_of_mrope_has_an_axis(section: tuple[int, ...], layout: str) -> None:
    names = LAYOUTS[layout].axis_of_each(section)

    assert len(names) == sum(section)
    assert set(names) <= set(AXES)
    if layout == "chunked":
        assert tuple(names.count(axis) for axis in AXES) == section


def test_an_axis_without_frequencies_has_no_columns() -> None:
    mrope = read(mrope_angles(MROPE_RULE, (0, 8, 0), GRID, layout="chunked"))

    rows = GRID.axes["h"].at(0, GRID.shape[0]).tolist()
    plain = read(SequenceAngles(MROPE_RULE, Positions.of_runs(Run(row, 1, 1) for row in rows)))
    assert (mrope["cos"] == plain["cos"]).all()


@pytest.mark.parametrize("rule", [MROPE_RULE, Yarn(16, 10000.0, 8.0, 4096, 1.25)])
def test_the_attention_factor_multiplies_cosines_of_all_axes(rule: RotaryFrequencies) -> None:
    angles = mrope_angles(rule, SECTION, GRID, layout="chunked")

    cos = read(angles)["cos"]

    assert angles.peak == rule.scale
    assert (np.abs(cos) <= angles.peak).all()
    assert cos[0].tolist() == [rule.scale] * 8


def test_the_error_bound_of_mrope_is_that_of_its_farthest_axis() -> None:
    far, near = Positions.contiguous(10**6, 2), Positions.contiguous(0, 2)
    tokens = Tokens.of_lists({"t": near, "h": near, "w": far})
    far_angles = mrope_angles(MROPE_RULE, (3, 2, 3), tokens, "float32", layout="chunked")
    near_angles = mrope_angles(MROPE_RULE, (3, 5, 0), tokens, "float32", layout="chunked")

    assert mrope_angles(MROPE_RULE, (3, 2, 3), tokens, layout="chunked").distance() is None
    assert (far_angles.distance() or 0) > 1000 * (near_angles.distance() or 1)
    exact = read(mrope_angles(MROPE_RULE, (3, 2, 3), tokens, layout="chunked"))
    for name, values in read(far_angles).items():
        assert np.abs(values - exact[name]).max() <= (far_angles.distance() or 0)


def at(*positions: int) -> Int64s:
    return np.array(positions, dtype=np.int64)


def zeta(pair: int, dim: int) -> Any:
    return (2 * pair + mpmath.mpf(2) * dim / 5) / (mpmath.mpf(7) * dim / 5)


@given(
    st.integers(1, 12).map(lambda pairs: 2 * pairs),
    st.floats(1.0, 1e6),
    st.integers(-3000, 3000),
    st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=4),
    st.booleans(),
)
def test_xpos_multipliers_are_within_two_units_per_digit_of_their_distance(
    dim: int, scale_base: float, centre: int, positions: list[int], inverse: bool
) -> None:
    xpos = XPos(dim, scale_base, centre, inverse)
    reach = max(abs(position - centre) for position in positions) / scale_base
    if reach > 500:
        scale_base *= reach / 500
        xpos = XPos(dim, scale_base, centre, inverse)

    got = xpos.at(at(*positions))

    for row, position in enumerate(positions):
        # One unit for each digit to the base of 64, and for each product of two.
        digits = max(1, -(-abs(position - centre).bit_length() // 6))
        for pair in range(dim // 2):
            power = (position - centre) / mpmath.mpf(scale_base) * (-1 if inverse else 1)
            exact = zeta(pair, dim) ** power
            assert abs(got[row, pair] - exact) <= (2 * digits - 1) * UNIT * exact


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.floats(1e4, 1e9))
def test_peak_bounds_the_multipliers_of_xpos(position: int, centre: int, scale_base: float) -> None:
    for inverse in (False, True):
        xpos = XPos(8, scale_base, centre, inverse)

        peak = xpos.peak(abs(position - centre))

        assert (xpos.at(at(position)) <= peak).all()


@pytest.mark.parametrize("distance", [10**6, 2**63])
def test_a_peak_beyond_float64_is_infinite(distance: int) -> None:
    assert XPos(8, 1.0, 0, inverse=False).peak(distance) == np.inf


NPY = {"Content-Type": "application/x-npy"}
MROPE = "head_dim=16&mrope_section=2,3,3"


def table(client: Client, query: str) -> NDArray[Any]:
    return load_npy(client.get(f"/rope.npy?{query}&pack=concat&dtype=float64"))


def refused(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["parameter"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("interleaved", ["false", "true"])
@pytest.mark.parametrize("angle", ["exact", "float32"])
def test_text_in_mrope_is_the_plain_table(client: Client, interleaved: str, angle: str) -> None:
    more = f"angle={angle}&positions=-3:2,131071,{MAX_POSITION}"

    mrope = table(client, f"{MROPE}&mrope_interleaved={interleaved}&{more}")

    assert mrope.tobytes() == table(client, f"head_dim=16&{more}").tobytes()


def test_a_grid_equals_the_listed_positions_of_its_tokens(client: Client) -> None:
    t, h, w = (",".join(map(str, axis.ravel())) for axis in np.indices((2, 3, 2)))

    for interleaved in ("false", "true"):
        query = f"{MROPE}&mrope_interleaved={interleaved}"
        by_grid = table(client, f"{query}&grid=2,3,2")
        by_lists = table(client, f"{query}&positions_t={t}&positions_h={h}&positions_w={w}")
        assert by_grid.tobytes() == by_lists.tobytes()


@pytest.mark.parametrize(
    "query",
    [
        f"{MROPE}&seq_len=3&start=5",
        f"{MROPE}&grid=2,1,3",
        f"{MROPE}&positions_t=0:4&positions_h=1,1,2,2&positions_w=0,1,0,1",
        f"{MROPE}&grid=1,2,2&angle=float32&mrope_interleaved=true",
        "head_dim=8&seq_len=3&xpos=key&xpos_scale_base=4&xpos_centre=-1",
        "head_dim=8&seq_len=3&start=131071&angle=float32",
    ],
)
def test_the_canonical_parameters_of_an_answer_give_it_again(client: Client, query: str) -> None:
    answer = client.get(f"/rope?{query}")

    again = client.post("/rope", json=answer.json()["parameters"])

    assert again.content == answer.content


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        (f"{MROPE}&grid=1,2,3&start=6&positions=1", ["start", "positions"]),
        (
            "head_dim=16&seq_len=1&xpos_scale_base=4&xpos_centre=4",
            ["xpos_scale_base", "xpos_centre"],
        ),
    ],
)
def test_every_parameter_that_excludes_another_is_reported_at_once(
    client: Client, query: str, parameters: list[str]
) -> None:
    assert refused(client.get(f"/rope?{query}")) == parameters


def test_every_format_states_the_error_bound_of_float32_angles(client: Client) -> None:
    url = "head_dim=64&positions=0:3,4090:4096&angle=float32&pack=concat&dtype=float64"
    in_json = client.get(f"/rope.json?{url}")
    in_npy = client.get(f"/rope.npy?{url}")
    in_safetensors = client.get(f"/rope.safetensors?{url}")

    bound = in_json.json()["error_bound"]
    (length,) = struct.unpack("<Q", in_safetensors.content[:8])
    metadata = json.loads(in_safetensors.content[8 : 8 + length])["__metadata__"]

    assert float(metadata["error_bound"]) == bound
    for answer in (in_json, in_npy, in_safetensors, client.head(f"/rope.npy?{url}")):
        assert float(answer.headers["Array-Error-Bound"]) == bound
    exact = load_npy(client.get(f"/rope.npy?{url}".replace("float32", "exact")))
    assert bound / 10 < np.abs(load_npy(in_npy) - exact).max() <= bound


@pytest.mark.parametrize("query", ["angle=exact", "xpos=query", "pack=angle"])
def test_answers_with_exact_angles_have_no_error_bound(client: Client, query: str) -> None:
    answer = client.get(f"/rope?head_dim=8&seq_len=2&{query}")

    assert "Array-Error-Bound" not in answer.headers
    assert "error_bound" not in answer.json()


def test_zeros_are_positive(client: Client) -> None:
    """Equal parameters name one table, whichever of two equal numbers came first."""
    url = "/rope.bin?angle=float32&pack=angle&seq_len=2&inv_freq="

    negative, positive = client.get(f"{url}-0.0,1"), client.get(f"{url}0,1")

    assert negative.content == positive.content == client.get(f"{url}-0,1").content
    assert negative.headers["ETag"] == positive.headers["ETag"]
    assert negative.content[:4] == bytes(4)


def test_pack_angle_states_the_error_bound_of_angles(client: Client) -> None:
    url = "/rope?head_dim=8&positions=1099511627777&angle=float32&dtype=float64"

    angles, sines = client.get(f"{url}&pack=angle").json(), client.get(url).json()

    assert sines["error_bound"] < 2.1
    assert angles["error_bound"] > 10_000


def test_float32_angles_have_a_maximal_number_of_channels(client: Client) -> None:
    for channels, status in ((1024, 200), (1026, 422)):
        answer = client.get(f"/rope.bin?head_dim={channels}&seq_len=1&angle=float32")
        assert answer.status_code == status
    assert answer.json()["errors"][0]["parameter"] == "angle"


def test_angles_are_exact_unless_given(client: Client) -> None:
    plain = client.get("/rope?head_dim=8&seq_len=2")
    names = client.get("/rope?head_dim=8&seq_len=2&angle=exact")

    assert plain.headers["ETag"] == names.headers["ETag"]
    assert "angle" not in plain.json()["parameters"]


def test_the_centre_of_xpos_is_half_of_the_rows_unless_given(client: Client) -> None:
    parameters = client.get("/rope?head_dim=8&seq_len=7&xpos=query").json()["parameters"]

    assert (parameters["xpos"], parameters["xpos_scale_base"]) == ("query", 512.0)
    assert parameters["xpos_centre"] == 3


@pytest.mark.parametrize("side", ["query", "key"])
@pytest.mark.parametrize("sign", [1, -1])
def test_xpos_beyond_float64_is_refused_for_arrays_too(
    client: Client, side: str, sign: int
) -> None:
    x = npy_bytes(np.ones((1, 8)))
    far = f"xpos={side}&positions={sign * MAX_POSITION}"

    for centre in (0, -sign * MAX_POSITION):
        answer = client.post(f"/rope/apply?{far}&xpos_centre={centre}", content=x, headers=NPY)
        assert refused(answer) == ["xpos_scale_base"]
    near = f"/rope/apply?{far}&xpos_centre={sign * MAX_POSITION}"
    assert np.isfinite(load_npy(client.post(near, content=x, headers=NPY))).all()


@pytest.mark.parametrize("interleaved", ["false", "true"])
def test_arrays_are_rotated_along_three_axes(client: Client, interleaved: str) -> None:
    x = np.random.default_rng(2).standard_normal((2, 6, 20))
    query = f"rotary_dim=16&mrope_section=2,3,3&mrope_interleaved={interleaved}&grid=1,2,3"
    halves = load_npy(client.get(f"/rope.npy?{query}&pack=compact&part=cos&dtype=float64"))
    sines = load_npy(client.get(f"/rope.npy?{query}&pack=compact&part=sin&dtype=float64"))

    out = load_npy(
        client.post(f"/rope/apply?{query}&layout=half", content=npy_bytes(x), headers=NPY)
    )

    first, second = x[..., :8], x[..., 8:16]
    assert np.abs(out[..., :8] - (first * halves - second * sines)).max() < 1e-14
    assert np.abs(out[..., 8:16] - (second * halves + first * sines)).max() < 1e-14
    assert (out[..., 16:] == x[..., 16:]).all()


def test_an_array_with_other_rows_than_tokens_is_refused(client: Client) -> None:
    x = npy_bytes(np.ones((5, 16)))

    answer = client.post(f"/rope/apply?{MROPE}&grid=1,2,3", content=x, headers=NPY)

    assert answer.status_code == 422
    assert "6 positions" in answer.json()["detail"]
