"""``/rope`` through HTTP: tables in every packing, and applied results."""

import io
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from service.tables.packs import CONSUMERS, PACKS
from tests.client import Client

NPY = {"Content-Type": "application/x-npy"}
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}


def npy(answer: httpx.Response) -> NDArray[Any]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def saved(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_every_packing_has_its_shape(client: Client) -> None:
    shapes = {
        "pair": (6, 4, 2),
        "complex": (6, 4),
        "flat": (6, 8),
        "concat": (6, 8),
        "sin_concat": (6, 8),
        "compact": (6, 4),
        "half": (6, 8),
        "interleaved": (6, 8),
        "half_concat": (6, 16),
        "sin_half_concat": (6, 16),
        "sin_interleaved_concat": (6, 16),
        "angle": (6, 4),
    }
    assert set(shapes) == set(PACKS)
    for pack, shape in shapes.items():
        part = "&part=cos" if pack in {"compact", "half", "interleaved"} else ""
        answer = client.get(f"/rope.npy?head_dim=8&seq_len=6&pack={pack}{part}")
        assert npy(answer).shape == shape


def test_two_arrays_come_whole_as_safetensors(client: Client) -> None:
    answer = client.get("/rope.safetensors?head_dim=8&seq_len=6&pack=half")

    loaded = safetensors.numpy.load(answer.content)

    assert set(loaded) == {"cos", "sin"}
    assert loaded["cos"][:, :4].tolist() == loaded["cos"][:, 4:].tolist()


def test_a_format_for_one_array_says_how_to_ask_for_one(client: Client) -> None:
    answer = client.get("/rope.npy?head_dim=8&seq_len=6&pack=half")

    assert answer.status_code == 422
    assert "part=cos|sin" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "rotary_dim"),
    [
        ("head_dim=128", 128),
        ("head_dim=128&rotary_dim=64", 64),
        ("head_dim=80&partial_rotary_factor=0.4", 32),
        ("rotary_dim=16", 16),
        ("inv_freq=1,0.5,0.25", 6),
        ("head_dim=64&inv_freq=1,0.5", 4),
    ],
)
def test_the_rotary_part_is_named_in_the_answer(
    client: Client, query: str, rotary_dim: int
) -> None:
    content = client.get(f"/rope?{query}&seq_len=1").json()

    assert content["parameters"]["rotary_dim"] == rotary_dim
    assert content["shape"] == [1, rotary_dim // 2, 2]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("", "head_dim"),
        ("partial_rotary_factor=0.5", "head_dim"),
        ("head_dim=7", "head_dim"),
        ("head_dim=8&rotary_dim=16", "rotary_dim"),
        ("head_dim=8&rotary_dim=3", "rotary_dim"),
        ("head_dim=10&partial_rotary_factor=0.5", "partial_rotary_factor"),
        ("head_dim=8&rotary_dim=4&partial_rotary_factor=0.5", "partial_rotary_factor"),
        ("head_dim=8&partial_rotary_factor=0", "partial_rotary_factor"),
        ("inv_freq=1,0.5&rope_theta=10000", "rope_theta"),
        ("inv_freq=1,0.5&rope_type=default", "rope_type"),
        ("inv_freq=-1", "inv_freq"),
        ("inv_freq=1e19", "inv_freq"),
        ("inv_freq=1,0.5&rotary_dim=6", "inv_freq"),
        ("inv_freq=1,0.5&head_dim=2", "inv_freq"),
        ("head_dim=8&pack=complex&dtype=bfloat16", "dtype"),
        ("head_dim=8&part=cos", "part"),
        ("head_dim=8&rope_type=su", "rope_type"),
        ("head_dim=8&rope_theta=0.5", "rope_theta"),
    ],
)
def test_impossible_combinations_name_the_parameter(
    client: Client, query: str, parameter: str
) -> None:
    answer = client.get(f"/rope?{query}&seq_len=1")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_queries_of_any_leading_axes_are_rotated(client: Client, dtype: str, layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(dtype)
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

    out = npy(client.post(f"/rope/apply?start=9&layout={layout}", content=saved(x), headers=NPY))

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
    alone = client.post(
        "/rope/apply?positions=7,100",
        content=safetensors.numpy.save({"k": k}),
        headers=SAFETENSORS,
    )
    (single,) = safetensors.deserialize(alone.content)  # type: ignore[no-untyped-call]
    assert bytes(single[1]["data"]) == bytes(views["k"]["data"])


def test_the_inverse_returns_the_input(client: Client) -> None:
    x = np.random.default_rng(1).standard_normal((6, 12))
    url = "/rope/apply?rotary_dim=8&layout=half&start=1000"

    there = npy(client.post(url, content=saved(x), headers=NPY))
    back = npy(client.post(f"{url}&inverse=true", content=saved(there), headers=NPY))

    assert np.abs(back - x).max() < 1e-14
    assert there[:, 8:].tobytes() == x[:, 8:].tobytes()


def test_json_takes_parameters_beside_the_array(client: Client) -> None:
    body = {"x": [[1, 2, 3, 4], [1, 2, 3, 4]], "positions": [5, 3], "layout": "half"}

    content = client.post("/rope/apply", json=body).json()

    assert content["parameters"]["positions"] == "5,3"
    assert content["parameters"]["layout"] == "half"
    assert content["shape"] == [2, 4]


def test_a_parameter_in_query_and_body_is_given_twice(client: Client) -> None:
    answer = client.post("/rope/apply?start=1", json={"x": [[1, 2]], "start": 1})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "start"


def test_the_answer_comes_in_the_format_asked_for(client: Client) -> None:
    x = saved(np.ones((2, 4), dtype=np.float32))

    by_accept = client.post("/rope/apply", content=x, headers={**NPY, "Accept": "application/json"})
    by_extension = client.post("/rope/apply.safetensors", content=x, headers=NPY)

    assert by_accept.headers["Content-Type"] == "application/json"
    assert by_extension.headers["Content-Type"] == "application/vnd.safetensors"


def test_a_head_that_is_not_as_said_is_refused(client: Client) -> None:
    answer = client.post("/rope/apply?head_dim=8", content=saved(np.ones((2, 4))), headers=NPY)

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "")


def test_several_arrays_in_a_format_for_one_get_no_advice_that_fails(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones((1, 2)), "k": np.ones((1, 2))})

    answer = client.post("/rope/apply.npy", content=body, headers=SAFETENSORS)

    assert answer.status_code == 422
    assert "part" not in answer.json()["detail"]
    assert "safetensors" in answer.json()["detail"]


def test_the_tensor_that_does_not_fit_is_named(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones((1, 8)), "k": np.ones((1, 16))})

    answer = client.post("/rope/apply?head_dim=8", content=body, headers=SAFETENSORS)

    assert answer.json()["detail"].startswith("k: the last axis has 16 channels")


@pytest.mark.parametrize(
    ("query", "value"),
    [("head_dim=10&partial_rotary_factor=0.5", "0.5"), ("head_dim=7", "7")],
)
def test_the_value_of_a_fault_is_what_was_sent(client: Client, query: str, value: str) -> None:
    answer = client.get(f"/rope?{query}&seq_len=1")

    assert answer.json()["errors"][0]["value"] == value


@pytest.mark.parametrize("query", ["head_dim=65537", "rotary_dim=65538", "rope_theta=1e301"])
def test_bounds_hold(client: Client, query: str) -> None:
    assert client.get(f"/rope?{query}&seq_len=1").status_code == 422


def test_a_list_of_frequencies_is_bounded(client: Client) -> None:
    answer = client.post("/rope", json={"seq_len": 1, "inv_freq": [0.5] * 32_769})

    assert answer.status_code == 422
    assert "no longer than 32768" in answer.json()["detail"]


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_consumer_gets_its_packing(client: Client, consumer: str) -> None:
    url = "/rope.safetensors?head_dim=8&seq_len=6&pack="

    ours, plain = client.get(url + consumer), client.get(url + CONSUMERS[consumer])

    assert ours.status_code == plain.status_code == 200 or CONSUMERS[consumer] == "complex"
    assert ours.content == plain.content
    assert ours.headers.get("ETag") == plain.headers.get("ETag")


def test_a_batch_is_a_leading_axis(client: Client) -> None:
    for pack, part in (("pair", ""), ("half", "&part=sin"), ("complex", ""), ("angle", "")):
        url = f"/rope.npy?head_dim=8&seq_len=6&pack={pack}{part}"
        plain, batch = npy(client.get(url)), npy(client.get(f"{url}&batch=true"))

        assert batch.shape == (1, *plain.shape)
        assert batch.tobytes() == plain.tobytes()
    assert "batch" not in client.get("/rope?head_dim=8&seq_len=1&batch=false").json()["parameters"]


def test_angles_have_no_room_in_float16(client: Client) -> None:
    answer = client.get("/rope?head_dim=8&seq_len=1&pack=angle&dtype=float16")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "dtype"


PUBLISHED = {
    "Llama-3.1-8B-Instruct": (
        (
            "head_dim=128&rope_theta=500000.0&rope_type=llama3&factor=8.0&low_freq_factor=1.0"
            "&high_freq_factor=4.0&original_max_position_embeddings=8192"
        ),
        {1: 0.8146172338565447, 32: 0.0005248461609929547, 63: 3.068925988914511e-07},
        1.0,
    ),
    "gpt-oss-120b": (
        (
            "head_dim=64&rope_theta=150000&rope_type=yarn&factor=32.0&beta_fast=32.0&beta_slow=1.0"
            "&original_max_position_embeddings=4096&truncate=false"
        ),
        {1: 0.6890443058881632, 16: 0.00045648391922324016, 31: 3.0235114281192144e-07},
        1.3465735902799727,
    ),
    "DeepSeek-V3": (
        (
            "head_dim=64&rope_theta=10000.0&rope_type=yarn&factor=40.0&beta_fast=32.0&beta_slow=1.0"
            "&mscale=1.0&mscale_all_dim=1.0&original_max_position_embeddings=4096"
        ),
        {1: 0.7498942093324559, 16: 0.0055, 31: 3.33380358040831e-06},
        1.0,
    ),
    "internlm2_5-7b-chat at 65536": (
        (
            "head_dim=128&rope_theta=1000000&rope_type=dynamic&factor=2.0"
            "&max_position_embeddings=32768&context_length=65536"
        ),
        {1: 0.7919114945129184, 32: 0.0005723381508381237, 63: 4.136459202505732e-07},
        1.0,
    ),
    "LLaMA-2-7B-32K": (
        "head_dim=128&rope_type=linear&factor=8.0",
        {0: 0.125, 1: 0.10824554042000817, 63: 1.4434774808618228e-05},
        1.0,
    ),
    "gpt-neox-20b": (
        "head_dim=96&partial_rotary_factor=0.25",
        {0: 1.0, 1: 0.46415888336127786, 6: 0.01, 11: 0.00021544346900318837},
        1.0,
    ),
    "gemma-4": (
        "head_dim=512&rope_type=proportional&partial_rotary_factor=0.25&rope_theta=1000000.0",
        {0: 1.0, 1: 0.9474635256553754, 128: 0.0, 255: 0.0},
        1.0,
    ),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_models_have_their_published_frequencies(client: Client, model: str) -> None:
    query, frequencies, attention_factor = PUBLISHED[model]

    data = client.get(f"/rope/frequencies?{query}").json()["data"]

    assert {k: data["inv_freq"][k] for k in frequencies} == frequencies
    assert data["attention_factor"] == attention_factor
    first = npy(client.get(f"/rope.npy?{query}&seq_len=1&pack=compact&part=cos&dtype=float64"))
    assert set(first.ravel()) == {attention_factor}


def test_every_part_of_the_frequencies_may_be_asked_for_alone(client: Client) -> None:
    for query, _, _ in PUBLISHED.values():
        whole = client.get(f"/rope/frequencies?{query}").json()
        for name, values in whole["data"].items():
            part = client.get(f"/rope/frequencies?{query}&part={name}")
            assert part.json()["data"] == values
            assert part.json()["shape"] == whole["shape"][name]
            assert part.headers["Array-Dtype"] == "float64"
            array = npy(client.get(f"/rope/frequencies.npy?{query}&part={name}"))
            assert list(array.shape) == whole["shape"][name]
            finite = [float("inf") if value is None else value for value in np.ravel(values)]
            assert array.ravel().tolist() == finite


def test_a_part_that_a_rule_does_not_have_is_refused(client: Client) -> None:
    answer = client.get("/rope/frequencies?head_dim=8&part=ramp")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "part"
    assert "one of inv_freq, wavelength, attention_factor" in answer.json()["detail"]


def test_the_wavelength_of_what_does_not_turn_is_null_or_infinite(client: Client) -> None:
    url = "head_dim=4&rope_type=proportional&partial_rotary_factor=0.5&part=wavelength"

    in_json = client.get(f"/rope/frequencies.json?{url}")
    in_csv = client.get(f"/rope/frequencies.csv?{url}")

    assert in_json.json()["data"] == [6.283185307179586, None]
    assert in_csv.text == "6.283185307179586\ninf\n"
    assert npy(client.get(f"/rope/frequencies.npy?{url}")).tolist() == [2 * np.pi, np.inf]


def test_deepseek_reads_pairs_and_writes_halves(client: Client) -> None:
    x = np.random.default_rng(4).standard_normal((2, 3, 8))
    url = "/rope/apply?start=7"

    mixed = npy(client.post(f"{url}&output_layout=half", content=saved(x), headers=NPY))

    plain = npy(client.post(url, content=saved(x), headers=NPY))
    assert (mixed == plain[..., [0, 2, 4, 6, 1, 3, 5, 7]]).all()
    back_url = f"{url}&layout=half&output_layout=interleaved&inverse=true"
    back = npy(client.post(back_url, content=saved(mixed), headers=NPY))
    assert np.abs(back - x).max() < 1e-14


def test_channels_before_an_offset_pass_through(client: Client) -> None:
    x = np.random.default_rng(5).standard_normal((3, 12))
    url = "/rope/apply?rotary_dim=4&layout=half&start=3"

    out = npy(client.post(f"{url}&rotary_offset=6", content=saved(x), headers=NPY))

    alone = npy(client.post(url, content=saved(x[:, 6:10]), headers=NPY))
    assert (out[:, 6:10] == alone).all()
    assert out[:, :6].tobytes() == x[:, :6].tobytes()
    assert out[:, 10:].tobytes() == x[:, 10:].tobytes()


def test_an_offset_that_leaves_too_few_channels_is_refused(client: Client) -> None:
    x = saved(np.ones((1, 8)))

    answer = client.post("/rope/apply?rotary_dim=4&rotary_offset=5", content=x, headers=NPY)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "rotary_offset"


def test_a_scaled_rule_turns_arrays_as_its_table_says(client: Client) -> None:
    """The attention factor multiplies queries, and so keys."""
    query = PUBLISHED["gpt-oss-120b"][0]
    x = np.tile([1.0, 0.0], 32)[np.newaxis]

    out = npy(client.post(f"/rope/apply?{query}&positions=4095", content=saved(x), headers=NPY))

    flat = npy(client.get(f"/rope.npy?{query}&positions=4095&pack=flat&dtype=float64"))
    assert np.abs(out - flat).max() < 1e-15


def test_no_more_channels_turn_than_a_head_may_have(client: Client) -> None:
    wide = {"x": [[0.0] * 65_538]}

    refused = client.post("/rope/apply", json=wide)
    passed = client.post("/rope/apply.bin?rotary_dim=64", json=wide)

    assert refused.json()["detail"] == "x: 65538 channels turn, and at most 65536 are possible"
    assert (refused.status_code, passed.status_code) == (422, 200)
