"""Rotary tables, rotations of arrays and permutations of weights along one sequence."""

from typing import Any

import httpx
import ml_dtypes
import mpmath
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.rotary.rope_apply import HeadOrder, PermutationTable, RopeApply
from service.encodings.transforms import Vectors
from service.numerics import tables as table_module
from service.numerics.dtypes import (
    FLOAT16,
    FLOAT64,
    INT64,
    REAL_DTYPES,
    DType,
    round_into,
    to_float64,
)
from service.numerics.transformed import TransformedTable
from tests.client import Client, load_npy, npy_bytes
from tests.exact import UNIT

NPY = {"Content-Type": "application/x-npy"}
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}


def test_the_refusal_of_two_arrays_as_npy_names_part(client: Client) -> None:
    answer = client.get("/rope.npy?head_dim=8&seq_len=6&pack=half")

    assert answer.status_code == 422
    assert "part=cos|sin" in answer.json()["detail"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_queries_with_any_leading_axes_are_rotated(client: Client, dtype: str, layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((6, 5, 8)).astype(dtype)
    angle = np.arange(9, 14)[:, np.newaxis] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    pairs = {
        "interleaved": (np.s_[..., 0:8:2], np.s_[..., 1:8:2]),
        "half": (np.s_[..., 0:4:1], np.s_[..., 4:8:1]),
    }
    first, second = pairs[layout]
    wide = x.astype(np.float64)
    expected = np.empty_like(wide)
    expected[first] = wide[first] * np.cos(angle) - wide[second] * np.sin(angle)
    expected[second] = wide[second] * np.cos(angle) + wide[first] * np.sin(angle)

    out = load_npy(
        client.post(f"/rope/apply?start=9&layout={layout}", content=npy_bytes(x), headers=NPY)
    )

    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert np.abs(out - expected).max() <= np.finfo(dtype).eps * 4


def test_queries_and_keys_are_sent_together_in_bfloat16(client: Client) -> None:
    q = np.linspace(-1, 1, 4 * 2 * 8).reshape(4, 2, 8).astype(ml_dtypes.bfloat16)
    k = np.linspace(1, 2, 1 * 2 * 8).reshape(1, 2, 8).astype(ml_dtypes.bfloat16)
    body = safetensors.numpy.save({"q": q, "k": k})

    answer = client.post("/rope/apply?positions=7,100", content=body, headers=SAFETENSORS)

    assert answer.status_code == 200, answer.text
    views = dict(safetensors.deserialize(answer.content))  # type: ignore[no-untyped-call]
    assert {name: view["dtype"] for name, view in views.items()} == {"q": "BF16", "k": "BF16"}
    single_answer = client.post(
        "/rope/apply?positions=7,100",
        content=safetensors.numpy.save({"k": k}),
        headers=SAFETENSORS,
    )
    (single,) = safetensors.deserialize(single_answer.content)  # type: ignore[no-untyped-call]
    assert bytes(single[1]["data"]) == bytes(views["k"]["data"])


def test_the_inverse_returns_the_input(client: Client) -> None:
    x = np.random.default_rng(1).standard_normal((6, 12))
    url = "/rope/apply?rotary_dim=8&layout=half&start=1000"

    there = load_npy(client.post(url, content=npy_bytes(x), headers=NPY))
    back = load_npy(client.post(f"{url}&inverse=true", content=npy_bytes(there), headers=NPY))

    assert np.abs(back - x).max() < 1e-14
    assert there[:, 8:].tobytes() == x[:, 8:].tobytes()


def test_a_json_body_holds_array_and_parameters(client: Client) -> None:
    body = {"x": [[1, 2, 3, 4], [1, 2, 3, 4]], "positions": [5, 3], "layout": "half"}

    content = client.post("/rope/apply", json=body).json()

    assert content["parameters"]["positions"] == "5,3"
    assert content["parameters"]["layout"] == "half"
    assert content["shape"] == [2, 4]


def test_the_refusal_of_several_arrays_as_npy_does_not_suggest_part(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones((1, 2)), "k": np.ones((1, 2))})

    answer = client.post("/rope/apply.npy", content=body, headers=SAFETENSORS)

    assert answer.status_code == 422
    assert "part" not in answer.json()["detail"]
    assert "safetensors" in answer.json()["detail"]


def test_the_refusal_of_a_tensor_names_it(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones((1, 8)), "k": np.ones((1, 16))})

    answer = client.post("/rope/apply?head_dim=8", content=body, headers=SAFETENSORS)

    assert answer.json()["detail"].startswith("k: it has 16 channels")


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("/rope?head_dim=10&partial_rotary_factor=0.5&seq_len=1", "0.5"),
        ("/rope?head_dim=7&seq_len=1", "7"),
        ("/rope?head_dim=16&grid=1,2,3&seq_len=1", "1,2,3"),
        ("/rope?head_dim=8&seq_len=1&pack=llama&dtype=bfloat16", "bfloat16"),
        ("/rope?head_dim=8&seq_len=1&pack=pair&part=cos", "cos"),
        ("/rope/permutation", None),
        ("/rope/permutation?head_dim=8&rotary_dim=6&rotary_offset=4", "4"),
        ("/rope/permutation?head_dim=65536&num_attention_heads=32769", "int32"),
    ],
)
def test_a_fault_states_the_value_of_the_query(
    client: Client, query: str, value: str | None
) -> None:
    (fault,) = client.get(query).json()["errors"]

    assert fault["value"] == value


def test_inv_freq_has_a_maximal_length(client: Client) -> None:
    answer = client.post("/rope", json={"seq_len": 1, "inv_freq": [0.5] * 32_769})

    assert answer.status_code == 422
    assert "no longer than 32768" in answer.json()["detail"]


def test_an_intermediate_of_another_rule_is_refused(client: Client) -> None:
    answer = client.get("/rope/frequencies?head_dim=8&part=ramp")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "part"
    assert "one of inv_freq, wavelength, attention_factor" in answer.json()["detail"]


def test_the_wavelength_of_frequency_0_is_null_in_json_and_infinite_in_npy(client: Client) -> None:
    url = "head_dim=4&rope_type=proportional&partial_rotary_factor=0.5&part=wavelength"

    in_json = client.get(f"/rope/frequencies.json?{url}")
    in_csv = client.get(f"/rope/frequencies.csv?{url}")

    assert in_json.json()["data"] == [6.283185307179586, None]
    assert in_csv.text == "6.283185307179586\ninf\n"
    assert load_npy(client.get(f"/rope/frequencies.npy?{url}")).tolist() == [2 * np.pi, np.inf]


def test_deepseek_reads_pairs_and_writes_halves(client: Client) -> None:
    x = np.random.default_rng(4).standard_normal((2, 3, 8))
    url = "/rope/apply?start=7"

    mixed = load_npy(client.post(f"{url}&output_layout=half", content=npy_bytes(x), headers=NPY))

    plain = load_npy(client.post(url, content=npy_bytes(x), headers=NPY))
    assert (mixed == plain[..., [0, 2, 4, 6, 1, 3, 5, 7]]).all()
    in_json = client.post(f"{url}&output_layout=half", json={"x": x[0].tolist()}).json()
    assert (in_json["layout"], in_json["parameters"]["layout"]) == ("half", "interleaved")
    back_url = f"{url}&layout=half&output_layout=interleaved&inverse=true"
    back = load_npy(client.post(back_url, content=npy_bytes(mixed), headers=NPY))
    assert np.abs(back - x).max() < 1e-14


def test_an_offset_that_leaves_too_few_channels_is_refused(client: Client) -> None:
    x = npy_bytes(np.ones((1, 8)))

    answer = client.post("/rope/apply?rotary_dim=4&rotary_offset=5", content=x, headers=NPY)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "rotary_offset"


def test_apply_multiplies_by_the_attention_factor_of_the_table(client: Client) -> None:
    """The attention factor multiplies queries, and so keys."""
    query = "head_dim=64&rope_type=yarn&factor=32&original_max_position_embeddings=4096"
    x = np.tile([1.0, 0.0], 32)[np.newaxis]

    out = load_npy(
        client.post(f"/rope/apply?{query}&positions=4095", content=npy_bytes(x), headers=NPY)
    )

    flat = load_npy(client.get(f"/rope.npy?{query}&positions=4095&pack=flat&dtype=float64"))
    assert np.abs(out - flat).max() < 1e-15


def test_at_most_65536_channels_are_rotated(client: Client) -> None:
    wide = {"x": [[0.0] * 65_538]}

    refused = client.post("/rope/apply", json=wide)
    passed = client.post("/rope/apply.bin?rotary_dim=64", json=wide)

    assert (
        refused.json()["detail"] == "x: 65538 channels are rotary, but at most 65536 are possible"
    )
    assert (refused.status_code, passed.status_code) == (422, 200)


def vectors(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def rotate(x: NDArray[Any], dtype: DType = FLOAT64, **parameters: Any) -> TransformedTable:
    family = RopeApply.model_validate({"rotary_dim": 8, **parameters})
    axes = ("any",) * (x.ndim - 2) + ("seq", "channel")
    table, _ = family.apply(Vectors(x, dtype, axes))
    return table


def rotated_elements(x: NDArray[Any], dtype: DType = FLOAT64, **parameters: Any) -> NDArray[Any]:
    return rotate(x, dtype, **parameters).read(0, x.size).reshape(x.shape)


def rotated(x: NDArray[np.float64], start: int, **parameters: Any) -> NDArray[np.float64]:
    return np.asarray(rotated_elements(x, start=start, **parameters), dtype=np.float64)


@settings(max_examples=40)
@given(st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60))
def test_dot_products_depend_only_on_the_difference_of_positions(
    m: int, n: int, shift: int
) -> None:
    query, key = vectors(1, 1, 8), vectors(2, 1, 8)

    here = (rotated(query, m) * rotated(key, n)).sum()
    there = (rotated(query, m + shift) * rotated(key, n + shift)).sum()

    assert abs(here - there) < 64 * UNIT * np.abs(query).max() * np.abs(key).max() * 8


def stored(values: NDArray[np.float64], dtype: DType) -> NDArray[Any]:
    elements = np.empty(values.shape, dtype=dtype.storage)
    round_into(values, elements, dtype)
    return elements


EVERY_DTYPE = pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=lambda dtype: dtype.name)


@EVERY_DTYPE
def test_a_rotation_is_rounded_once_to_the_type_of_its_input(dtype: DType) -> None:
    narrow = stored(vectors(7, 6, 8), dtype)

    out = rotated_elements(narrow, dtype, start=9, layout="half")

    wide = rotated(to_float64(narrow, dtype), 9, layout="half")
    assert out.tobytes() == stored(wide, dtype).tobytes()


def test_overflow_to_float16_gives_infinity() -> None:
    x = np.full((2, 8), 65000.0, dtype="<f2")

    out = rotated_elements(x, FLOAT16, inverse=True)

    assert np.isinf(out[1]).any()
    assert not np.isnan(out).any()


def test_nan_and_infinity_pass_through_a_rotation() -> None:
    x = np.array([[np.nan, 1.0, np.inf, 1.0, 1.0, 1.0, 1.0, 1.0]])

    out = rotated(x, 1)[0]

    assert np.isnan(out[:2]).all()
    assert np.isinf(out[2:4]).all()
    assert np.isfinite(out[4:]).all()


@EVERY_DTYPE
def test_nan_results_have_one_bit_pattern(dtype: DType) -> None:
    """CPUs differ in the NaN that a sum of two keeps, and in the sign of inf - inf."""
    values = np.array([[-np.nan, np.nan, np.inf, np.inf, -np.inf, np.inf, np.nan, 1.0]])

    out = rotated_elements(stored(values, dtype), dtype, start=1, layout="half")

    is_nan = np.isnan(to_float64(out, dtype))
    (one_nan,) = stored(np.array([np.nan]), dtype)
    assert is_nan.sum() >= 4
    assert {element.tobytes() for element in out[is_nan]} == {one_nan.tobytes()}


@pytest.mark.parametrize("channel", [0, 9])
def test_is_finite_is_false_for_infinite_results(channel: int) -> None:
    """Channel 9 lies after the rotary ones."""
    x = np.ones((3, 10))
    assert rotate(x, layout="half").is_finite

    x[1, channel] = np.inf

    assert not rotate(x, layout="half").is_finite


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_in_small_steps_has_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    x = vectors(3, 5, 300, 24)
    options: dict[str, Any] = {"rotary_dim": 16, "start": -90, "layout": layout}
    before, expected = x.copy(), rotated_elements(x, **options).tobytes()
    monkeypatch.setattr(table_module, "STEP_ELEMENTS", 9000)

    assert expected == rotated_elements(x, **options).tobytes()
    assert (before == x).all()


@pytest.mark.parametrize("output_layout", [None, "half"])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_channels_outside_the_offset_range_are_copied_bit_by_bit(
    offset: int, output_layout: str | None
) -> None:
    x = vectors(12, 2, 5, 12)
    x[0, 2, -1 if offset < 4 else 0] = np.nan

    out = rotated(x, 3, output_layout=output_layout, rotary_offset=offset)

    first, last = offset, offset + 8
    assert x[..., :first].tobytes() == out[..., :first].tobytes()
    assert x[..., last:].tobytes() == out[..., last:].tobytes()
    rotary = np.ascontiguousarray(x[..., first:last])
    assert (out[..., first:last] == rotated(rotary, 3, output_layout=output_layout)).all()


@pytest.mark.parametrize(
    ("parameters", "canonical"),
    [
        ({}, {"layout": "interleaved", "inverse": False}),
        ({"output_layout": "interleaved"}, {"layout": "interleaved", "inverse": False}),
        (
            {"output_layout": "half", "rotary_offset": 1, "inverse": True},
            {
                "layout": "interleaved",
                "output_layout": "half",
                "rotary_offset": 1,
                "inverse": True,
            },
        ),
    ],
)
def test_output_layout_and_offset_are_canonical_unless_default(
    parameters: dict[str, object], canonical: dict[str, object]
) -> None:
    family = RopeApply.model_validate({"rotary_dim": 2, **parameters})

    _, stated = family.apply(Vectors(np.ones((1, 3)), FLOAT64, ("seq", "channel")))

    angles = {"rotary_dim": 2, "rope_type": "default", "rope_theta": 1e4, "start": 0, "seq_len": 1}
    assert stated == {**angles, **canonical}


def test_xpos_of_query_and_key_cancels_at_equal_positions() -> None:
    """Queries grow as keys shrink: the product of both at one position is that without xPos."""
    query, key = vectors(14, 9, 8), vectors(15, 9, 8)
    options = {"xpos_scale_base": 4, "xpos_centre": 4, "layout": "half"}

    scaled_query, scaled_key = (
        rotated(x, 0, xpos=side, **options) for side, x in (("query", query), ("key", key))
    )

    product = (scaled_query * scaled_key).sum(axis=-1)
    assert np.abs(product - (query * key).sum(axis=-1)).max() < 1e-13
    assert np.abs(scaled_query[8]).sum() < np.abs(query[8]).sum()


def test_float32_angles_rotate_by_the_rounded_angle() -> None:
    x = np.tile([1.0, 0.0], 4)[np.newaxis]

    out = rotated(x, 131071, angle="float32")[0]

    for pair in range(4):
        exact = 10000.0 ** (-pair / 4)
        angle = mpmath.mpf(float(np.float32(131071) * np.float32(exact)))
        assert abs(out[2 * pair] - mpmath.cos(angle)) <= 6 * UNIT
        assert abs(out[2 * pair + 1] - mpmath.sin(angle)) <= 6 * UNIT


HALF = ("interleaved", "half")
INTERLEAVED = ("half", "interleaved")

# Heads, channels of a head, rotary ones among them, and the first of these.
SHAPES = [(1, 2, 2, 0), (3, 8, 8, 0), (4, 128, 128, 0), (2, 80, 32, 0), (2, 12, 6, 4), (2, 7, 2, 5)]


def index(
    heads: int, head_dim: int, rotary_dim: int, offset: int, layouts: tuple[str, str]
) -> NDArray[Any]:
    order = HeadOrder(head_dim, rotary_dim, offset, *layouts)
    table = PermutationTable(order, heads, INT64)
    return np.asarray(table.read(0, heads * head_dim))


def converted(
    weights: NDArray[np.float64], heads: int, rotary_dim: int, offset: int
) -> NDArray[np.float64]:
    """Reorder rows as conversions from Meta's weights do: view(heads, r/2, 2, in), transposed."""
    inputs = weights.shape[1]
    out = weights.reshape(heads, -1, inputs).copy()
    rotary = out[:, offset : offset + rotary_dim]
    pairs = rotary.reshape(heads, rotary_dim // 2, 2, inputs)
    out[:, offset : offset + rotary_dim] = pairs.swapaxes(1, 2).reshape(rotary.shape)
    return out.reshape(weights.shape)


@pytest.mark.parametrize(("heads", "head_dim", "rotary_dim", "offset"), SHAPES)
def test_the_permutation_is_that_of_conversions_to_transformers(
    heads: int, head_dim: int, rotary_dim: int, offset: int
) -> None:
    weights = np.random.default_rng(0).standard_normal((heads * head_dim, 3))

    found = weights[index(heads, head_dim, rotary_dim, offset, HALF)]

    assert (found == converted(weights, heads, rotary_dim, offset)).all()


@pytest.mark.parametrize(("heads", "head_dim", "rotary_dim", "offset"), SHAPES)
def test_the_permutations_of_both_directions_are_inverse(
    heads: int, head_dim: int, rotary_dim: int, offset: int
) -> None:
    there = index(heads, head_dim, rotary_dim, offset, HALF)
    back = index(heads, head_dim, rotary_dim, offset, INTERLEAVED)

    rows = list(range(heads * head_dim))
    assert there[back].tolist() == back[there].tolist() == rows


@pytest.mark.parametrize("layout", HALF)
def test_the_permutation_of_equal_layouts_is_the_identity(layout: str) -> None:
    assert index(2, 8, 6, 2, (layout, layout)).tolist() == list(range(16))


URL = "/rope/permutation"
GROUPED = "head_dim=8&num_attention_heads=4&num_key_value_heads=2"
DTYPES = pytest.mark.parametrize(("dtype", "code"), [("int32", "I32"), ("int64", "I64")])


def tensors(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(safetensors.deserialize(answer.content))  # type: ignore[no-untyped-call]


def rotated_by_service(client: Client, x: NDArray[Any], query: str) -> NDArray[Any]:
    return load_npy(client.post(f"/rope/apply?{query}", content=npy_bytes(x), headers=NPY))


@DTYPES
def test_permutations_of_q_and_k_are_served_together_or_alone(
    client: Client, dtype: str, code: str
) -> None:
    query = f"{GROUPED}&dtype={dtype}"

    both = tensors(client.get(f"{URL}.safetensors?{query}"))

    assert {name: (view["dtype"], view["shape"]) for name, view in both.items()} == {
        "q": (code, [32]),
        "k": (code, [16]),
    }
    for part in ("q", "k"):
        single_answer = load_npy(client.get(f"{URL}.npy?{query}&part={part}"))
        assert single_answer.tobytes() == bytes(both[part]["data"])


HEADS = pytest.mark.parametrize(
    ("head_dim", "rotary"),
    [(8, ""), (10, "rotary_dim=6"), (80, "partial_rotary_factor=0.4"), (128, "")],
)


@HEADS
def test_rotating_permuted_channels_as_half_permutes_the_interleaved_rotation(
    client: Client, head_dim: int, rotary: str
) -> None:
    index = load_npy(client.get(f"{URL}.npy?head_dim={head_dim}&{rotary}"))
    x = np.random.default_rng(0).standard_normal((3, 5, head_dim))

    half = rotated_by_service(client, x[..., index], f"{rotary}&layout=half&start=17")
    interleaved = rotated_by_service(client, x, f"{rotary}&layout=interleaved&start=17")

    assert half.tobytes() == interleaved[..., index].tobytes()


def test_the_permutation_of_an_offset_moves_the_rotary_channels(client: Client) -> None:
    index = load_npy(client.get(f"{URL}.npy?head_dim=12&rotary_dim=8&rotary_offset=4"))

    assert index.tolist() == [0, 1, 2, 3, 4, 6, 8, 10, 5, 7, 9, 11]
    rest = load_npy(client.get(f"{URL}.npy?head_dim=12&rotary_offset=4"))
    assert rest.tolist() == index.tolist()


def test_more_than_2_to_the_31_rows_need_int64(client: Client) -> None:
    most = client.head(f"{URL}.npy?head_dim=65536&num_attention_heads=32768")
    more = client.head(f"{URL}.npy?head_dim=65536&num_attention_heads=32769&dtype=int64")

    assert (most.headers["Array-Shape"], most.headers["Array-Dtype"]) == (str(2**31), "int32")
    assert (more.headers["Array-Shape"], more.headers["Array-Dtype"]) == (
        str(2**31 + 65_536),
        "int64",
    )
    tail = client.get(
        f"{URL}.bin?head_dim=65536&num_attention_heads=32768", range=f"bytes={2**33 - 4}-"
    )
    assert np.frombuffer(tail.content, "<i4").tolist() == [2**31 - 1]


@given(
    st.fixed_dictionaries(
        {"head_dim": st.integers(0, 40)},
        optional={
            "rotary_dim": st.integers(0, 40),
            "rotary_offset": st.integers(-1, 20),
            "partial_rotary_factor": st.floats(0, 1.1),
            "layout": st.sampled_from(["interleaved", "half"]),
            "output_layout": st.sampled_from(["interleaved", "half"]),
            "num_attention_heads": st.integers(0, 5),
            "num_key_value_heads": st.integers(0, 5),
            "dtype": st.sampled_from(["int32", "int64", "float32"]),
        },
    )
)
def test_any_parameters_give_a_permutation_or_a_fault_that_names_one(
    client: Client, parameters: dict[str, Any]
) -> None:
    answer = client.post(URL, json=parameters)

    if answer.status_code == 422:
        assert {error["parameter"] for error in answer.json()["errors"]} <= set(parameters)
        return
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    for vector in data.values() if isinstance(data, dict) else [data]:
        assert sorted(vector) == list(range(len(vector)))


def test_all_parameters_that_are_missing_are_named_at_once(client: Client) -> None:
    faults = client.get("/rope").json()["errors"]
    assert [each["parameter"] for each in faults] == ["head_dim", "seq_len"]
    (fault,) = client.get("/rope?head_dim=8").json()["errors"]
    assert fault["parameter"] == "seq_len"
