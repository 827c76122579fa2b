"""Sinusoidal encodings: worked examples, error bounds, sums with embeddings, curves."""

import io
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from service.encodings.absolute.sinusoidal import (
    SinusoidalEncoding,
    SinusoidSum,
)
from service.numerics.dtypes import FLOAT64, to_float64
from service.numerics.phase import MAX_POSITION, Float64s
from service.numerics.tables import StoredTable, size
from tests.client import Client, npy_bytes
from tests.client import load_npy as npy
from tests.exact import NARROW_TYPES, UNIT, frequency, rounded

SPECS = {
    "d_model": st.one_of(st.integers(1, 4096), st.integers(1, 8)),
    "base": st.one_of(st.floats(1.0001, 1e12), st.sampled_from([1.0001, 100.0, 10000.0, 1e12])),
    "positions": st.lists(
        st.one_of(
            st.integers(-MAX_POSITION, MAX_POSITION),
            st.integers(-200, 200),
            st.sampled_from([1, -1, 63, 64, -64, MAX_POSITION, -MAX_POSITION]),
        ),
        min_size=1,
        max_size=4,
    ),
    "layout": st.sampled_from(["interleaved", "concatenated"]),
}


def read(
    d_model: int, base: float, positions: list[int], layout: str, dtype: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    table = SinusoidalEncoding.model_validate(
        {"d_model": d_model, "base": base, "positions": positions}
        | {"layout": layout, "dtype": dtype}
    ).table()
    return to_float64(table.read(0, size(table)), table.dtype).reshape(table.shape)


def channel_of(d_model: int, layout: str, pair: int, *, sine: bool) -> int:
    if layout == "interleaved":
        return 2 * pair + (not sine)
    return pair if sine else -(-d_model // 2) + pair


def sampled_pairs(d_model: int) -> list[int]:
    last = (d_model - 1) // 2
    return sorted({0, last, last // 2, last // 3, max(last - 1, 0)})


@pytest.mark.full
@settings(max_examples=120)
@given(**SPECS)
def test_float64_error_bound_absolute_and_relative(
    d_model: int, base: float, positions: list[int], layout: str
) -> None:
    check_exactness(d_model, base, positions, layout)


def check_exactness(d_model: int, base: float, positions: list[int], layout: str) -> None:
    rows = read(d_model, base, positions, layout, "float64")

    for row, position in zip(rows, positions, strict=True):
        for pair in sampled_pairs(d_model):
            angle = position * frequency(base, d_model, pair)
            for is_sine, exact in ((True, mpmath.sin(angle)), (False, mpmath.cos(angle))):
                if not is_sine and 2 * pair + 1 >= d_model:
                    continue
                error = abs(row[channel_of(d_model, layout, pair, sine=is_sine)] - exact)
                assert error <= 6 * UNIT
                if abs(angle) < 1:
                    assert error <= 8 * UNIT * abs(exact)


@pytest.mark.parametrize("position", [1, -1, 2, -63, 64])
def test_tiny_sines_keep_their_relative_precision(position: int) -> None:
    (row,) = read(4096, 1e12, [position], "interleaved", "float64")

    check_tiny_sines(row, position)


def check_tiny_sines(row: Float64s, position: int) -> None:
    for pair in range(0, 2048, 50):
        angle = position * frequency(1e12, 4096, pair)
        if abs(angle) < 1:
            assert abs(row[2 * pair] - mpmath.sin(angle)) <= 8 * UNIT * abs(mpmath.sin(angle))


@pytest.mark.parametrize("dtype", sorted(NARROW_TYPES))
@given(**SPECS)
def test_narrow_types_are_the_float64_value_rounded_once(
    dtype: str, d_model: int, base: float, positions: list[int], layout: str
) -> None:
    wide = read(d_model, base, positions, layout, "float64")
    narrow = read(d_model, base, positions, layout, dtype)

    chosen = sorted({0, 1, d_model // 2, d_model - 1} & set(range(d_model)))
    expected = [[rounded(Fraction(float(row[c])), dtype) for c in chosen] for row in wide]
    assert expected == [[Fraction(float(row[c])) for c in chosen] for row in narrow]


def test_a_table_of_2_to_the_53_rows_is_read_at_its_end() -> None:
    table = SinusoidalEncoding(d_model=2, seq_len=2**53, dtype="float64").table()

    last = table.read(2**54 - 2, 2**54)

    assert table.shape == (2**53, 2)
    assert abs(last[0] - mpmath.sin(2**53 - 1)) <= 6 * UNIT


def applied(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float64]], **given: Any
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    total = SinusoidSum.model_validate(given).resolve({"x": StoredTable(x, FLOAT64)}).arrays["x"]
    return total.read(0, x.size).reshape(x.shape)


def test_sums_do_not_depend_on_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(3 * 50 * 8.0).reshape(3, 50, 8)
    whole = applied(x)
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", 100)

    assert (whole == applied(x)).all()


ROBOT = [
    [0, 1, 0, 1],
    [0.84147098, 0.54030231, 0.09983342, 0.99500417],
    [0.90929743, -0.41614684, 0.19866933, 0.98006658],
    [0.14112001, -0.9899925, 0.29552021, 0.95533649],
]


def test_worked_example_of_four_positions_as_json_and_npy(client: Client) -> None:
    url = "/encoding{}?seq_len=4&d_model=4&base=100&dtype=float64"

    data = np.array(client.get(url.format("")).json()["data"])

    assert data.round(8).tolist() == ROBOT
    assert npy(client.get(url.format(".npy"))).tolist() == data.tolist()


def test_worked_example_of_a_sum_with_embeddings(client: Client) -> None:
    """L = 3, d = 4, n = 10000: the matrix P that is added element by element to X."""
    x = [[0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 1.0, 0.5]]
    p = np.array(client.get("/encoding?seq_len=3&d_model=4&dtype=float64").json()["data"])

    total = client.post("/encoding/apply", json={"x": x}).json()

    assert p[1].round(8).tolist() == [0.84147098, 0.54030231, 0.00999983, 0.99995000]
    assert total["data"] == (np.array(x) + p).tolist()
    assert total["dtype"] == "float64"


@pytest.mark.parametrize(
    ("query", "shape", "dtype"),
    [
        ("seq_len=50&d_model=512", (50, 512), "float32"),
        ("seq_len=100&d_model=512&batch=true", (1, 100, 512), "float32"),
        ("seq_len=512&d_model=768&dtype=float16", (512, 768), "float16"),
        ("positions=5,0,9:20:2&d_model=7&dtype=float64", (8, 7), "float64"),
    ],
)
def test_shapes_and_types_are_those_of_the_request(
    client: Client, query: str, shape: tuple[int, ...], dtype: str
) -> None:
    answer = client.get(f"/encoding.npy?{query}")

    assert (npy(answer).shape, npy(answer).dtype.name) == (shape, dtype)
    assert answer.headers["Array-Shape"] == ", ".join(map(str, shape))
    assert answer.headers["Array-Dtype"] == dtype


def test_a_far_position_is_exact(client: Client) -> None:
    (row,) = npy(client.get(f"/encoding.npy?start={2**62}&seq_len=1&d_model=2&dtype=float64"))

    assert row.tolist() == [-0.7029224436192089, -0.7112665029764864]


def test_frequencies_and_wavelengths_together_or_one_part(client: Client) -> None:
    both = client.get("/encoding/frequencies?d_model=4&base=100").json()
    alone = client.get("/encoding/frequencies.npy?d_model=4&base=100&part=wavelength")

    assert both["data"]["frequency"] == [1.0, 0.1]
    assert both["data"]["wavelength"] == [6.283185307179586, 62.83185307179586]
    assert npy(alone).tolist() == both["data"]["wavelength"]


def test_canonical_parameters_of_an_encoding(client: Client) -> None:
    parameters = client.get("/encoding?seq_len=1&d_model=3").json()["parameters"]

    assert parameters == {
        "convention": "vaswani",
        "d_model": 3,
        "base": 10000.0,
        "layout": "interleaved",
        "start": 0,
        "seq_len": 1,
        "batch": False,
    }


def test_embeddings_of_any_format_keep_their_type_and_shape(client: Client) -> None:
    x = np.linspace(-1, 1, 2 * 5 * 8, dtype=np.float32).reshape(2, 5, 8)

    answer = client.post(
        "/encoding/apply?start=3&scale_embeddings=true",
        content=npy_bytes(x),
        headers={"Content-Type": "application/x-npy"},
    )

    table = npy(client.get("/encoding.npy?start=3&seq_len=5&d_model=8&dtype=float64"))
    expected = (x.astype(np.float64) * 8**0.5 + table).astype(np.float32)
    assert npy(answer).tobytes() == expected.tobytes()
    assert answer.headers["Content-Type"] == "application/x-npy"


def test_nan_and_infinity_pass_through_a_sum_and_are_refused_as_json(client: Client) -> None:
    body = npy_bytes(np.array([[np.nan, 1.0], [np.inf, 2.0]]))
    headers = {"Content-Type": "application/x-npy"}

    as_json = client.post("/encoding/apply.json", content=body, headers=headers)
    as_npy = client.post("/encoding/apply", content=body, headers=headers)

    assert as_json.status_code == 422
    assert "these formats can: npy, safetensors, bin" in as_json.json()["detail"]
    total = npy(as_npy)
    assert np.isnan(total[0, 0])
    assert total[1, 0] == np.inf


def test_canonical_fractions_are_a_list_of_numbers(client: Client) -> None:
    answer = client.get("/encoding?positions=0.50,3,1e-3&d_model=2").json()

    assert answer["parameters"]["positions"] == [0.5, 3.0, 0.001]
    assert answer["shape"] == [3, 2]


def test_a_grid_parameter_or_convention_is_refused_with_a_pointer_to_encoding_grid(
    client: Client,
) -> None:
    answer = client.get("/encoding?convention=mae&height=14&seq_len=1&d_model=4")

    assert answer.json()["detail"].endswith("height is a parameter of /encoding/grid")
    other = client.get("/encoding?convention=detr&seq_len=1&d_model=4")
    assert other.json()["detail"].endswith("detr is one of /encoding/grid")


def test_embeddings_have_at_most_65536_channels(client: Client) -> None:
    widest, wider = ({"x": [[0.0] * width]} for width in (65_536, 65_537))

    assert client.post("/encoding/apply.bin", json=widest).status_code == 200
    refused = client.post("/encoding/apply", json=wider)

    assert (refused.status_code, refused.json()["type"]) == (422, "urn:posref:problem:invalid-body")
    assert refused.json()["detail"] == "x: it has 65537 channels, but at most 65536 are possible"


URL = "/encoding/curves"


@pytest.mark.parametrize(
    "query",
    ["seq_len=50&d_model=12", "start=-7&seq_len=9&d_model=12&dtype=float16&layout=concatenated"],
)
def test_dimensions_are_columns_of_the_encoding(client: Client, query: str) -> None:
    whole = npy(client.get(f"/encoding.npy?{query}"))

    chosen = npy(client.get(f"{URL}.npy?{query}&dimensions=4:7,0,11"))

    assert chosen.tobytes() == np.ascontiguousarray(whole[:, [4, 5, 6, 0, 11]]).tobytes()


def test_positions_are_rows_of_the_encoding(client: Client) -> None:
    query = "positions=0,10,0.5&d_model=32&dtype=float64"

    assert (
        npy(client.get(f"{URL}.npy?{query}")).tobytes()
        == npy(client.get(f"/encoding.npy?{query}")).tobytes()
    )


def test_canonical_parameters_of_curves(client: Client) -> None:
    answer = client.get(f"{URL}?seq_len=3&d_model=8&dimensions=4,5,6,7")

    assert answer.json()["kind"] == "encoding-curves"
    assert answer.json()["parameters"] == {
        "convention": "vaswani",
        "d_model": 8,
        "base": 10000.0,
        "layout": "interleaved",
        "start": 0,
        "seq_len": 3,
        "dimensions": "4:8",
    }
    assert answer.headers["Array-Axes"] == "position, dimension"


@pytest.mark.full
@pytest.mark.parametrize(
    "query",
    [
        "seq_len=100&d_model=20&dimensions=4,5,6,7",
        "positions=0,1,10,50&d_model=128",
        f"start={2**62 - 63}&seq_len=64&d_model=16&dtype=bfloat16",
        "positions=0.5,3,-7.25&d_model=16&dimensions=0:16",
        "seq_len=1&d_model=1",
    ],
)
def test_curves_are_drawn(client: Client, query: str) -> None:
    answer = client.get(f"{URL}.png?{query}")

    assert answer.headers["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(answer.content)).size == (1000, 600)


@pytest.mark.full
def test_a_picture_of_curves_is_no_heat_map(client: Client) -> None:
    chosen = client.get(f"{URL}.png?positions=3&d_model=16").content

    assert chosen != client.get("/encoding.png?positions=3&d_model=16").content


def test_a_long_table_of_curves_streams_and_is_no_picture(client: Client) -> None:
    query = f"seq_len={2**40}&d_model=8&dimensions=7"

    part = client.get(f"{URL}.bin?{query}", range=f"bytes={2**42 - 4}-")
    picture = client.get(f"{URL}.png?{query}")

    assert len(part.content) == 4
    assert picture.status_code == 422
    assert "it shows up to 262144 elements" in picture.json()["detail"]


def test_a_long_list_of_dimensions_is_refused_before_it_is_parsed(client: Client) -> None:
    listed = list(range(65))

    answers = [
        client.get(f"{URL}?seq_len=4&d_model=80&dimensions={','.join(map(str, listed))}"),
        client.post(URL, json={"seq_len": 4, "d_model": 80, "dimensions": listed}),
        client.get(f"{URL}?seq_len=4&d_model=80&dimensions={','.join('x' * 65)}"),
    ]

    for answer in answers:
        (fault,) = answer.json()["errors"]
        rule = "dimensions names 65 curves or more, but at most 64 are possible"
        assert (answer.status_code, fault["parameter"], fault["detail"]) == (
            *(422, "dimensions"),
            rule,
        )
