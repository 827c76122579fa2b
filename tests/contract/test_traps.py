"""Known mistakes of libraries that the service does not make."""

import io
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from tests.client import Client
from tests.exact import UNIT, frequency

YARN = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
SHAPE = {"head_dim": 64, "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 6}
LONGROPE = (
    "/rope/frequencies?head_dim=8&rope_type=longrope&original_max_position_embeddings=4096"
    "&max_position_embeddings=131072&short_factor=1,1,1,1.5&long_factor=1,2,4,8"
)


def config(client: Client, content: dict[str, Any], query: str = "") -> dict[str, Any]:
    answer = client.post(f"/rope/config{query}", json=content)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def inv_freq(client: Client, url: str) -> NDArray[np.float64]:
    return np.array(client.get(url).json()["data"]["inv_freq"])


def codes(report: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in report["warnings"]}


def test_yarn_truncate_false_is_read_per_layer_type(client: Client) -> None:
    """transformers 5.23.0 reads truncate beside the layer types, where it never is."""
    layers = ["sliding_attention", "full_attention"] * 3
    nested = {
        "model_type": "gpt_oss",
        **SHAPE,
        "layer_types": layers,
        "rope_parameters": {kind: YARN | {"truncate": False} for kind in set(layers)},
    }
    flat = {"model_type": "gpt_oss", **SHAPE, "rope_parameters": YARN | {"truncate": False}}
    rounded = {"model_type": "gpt_oss", **SHAPE, "rope_parameters": YARN | {"truncate": True}}

    (expected,) = config(client, flat)["rope"].values()
    (other,) = config(client, rounded)["rope"].values()

    for entry in config(client, nested)["rope"].values():
        assert entry["truncate"] is False
        found = inv_freq(client, entry["frequencies"])
        assert (found == inv_freq(client, expected["frequencies"])).all()
        assert np.abs(inv_freq(client, other["frequencies"]) / found - 1).max() > 0.5


def test_ignored_partial_rotary_factor_has_a_warning(client: Client) -> None:
    """The Llama class of transformers ignores partial_rotary_factor, but not for type linear."""
    plain = {"model_type": "llama", **SHAPE, "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    scaled = plain | {"rope_scaling": {"rope_type": "linear", "factor": 1.0}}

    ignored, honoured = config(client, plain), config(client, scaled)

    assert ignored["rope"]["default"]["rotary_dim"] == 64
    assert "partial-rotary-ignored" in codes(ignored)
    assert honoured["rope"]["default"]["rotary_dim"] == 32
    assert "partial-rotary-ignored" not in codes(honoured)


def test_phi3_config_with_type_su_is_longrope(client: Client) -> None:
    """transformers 5.23.0 raises KeyError for it."""
    factors = {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [1.0, 4.0, 16.0, 64.0]}
    report = config(
        client,
        {
            "model_type": "phi3",
            "hidden_size": 32,
            "num_attention_heads": 4,
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_theta": 10000.0,
            "rope_scaling": {"type": "su", **factors},
        },
    )

    entry = report["rope"]["default"]
    assert entry["rope_type"] == "longrope"
    assert entry["original_max_position_embeddings"] == 4096
    assert entry["attention_factor"] == pytest.approx(np.sqrt(1 + 5 / 12), abs=1e-15)


def test_dynamic_frequencies_do_not_depend_on_earlier_requests(client: Client) -> None:
    """transformers keeps the base of the longest sequence for shorter ones."""
    base = "/rope/frequencies?head_dim=64&rope_type=dynamic&factor=2&max_position_embeddings=2048"
    before = client.get(f"{base}&context_length=3000").json()

    client.get(f"{base}&context_length=100000")

    assert client.get(f"{base}&context_length=3000").json() == before


def test_dynamic_scaling_keeps_the_highest_frequency(client: Client) -> None:
    """keras-hub divides every frequency, the first as well."""
    url = (
        "/rope/frequencies?head_dim=64&rope_type=dynamic&factor=4&max_position_embeddings=2048"
        "&context_length=8192"
    )

    assert inv_freq(client, url)[0] == 1.0


def test_yarn_factor_below_one_has_attention_factor_one(client: Client) -> None:
    url = "/rope/frequencies?head_dim=64&rope_type=yarn&original_max_position_embeddings=4096"

    answer = client.get(f"{url}&factor=0.5").json()

    assert answer["data"]["attention_factor"] == [1.0]


@pytest.mark.parametrize(("dtype", "ulp"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
@pytest.mark.parametrize(
    "url", ["/rope?head_dim=128&pack=flat", "/encoding?d_model=128&base=10000"]
)
def test_half_precision_tables_are_rounded_from_float64(
    client: Client, url: str, dtype: str, ulp: float
) -> None:
    """bfloat16 cannot count past 256: computed in it, a table is off by 2 at 4096 positions."""
    positions = "&positions=255,256,257,4095,131071"
    narrow = np.array(client.get(f"{url}{positions}&dtype={dtype}").json()["data"])
    exact = np.array(client.get(f"{url}{positions}&dtype=float64").json()["data"])

    assert np.abs(narrow - exact).max() <= ulp / 2 * (1 + 1e-9)


def test_bfloat16_queries_are_rotated_by_exact_positions(client: Client) -> None:
    """rotary-embedding-torch takes positions in that type: off by 3 at 512 in bfloat16."""
    x = np.ones((1, 64)).astype(ml_dtypes.bfloat16)
    body = safetensors.numpy.save({"q": x})
    headers = {"Content-Type": "application/vnd.safetensors"}

    answer = client.post("/rope/apply?positions=8191", content=body, headers=headers)

    ((_, view),) = safetensors.deserialize(answer.content)  # type: ignore[no-untyped-call]
    turned = np.frombuffer(view["data"], ml_dtypes.bfloat16).astype(np.float64)
    for pair in range(32):
        angle = 8191 * frequency(10000.0, 64, pair)
        real = mpmath.cos(angle) - mpmath.sin(angle)
        assert abs(turned[2 * pair] - real) <= 2.0**-8


def test_longrope_long_factors_divide_all_frequencies(client: Client) -> None:
    """candle multiplies by them, and changes from short to long position by position."""
    frequencies = inv_freq(client, f"{LONGROPE}&context_length=4097")
    expected = [1.0, 0.1 / 2, 0.01 / 4, 0.001 / 8]
    table = LONGROPE.replace("/frequencies", "") + "&context_length=4097&pack=compact&dtype=float64"

    rows = client.get(f"{table}&positions=1,100000").json()["data"]["cos"]

    assert frequencies == pytest.approx(expected, rel=1e-15)
    scale = np.sqrt(1 + np.log(32) / np.log(4096))
    for position, row in zip((1, 100000), rows, strict=True):
        assert row == pytest.approx(scale * np.cos(position * frequencies), abs=1e-9)


def test_longrope_short_factors_apply_up_to_the_original_length(client: Client) -> None:
    """mlx-lm 0.32.2 uses the long ones at every length."""
    short = [1.0, 0.1, 0.01, 0.001 / 1.5]

    for query in ("", "&context_length=1", "&context_length=4096"):
        assert inv_freq(client, LONGROPE + query) == pytest.approx(short, rel=1e-15)
    answer = client.get(f"{LONGROPE}").json()
    assert answer["parameters"]["context_length"] == 4096


def test_gemma3_scales_full_attention_layers_only(client: Client) -> None:
    """candle, llama.cpp and others lost the factor 8 of Gemma 3."""
    report = config(
        client,
        {
            "model_type": "gemma3_text",
            **SHAPE,
            "rope_theta": 1000000.0,
            "rope_local_base_freq": 10000.0,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "sliding_window_pattern": 6,
        },
    )
    full, sliding = report["rope"]["full_attention"], report["rope"]["sliding_attention"]

    assert (full["rope_type"], full["factor"], full["layers"]) == ("linear", 8.0, [5])
    assert (sliding["rope_type"], sliding["rope_theta"]) == ("default", 10000.0)
    assert inv_freq(client, full["frequencies"])[0] == 0.125
    assert inv_freq(client, sliding["frequencies"])[0] == 1.0


def test_given_attention_factor_overrides_the_derived_one(client: Client) -> None:
    """mlx-lm 0.32.2 knows none, and others made 1.0 into 1.28."""
    given = {"model_type": "gpt_oss", **SHAPE, "rope_parameters": YARN | {"attention_factor": 1.0}}

    entry = config(client, given)["rope"]["default"]

    query = entry["file"].partition("?")[2].replace("pack=half", "pack=compact")
    table = f"/rope.json?{query}&positions=0&dtype=float64"
    assert entry["attention_factor"] == 1.0
    assert client.get(table).json()["data"]["cos"] == [[1.0] * 32]


def test_axis_and_channel_order_of_axial_conventions(client: Client) -> None:
    """diffusers puts the column first, Qwen2-VL the row; timm puts sines before cosines."""
    grid = "head_dim=8&grid=2,3&pack=angle&dtype=float64"
    rows = client.get(f"/rope/axial?convention=qwen2_vl&{grid}").json()["data"]
    columns = client.get(f"/rope/axial?convention=diffusers_2d&{grid}").json()["data"]

    assert [row[0] for row in rows] == [0, 0, 0, 1, 1, 1]
    assert [row[0] for row in columns] == [0, 1, 2, 0, 1, 2]
    halves = client.get("/rope.npy?head_dim=8&positions=1&pack=timm_dinov3&dtype=float64")
    ((first, *_),) = np.load(io.BytesIO(halves.content))
    assert abs(first - mpmath.sin(1)) <= 6 * UNIT
