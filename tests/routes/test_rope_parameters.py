"""The keys of published configs in URLs: their bounds, and numbers whatever they are."""

import json
from typing import Any, get_args
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.routes.rope_parameters import DEFAULT_ROPE_THETA, RopeType, RuleParameters
from service.routes.rope_rules import TAKEN
from service.tables.angle import MAX_POSITION
from service.tables.dtypes import REAL_DTYPES, all_finite
from tests.client import Client

BOUNDS = {
    "head_dim": (1, 65536),
    "rotary_dim": (2, 65536),
    "rope_theta": (1, 1e300),
    "factor": (1e-9, 1e9),
    "max_position_embeddings": (1, 2**62),
    "original_max_position_embeddings": (1, 2**62),
    "context_length": (1, 2**62),
    "alpha": (1e-9, 1e9),
    "mixed_b": (1e-9, 16),
    "beta_fast": (1e-9, 1e9),
    "beta_slow": (1e-9, 1e9),
    "mscale": (0, 1000),
    "mscale_all_dim": (0, 1000),
    "attention_factor": (1e-9, 10000),
    "low_freq_factor": (1e-9, 1e9),
    "high_freq_factor": (1e-9, 1e9),
    "partial_rotary_factor": (None, 1),
}


def errors(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["parameter"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_past_their_bounds_are_refused(client: Client, name: str) -> None:
    least, most = BOUNDS[name]
    outside = {-1, 0, most * 2, *([] if least is None else [least / 2 if least < 1 else least - 1])}
    for value in outside - {least}:
        others = {"head_dim": 8} if name != "head_dim" else {}
        answer = client.get(f"/rope/frequencies?{urlencode({**others, name: value})}")
        assert errors(answer) == [name], value


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "0x10", "1_0", "", " 1"])
def test_only_numbers_are_numbers(client: Client, value: str) -> None:
    for name in ("factor", "rope_theta", "mscale", "short_factor"):
        answer = client.get("/rope/frequencies?" + urlencode({"head_dim": 8, name: value}))
        assert errors(answer) == [name]


def test_every_bound_that_is_named_is_that_of_a_key() -> None:
    lists = {"short_factor", "long_factor", "freq_factors", "truncate"}

    assert TAKEN - lists == set(BOUNDS) - {"head_dim", "rotary_dim", "rope_theta"}
    assert set(RuleParameters.model_fields) == set(BOUNDS) | lists | {"rope_type", "inv_freq"}


@pytest.mark.parametrize(
    ("query", "rotary_dim"),
    [
        ("head_dim=128", 128),
        ("rotary_dim=16", 16),
        ("head_dim=80&partial_rotary_factor=0.4", 32),
        ("head_dim=80&rope_type=linear&factor=2&partial_rotary_factor=0.25", 20),
        ("head_dim=80&rope_type=proportional&partial_rotary_factor=0.25", 80),
        ("rotary_dim=80&rope_type=proportional&partial_rotary_factor=0.25", 80),
        ("head_dim=80&rope_type=proportional&rotary_dim=80", 80),
        ("inv_freq=1,0.5,0.25", 6),
        ("inv_freq=1,0.5&head_dim=8&partial_rotary_factor=0.5", 4),
    ],
)
def test_as_many_channels_turn_as_the_parameters_say(
    client: Client, query: str, rotary_dim: int
) -> None:
    content = client.get(f"/rope/frequencies?{query}").json()

    assert content["parameters"]["rotary_dim"] == rotary_dim
    assert content["shape"]["inv_freq"] == [rotary_dim // 2]


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"factor": 2}, "factor"),
        ({"freq_factors": "1,2"}, "freq_factors"),
        ({"rope_theta": 10000}, "rope_theta"),
        ({"rope_type": "yarn"}, "rope_type"),
        ({"rotary_dim": 8}, "inv_freq"),
        ({"head_dim": 2}, "inv_freq"),
    ],
)
def test_frequencies_given_outright_leave_nothing_to_say(
    client: Client, beside: dict[str, Any], named: str
) -> None:
    query = urlencode({"inv_freq": "1,0.5", **beside})

    assert errors(client.get(f"/rope/frequencies?{query}")) == [named]


def test_frequencies_given_outright_may_have_an_attention_factor(client: Client) -> None:
    content = client.get("/rope.json?inv_freq=1,0&positions=0&attention_factor=1.25").json()

    assert content["parameters"]["attention_factor"] == 1.25
    assert content["data"] == [[[1.25, 0.0], [1.25, 0.0]]]


def test_max_position_embeddings_is_the_length_where_nothing_else_says_it(client: Client) -> None:
    url = "/rope?head_dim=4&max_position_embeddings=5"

    lengths = [client.get(url + more).json()["shape"][0] for more in ("", "&seq_len=2", "&start=7")]
    listed = client.get(f"{url}&positions=1,2,3").json()

    assert lengths == [5, 2, 5]
    assert listed["parameters"]["positions" if "positions" in listed["parameters"] else "seq_len"]
    assert listed["shape"][0] == 3
    assert errors(client.get("/rope?head_dim=4")) == ["seq_len"]
    assert "max_position_embeddings" not in client.get(url).json()["parameters"]


def test_freq_factors_divide_frequencies_one_by_one(client: Client) -> None:
    url = "/rope/frequencies?head_dim=4&rope_theta=10000"

    plain = client.get(url).json()["data"]["inv_freq"]
    divided = client.get(f"{url}&freq_factors=2,0.5").json()

    assert plain == [1.0, 0.01]
    assert divided["data"]["inv_freq"] == [0.5, 0.02]
    assert divided["parameters"]["freq_factors"] == [2.0, 0.5]


def test_defaults_are_those_of_the_paper(client: Client) -> None:
    spelled_out = f"/rope?head_dim=8&seq_len=2&rope_type=default&rope_theta={DEFAULT_ROPE_THETA:g}"

    plain, named = client.get("/rope?head_dim=8&seq_len=2"), client.get(spelled_out)

    assert plain.headers["ETag"] == named.headers["ETag"]


def test_two_spellings_of_a_number_are_one_table(client: Client) -> None:
    urls = [
        f"/rope?head_dim=8&seq_len=2&rope_type=linear&factor={factor}&rope_theta={theta}"
        for factor, theta in [("8", "1e4"), ("8.0", "10000"), ("0.8e1", "10000.000")]
    ]

    assert len({client.get(url).headers["ETag"] for url in urls}) == 1


# What follows holds at the bounds of every key, and anywhere between.
def within(least: float, most: float) -> st.SearchStrategy[float]:
    low, high = np.log10(least), np.log10(most)
    anywhere = st.floats(low, high).map(lambda exponent: min(max(10.0**exponent, least), most))
    return st.one_of(st.sampled_from([least, most]), anywhere)


LENGTHS = st.one_of(st.sampled_from([1, 2, 2**62]), st.integers(1, 2**62), st.integers(1, 10**6))
FACTORS = within(1e-9, 1e9)
BASES = within(1.0, 1e250)
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "factor": FACTORS,
    "alpha": FACTORS,
    "mixed_b": within(1e-9, 16.0),
    "beta_fast": FACTORS,
    "beta_slow": FACTORS,
    "truncate": st.booleans(),
    "mscale": st.one_of(st.just(0.0), within(1e-9, 1000.0)),
    "mscale_all_dim": st.one_of(st.just(0.0), within(1e-9, 1000.0)),
    "attention_factor": within(1e-9, 10000.0),
    "low_freq_factor": FACTORS,
    "high_freq_factor": FACTORS,
    "partial_rotary_factor": within(1e-9, 1.0),
    "original_max_position_embeddings": LENGTHS,
    "max_position_embeddings": LENGTHS,
    "context_length": LENGTHS,
}
OF_TYPE: dict[str, list[str]] = {
    "default": ["freq_factors"],
    "linear": ["factor", "freq_factors"],
    "dynamic": ["factor", "original_max_position_embeddings", "context_length"],
    "dynamic ": ["alpha"],
    "ntk": ["factor"],
    "ntk ": ["factor", "mixed_b"],
    "yarn": ["factor", "original_max_position_embeddings"],
    "yarn ": ["original_max_position_embeddings", "max_position_embeddings", "truncate"],
    "yarn  ": [
        "factor",
        "original_max_position_embeddings",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "beta_fast",
        "beta_slow",
    ],
    "longrope": [
        "original_max_position_embeddings",
        "max_position_embeddings",
        "context_length",
        "short_factor",
        "long_factor",
    ],
    "longrope ": [
        "original_max_position_embeddings",
        "attention_factor",
        "short_factor",
        "long_factor",
    ],
    "llama3": ["factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"],
    "proportional": ["factor", "partial_rotary_factor"],
}
POSITIONS = st.lists(
    st.one_of(
        st.sampled_from([0, MAX_POSITION, -MAX_POSITION]),
        st.integers(-MAX_POSITION, MAX_POSITION),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(OF_TYPE)))
    pairs = draw(st.integers(1, 5))
    keys: dict[str, Any] = {
        "head_dim": 2 * pairs,
        "rope_type": kind.strip(),
        "rope_theta": draw(BASES),
    }
    for name in OF_TYPE[kind]:
        lists = st.lists(FACTORS, min_size=pairs, max_size=pairs)
        keys[name] = draw(KEYS.get(name, lists))
    if {"beta_fast", "beta_slow"} <= set(keys):
        keys["beta_slow"], keys["beta_fast"] = sorted((keys["beta_slow"], keys["beta_fast"]))
    if "high_freq_factor" in keys:
        ends = sorted((keys["low_freq_factor"], keys["high_freq_factor"]))
        keys["low_freq_factor"], keys["high_freq_factor"] = ends
    return keys


def check_refusal(answer: httpx.Response, keys: dict[str, Any]) -> None:
    """Only what is known to be impossible at the bounds is refused."""
    named = errors(answer)
    possible = {
        "rope_theta": keys["rope_theta"] == 1 and keys["rope_type"] == "yarn",
        "rope_type": keys["head_dim"] == 2 and keys["rope_type"] == "dynamic",
        "original_max_position_embeddings": keys.get("original_max_position_embeddings") == 1,
        "max_position_embeddings": "factor" not in keys,
    }
    assert len(named) == 1
    assert possible[named[0]], answer.text


@settings(max_examples=300)
@given(
    keys=requests(),
    positions=POSITIONS,
    dtype=st.sampled_from(sorted(REAL_DTYPES)),
    angle=st.sampled_from(["exact", "float32"]),
    pack=st.sampled_from(["concat", "pair", "angle"]),
)
def test_no_table_has_a_number_that_is_none(
    client: Client, keys: dict[str, Any], positions: list[int], dtype: str, angle: str, pack: str
) -> None:
    if pack == "angle" and dtype == "float16":
        pack = "concat"
    form = {"positions": positions, "dtype": dtype, "angle": angle, "pack": pack}

    answer = client.post("/rope.bin", json={**keys, **form})

    if answer.status_code != 200:
        check_refusal(answer, keys)
        return
    chosen = REAL_DTYPES[dtype]
    elements = np.frombuffer(answer.content, chosen.storage)
    assert len(elements) == len(positions) * keys["head_dim"] // (2 if pack == "angle" else 1)
    assert all_finite(elements, chosen)


@settings(max_examples=200)
@given(keys=requests())
def test_no_frequency_is_a_number_that_is_none(client: Client, keys: dict[str, Any]) -> None:
    answer = client.post("/rope/frequencies.json", json=keys)

    if answer.status_code != 200:
        check_refusal(answer, keys)
        return

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(answer.content, parse_constant=refuse)
    data = content["data"]
    for frequency, wavelength in zip(data["inv_freq"], data["wavelength"], strict=True):
        assert frequency >= 0
        assert (wavelength is None) == (frequency == 0)
    assert all(
        value is not None
        for name, values in data.items()
        if name != "wavelength"
        for value in (values if isinstance(values, list) else [values])
    )
    again = client.post("/rope/frequencies.json", json=content["parameters"])
    assert again.content == answer.content


def test_every_rope_type_is_tried() -> None:
    assert {kind.strip() for kind in OF_TYPE} == set(get_args(RopeType))


def test_proportional_heads_are_all_rotary(client: Client) -> None:
    url = "/rope/frequencies?rope_type=proportional&partial_rotary_factor=0.5&head_dim=8"

    faults = client.get(f"{url}&rotary_dim=4").json()["errors"]

    assert [(fault["parameter"], fault["value"]) for fault in faults] == [("rotary_dim", "4")]
    assert client.get(f"{url}&rotary_dim=8").json() == client.get(url).json()
