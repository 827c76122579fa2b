"""``/rope/config``: from a model's config.json to the URLs of its tables; the report's schema."""

import json
import re
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.delivery.endpoints import JsonObject
from service.errors import InvalidBody
from service.models.config_values import CODES, RULE, RULE_TYPE_ALIASES, RULE_TYPES, TOP
from service.models.documents import read_document
from service.models.model_types import model_types
from service.routes.model_links import ConfigParameters
from service.routes.rope_config import CONFIG, RopeConfigReport, report_config
from service.settings import default_settings
from tests.client import Client
from tests.models.settings import llama
from tests.openapi import report_schema

MODELS = json.loads((Path(__file__).parents[1] / "data/rope_models.json").read_text())["models"]
REGIMES = [(model, label) for model in MODELS for label in model["exact_60_digit"]]
UNIT = 2.0**-53
LISTS = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0]}
PHI3 = {
    "model_type": "phi3",
    "head_dim": 4,
    "hidden_size": 64,
    "num_attention_heads": 16,
    "max_position_embeddings": 16384,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "su", **LISTS},
}


def resolved(client: Client, config: object, query: str = "") -> Any:
    answer = client.post(f"/rope/config{query}", json=config)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("model", "label"), REGIMES, ids=[f"{model['name']} {label}" for model, label in REGIMES]
)
def test_published_models_have_their_exact_tables(
    client: Client, model: dict[str, Any], label: str
) -> None:
    name, _, length = label.rstrip(")").partition("(seq_len=")
    query = f"?context_length={length}" if length else ""
    rope = resolved(client, model["hf_config"], query)["rope"]
    entry, exact = rope["default"] if length else rope[name], model["exact_60_digit"][label]
    factor = exact["attention_factor"]

    frequencies = client.get(entry["frequencies"]).json()["data"]["inv_freq"]
    positions = "&positions=1,4095,131071&dtype=float64"
    url = re.sub("pack=[a-z]+", "pack=pair", entry["table"].replace(".safetensors", ".json"))
    url = re.sub("&seq_len=[0-9]+", "", url)
    table = client.get(url + positions).json()["data"]

    assert len(frequencies) == exact["n"]
    assert entry["attention_factor"] == pytest.approx(factor, rel=1e-15)
    for index, expected in exact["inv_freq_at"].items():
        assert frequencies[int(index)] == pytest.approx(expected, rel=1e-15, abs=0)
    for row, values in zip(table, exact["cos_sin_times_attention_factor"].values(), strict=True):
        for index, pair in values.items():
            assert row[int(index)] == pytest.approx(pair, rel=0, abs=6 * UNIT * factor)


def test_a_report_has_every_parameter_of_the_table(client: Client) -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    answer = client.post("/rope/config", json=llama(rope_scaling=scaling))
    content = answer.json()
    entry = content["rope"]["default"]

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert (content["model_type"], content["layout"]) == ("llama", "half")
    assert content["attention"] == {}
    assert content["warnings"] == []
    assert entry["layers"] == "all"
    assert entry["origin"]["factor"] == "/rope_scaling/factor"
    of_tables = {"frequencies", "table", "file", "cos", "sin", "apply", "shape", "dtype"}
    assert entry["origin"].keys() == entry.keys() - {"layers", "origin"} - of_tables
    query = {name: value for name, (value,) in parse_qs(urlsplit(entry["table"]).query).items()}
    assert query == {
        "head_dim": "128",
        "rope_theta": "10000",
        "rope_type": "yarn",
        "original_max_position_embeddings": "2048",
        "factor": "4",
        "max_position_embeddings": "8192",
        "pack": "half",
    }


@pytest.mark.parametrize("config", [PHI3, llama(rope_scaling={"type": "dynamic", "factor": 2.0})])
def test_both_regimes_have_urls_and_the_original_one_is_the_default(
    client: Client, config: dict[str, object]
) -> None:
    entry = resolved(client, config)["rope"]["default"]
    original, extended = entry["regimes"]
    extended_entry = resolved(client, config, f"?context_length={extended['context_length']}")[
        "rope"
    ]["default"]

    assert entry["context_length"] == original["context_length"]
    assert entry["frequencies"] == original["frequencies"]
    assert extended_entry["frequencies"] == extended["frequencies"]
    assert extended_entry["table"] == extended["table"]
    numbers = [client.get(regime["frequencies"]).json()["data"] for regime in entry["regimes"]]
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize("config", [PHI3, llama(rope_scaling={"type": "dynamic", "factor": 2.0})])
def test_tables_have_the_rows_that_their_frequencies_are_for(
    client: Client, config: dict[str, object]
) -> None:
    entry, extended = (
        resolved(client, config, query)["rope"]["default"] for query in ("", "?context_length=5000")
    )

    for links in (entry, *entry["regimes"], extended):
        rows = f"{links['context_length']}, {entry['shape'][1]}"
        assert client.head(links["cos"]).headers["Array-Shape"] == rows
        assert f"context_length={links['context_length']}" in links["cos"]
    assert extended["context_length"] == 5000
    assert entry["regimes"][1]["context_length"] > entry["regimes"][0]["context_length"]


def test_pointers_lead_into_the_text_model_of_a_multimodal_config(client: Client) -> None:
    content = resolved(client, {"model_type": "llava", "text_config": llama()})

    assert content["model_type"] == "llava"
    assert content["text_model_type"] == "llama"
    assert content["rope"]["default"]["origin"]["rope_theta"] == "/text_config/rope_theta"


def test_sections_are_in_the_url_of_the_table_alone(client: Client) -> None:
    scaling = {"type": "mrope", "mrope_section": [16, 24, 24]}
    config = llama(model_type="qwen2_vl", rope_scaling=scaling)
    entry = resolved(client, config)["rope"]["default"]

    assert "mrope_section=16,24,24&mrope_interleaved=false" in entry["file"]
    assert "mrope" not in entry["frequencies"]
    axes = "&positions_t=0,1&positions_h=0,2&positions_w=0,3"
    for url in (entry["frequencies"], entry["file"] + "&positions=5", entry["file"] + axes):
        assert client.get(url).status_code == 200


def test_a_model_that_rotates_into_another_channel_layout_reports_both(client: Client) -> None:
    content = resolved(client, {"model_type": "deepseek_v3"})

    assert (content["layout"], content["writes"]) == ("interleaved", "half")


def test_the_file_is_the_whole_table_and_streams(client: Client) -> None:
    entry = resolved(client, llama(max_position_embeddings=1_048_576))["rope"]["default"]
    described = client.head(entry["file"])

    assert entry["file"] == entry["table"]
    assert described.headers["Array-Shape"] == "1048576, 128"
    assert client.head(entry["cos"]).headers["Array-Shape"] == "1048576, 128"


def test_a_table_longer_than_an_answer_is_linked_with_fewer_rows(client: Client) -> None:
    content = resolved(client, llama(head_dim=65_536, max_position_embeddings=2**53))
    entry, (warning,) = content["rope"]["default"], content["warnings"]
    described = client.head(entry["file"])
    rows, _ = map(int, described.headers["Array-Shape"].split(", "))

    assert (warning["code"], warning["pointer"]) == ("fewer-rows", "/max_position_embeddings")
    assert f"{rows} of {2**53} rows" in warning["detail"]
    assert (entry["max_position_embeddings"], entry["shape"]) == (2**53, [rows, 65_536])
    for url in (entry["table"], entry["file"], entry["cos"], entry["sin"]):
        assert f"&seq_len={rows}&" in url
    row_bytes = 2 * 4 * 65_536
    limit = default_settings().max_response_bytes
    assert 0 <= limit - int(described.headers["Content-Length"]) < row_bytes


def test_rotary_channels_at_the_end_of_a_head_have_an_offset_for_apply(client: Client) -> None:
    content = resolved(client, {"model_type": "deepseek_v4", "head_dim": 8, "qk_rope_head_dim": 4})
    entry = content["rope"]["main"]
    query = f"rotary_dim={entry['rotary_dim']}&rotary_offset={entry['rotary_offset']}"
    answer = client.post(
        f"/rope/apply.json?{query}&start=1", json={"x": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]}
    )

    assert entry["origin"]["rotary_offset"].startswith("computed: head_dim - rotary_dim")
    assert answer.json()["data"][0][:4] == [1.0, 2.0, 3.0, 4.0]
    assert "rotary_offset" not in entry["table"]


def test_a_model_without_rotary_embedding_has_no_tables(client: Client) -> None:
    content = resolved(client, {"model_type": "bloom"})

    assert content["rope"] == {}
    assert [warning["code"] for warning in content["warnings"]] == ["no-rotary-embedding"]


@pytest.mark.parametrize(
    ("beside", "pointers"),
    [
        ({"hidden_size": "wide", "num_attention_heads": -1}, ["/hidden_size", "/num_attention_"]),
        ({"rope_theta": 0.5}, ["/rope_theta"]),
        ({"rope_theta": 10**400}, ["/rope_theta"]),
        ({"head_dim": 7}, ["/head_dim"]),
        ({"head_dim": 7.5}, ["/head_dim"]),
        ({"rope_scaling": []}, ["/rope_scaling"]),
        ({"rope_scaling": {"type": "linear", "factor": -1}}, ["/rope_scaling/factor"]),
        (
            {"rope_theta": 0.1, "rope_scaling": {"type": "linear", "factor": 1e300}},
            ["/rope_theta", "/rope_scaling/factor"],
        ),
        (
            {"rope_scaling": {"type": "longrope", **LISTS}},
            ["/rope_scaling/short_factor", "/rope_scaling/long_factor"],
        ),
        (
            {"rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 3]}},
            ["/rope_scaling/mrope_section"],
        ),
        ({"model_type": 5}, ["/model_type"]),
    ],
)
def test_every_fault_has_a_pointer(
    client: Client, beside: dict[str, object], pointers: list[str]
) -> None:
    answer = client.post("/rope/config", json=llama(**beside))
    errors = answer.json()["errors"]

    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:posref:problem:invalid-body"
    assert len(errors) == len(pointers)
    for error, pointer in zip(errors, pointers, strict=True):
        assert error["pointer"].startswith(pointer)


@pytest.mark.parametrize("body", ["[]", '{"rope_theta": NaN}', "{"])
def test_a_body_that_is_no_json_object_is_refused(client: Client, body: str) -> None:
    answer = client.post("/rope/config", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 422


@pytest.mark.parametrize("query", ["context_length=0", "contextlength=5", "seq_len=5"])
def test_invalid_and_unknown_parameters_are_refused(client: Client, query: str) -> None:
    answer = client.post(f"/rope/config?{query}", json=llama())

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"]


def test_a_config_is_sent_as_json(client: Client) -> None:
    assert client.post("/rope/config", content=b"{}").status_code == 415
    assert client.get("/rope/config").status_code == 405


def test_a_report_has_no_other_formats(client: Client) -> None:
    assert client.post("/rope/config.npy", json=llama()).status_code == 404


@pytest.mark.full
@pytest.mark.parametrize(
    "hostile",
    [
        {f"k{i}": 1 for i in range(300_000)},
        {f"rope_{i}": 1 for i in range(200_000)},
        {"rope_scaling": {"type": "linear", "factor": 2, **{f"k{i}": 1 for i in range(300_000)}}},
        {
            "model_type": "x",
            "rope_scaling": {f"t{i}": {f"k{j}": 1 for j in range(5000)} for i in range(64)},
        },
    ],
)
def test_the_number_of_warnings_is_bounded(client: Client, hostile: dict[str, object]) -> None:
    """The number of warnings is bounded for each object, whatever its number of keys."""
    assert len(resolved(client, llama(**hostile))["warnings"]) <= 64 * 25


@pytest.mark.parametrize(
    "hostile",
    [
        {"model_type": "granite_swa", "layer_rope_theta": [float(i + 2) for i in range(4096)]},
        {"model_type": "molmo2_text", "rope_scaling_layers": [*range(10**5)]},
        {
            "model_type": "granite_swa",
            "head_dim": 65_536,
            "layer_rope_theta": [float(i + 2) for i in range(32)],
            "rope_scaling": {"type": "longrope", **{n: [1.0] * 32_768 for n in LISTS}},
        },
    ],
)
def test_long_lists_of_layers_are_refused(client: Client, hostile: dict[str, object]) -> None:
    assert client.post("/rope/config", json=llama(**hostile)).status_code == 422


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 64),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0, 64, 128, 4096, 131072, 1e4, 5e5]),
    st.sampled_from([*RULE_TYPES, *RULE_TYPE_ALIASES, "full_attention", "x"]),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=4))
BLOCKS = st.dictionaries(st.sampled_from([*RULE, "type", "x"]), VALUES, max_size=7)
NESTED = st.dictionaries(st.sampled_from(["full_attention", "sliding_attention", "x"]), BLOCKS)
TYPES = ["llama", "gemma3_text", "phi3", "deepseek_v3", "gptj", "llama4_text", "qwen2_vl", "x"]
ANY = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | NESTED, max_leaves=5)
ANYTHING = st.dictionaries(st.text(), ANY | st.dictionaries(st.text(), ANY, max_size=3), max_size=5)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "model_type": st.sampled_from(TYPES) | ANY,
        "head_dim": st.sampled_from([2, 4, 64, 128]) | ANY,
        "rope_scaling": BLOCKS | NESTED | ANY | ANYTHING,
        "rope_parameters": BLOCKS | NESTED | ANY | ANYTHING,
        "text_config": ANYTHING | st.dictionaries(st.sampled_from(sorted(TOP)), VALUES, max_size=4),
        "yarn": BLOCKS,
        "layer_types": st.lists(st.sampled_from(["full_attention", "sliding_attention"])) | ANY,
        **{name: VALUES for name in TOP if name not in {"head_dim", "layer_types"}},
    },
)


NUMBERS = st.sampled_from([0.25, 0.5, 1, 1.0, 2.0, 8, 32.0])
LENGTHS = st.sampled_from([1, 64, 4096, 131072])
RULES = st.fixed_dictionaries(
    {
        "factor": NUMBERS,
        "low_freq_factor": NUMBERS,
        "high_freq_factor": NUMBERS,
        "short_factor": st.lists(NUMBERS, min_size=4, max_size=4),
        "long_factor": st.lists(NUMBERS, min_size=4, max_size=4),
    },
    optional={
        "rope_type": st.sampled_from(sorted({*RULE_TYPES, *RULE_TYPE_ALIASES})),
        "type": st.sampled_from(sorted(RULE_TYPES)),
        "rope_theta": st.sampled_from([1, 2.0, 1e4, 5e5, 1e250]),
        "original_max_position_embeddings": LENGTHS,
        "mrope_section": st.lists(st.integers(0, 2), min_size=3, max_size=4),
        "truncate": st.booleans(),
        **dict.fromkeys(
            ("alpha", "attention_factor", "beta_fast", "beta_slow", "mixed_b"), NUMBERS
        ),
        **dict.fromkeys(("mscale", "mscale_all_dim", "short_mscale", "long_mscale"), NUMBERS),
        **dict.fromkeys(("llama_4_scaling_beta", "partial_rotary_factor"), NUMBERS),
    },
)
RULES_BY_TYPE = st.dictionaries(
    st.sampled_from(["full_attention", "sliding_attention"]), st.none() | RULES, min_size=1
)
PLAUSIBLE_CONFIGS = st.fixed_dictionaries(
    {"head_dim": st.just(8), "qk_rope_head_dim": st.just(8), "global_head_dim": st.just(8)},
    optional={
        "model_type": st.sampled_from(sorted(model_types())),
        "rope_scaling": RULES | RULES_BY_TYPE,
        "rope_parameters": RULES | RULES_BY_TYPE,
        "rope_theta": st.sampled_from([1, 1e4, 5e5]),
        "max_position_embeddings": LENGTHS,
        "original_max_position_embeddings": LENGTHS,
        "num_hidden_layers": st.integers(1, 9),
        "layer_types": st.lists(st.sampled_from(["full_attention", "sliding_attention"])),
        "partial_rotary_factor": st.sampled_from([0.5, 1]),
        "rope_ratio": NUMBERS,
    },
)


def merged(parts: tuple[dict[str, object], dict[str, object]]) -> dict[str, object]:
    return {**parts[0], **parts[1]}


EVERY_CONFIG = PLAUSIBLE_CONFIGS | st.tuples(ANYTHING, CONFIGS | PLAUSIBLE_CONFIGS).map(merged)


def numbers_in(data: object) -> list[object]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return [number for item in data for number in numbers_in(item)]
    return [data]


@given(config=EVERY_CONFIG)
def test_any_object_gives_tables_that_work_or_pointers(
    client: Client, config: dict[str, object]
) -> None:
    answer = client.post("/rope/config", json=config)
    content = answer.json()

    if answer.status_code != 200:
        assert answer.status_code == 422
        assert all("pointer" in error for error in content["errors"])
        return
    for entry in content["rope"].values():
        for urls in [entry, *entry.get("regimes", [])]:
            frequencies = client.get(urls["frequencies"] + "&part=inv_freq")
            two_rows = re.sub("&seq_len=[0-9]+", "", urls["table"]) + "&positions=0,7"
            table = client.get(two_rows.replace(".safetensors", ".json"))
            assert (frequencies.status_code, table.status_code) == (200, 200)
            assert client.head(urls["file"]).status_code == 200
            for answered in (frequencies, table):
                for number in numbers_in(answered.json()["data"]):
                    assert isinstance(number, float | int)
                    assert isfinite(number)


SCHEMA = report_schema(RopeConfigReport)


def report_of(config: dict[str, Any], **query: Any) -> Any:
    document = read_document(json.dumps(config).encode())
    report = report_config(ConfigParameters(**query), document, default_settings())
    return json.loads(report.json_bytes())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_reports_of_published_models_match_the_schema(model: dict[str, Any]) -> None:
    jsonschema.validate(report_of(model["hf_config"]), SCHEMA)
    jsonschema.validate(report_of(model["hf_config"], context_length=200_000), SCHEMA)


@pytest.mark.full
def test_reports_of_every_model_type_match_the_schema() -> None:
    validator, reported = jsonschema.Draft202012Validator(SCHEMA), 0
    for name in model_types():
        with suppress(InvalidBody):
            config = {"model_type": name, "hidden_size": 64, "num_attention_heads": 1}
            validator.validate(report_of(config))
            reported += 1

    # The configs of other types need further keys.
    assert reported > len(model_types()) // 2


def test_the_schema_refuses_wrong_reports() -> None:
    assert isinstance(CONFIG.inputs, JsonObject)
    report = report_of(dict(CONFIG.inputs.example))

    for broken in ({**report, "layout": "halved"}, {**report, "rope": {"default": {}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_codes_of_warnings_are_enumerated_and_explained() -> None:
    code = SCHEMA["properties"]["warnings"]["items"]["properties"]["code"]

    assert code["enum"] == list(CODES)
    explained = (Path(__file__).parents[2] / "docs" / "configs.md").read_text()
    assert all(f"`{each}`" in explained for each in CODES)


def test_rotary_embedding_without_a_table_has_a_warning(client: Client) -> None:
    report = client.post("/rope/config", json={"model_type": "lightglue"}).json()

    assert report["rope"] == {}
    assert [each["code"] for each in report["warnings"]][-1:] == ["no-table"]


def test_origin_of_an_example_says_that_it_is_one(client: Client) -> None:
    answer = client.post("/rope/config", json={"model_type": "pixtral", "hidden_size": 64}).json()

    (settings,) = (each for each in answer["rope"].values() if "grid" in each["origin"])
    assert settings["origin"]["grid"] == "example"
