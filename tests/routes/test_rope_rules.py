"""From keys to rotary rules: which are required, which are refused, which regime holds."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from service.errors import InvalidParameters
from service.routes.rope_rules import SHARED, TAKEN, make_rule, taken_by
from service.tables.limits import MAX_FACTOR, MIN_FACTOR
from service.tables.rope_rules import (
    Default,
    Dynamic,
    DynamicAlpha,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Yarn,
)
from service.tables.rotary_rule import RotaryRule
from tests.client import Client

ORIGINAL, LONGEST = "original_max_position_embeddings", "max_position_embeddings"
FOUR, LONG = (1.0, 1.5, 2.0, 4.0), (8.0, 9.0, 10.0, 11.0)
LISTS = {"short_factor": FOUR, "long_factor": LONG}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}
LONGROPE = {ORIGINAL: 4096, **LISTS}

RULES: dict[str, tuple[str, dict[str, Any], RotaryRule]] = {
    "default": ("default", {}, Default(8, 1e4)),
    "freq_factors": ("default", {"freq_factors": FOUR}, Default(8, 1e4, FOUR)),
    "linear": ("linear", {"factor": 2.0}, Linear(8, 1e4, 2.0)),
    "linear, freq_factors": (
        "linear",
        {"factor": 2.0, "freq_factors": FOUR},
        Linear(8, 1e4, 2.0, FOUR),
    ),
    "dynamic": ("dynamic", {"factor": 2.0, LONGEST: 2048}, Dynamic(8, 1e4, 2.0, 2048, 2048)),
    "dynamic, original": (
        "dynamic",
        {"factor": 2.0, LONGEST: 9000, ORIGINAL: 2048, "context_length": 5000},
        Dynamic(8, 1e4, 2.0, 2048, 5000),
    ),
    "dynamic, alpha": ("dynamic", {"alpha": 1000.0}, DynamicAlpha(8, 1e4, 1000.0)),
    "ntk": ("ntk", {"factor": 8.0}, Ntk(8, 1e4, 8.0)),
    "ntk, mixed": ("ntk", {"factor": 8.0, "mixed_b": 0.625}, Ntk(8, 1e4, 8.0, 0.625)),
    "yarn": (
        "yarn",
        {"factor": 32.0, ORIGINAL: 4096},
        Yarn(8, 1e4, 32.0, 4096, 1.3465735902799727),
    ),
    "yarn, by lengths": (
        "yarn",
        {LONGEST: 131072, ORIGINAL: 4096, "truncate": False},
        Yarn(8, 1e4, 32.0, 4096, 1.3465735902799727, truncate=False),
    ),
    "yarn, mscale": (
        "yarn",
        {"factor": 40.0, ORIGINAL: 4096, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_slow": 2.0},
        Yarn(8, 1e4, 40.0, 4096, 1.0, beta_slow=2.0),
    ),
    "yarn, attention_factor": (
        "yarn",
        {
            "factor": 40.0,
            ORIGINAL: 4096,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "attention_factor": 1.5,
        },
        Yarn(8, 1e4, 40.0, 4096, 1.5),
    ),
    "longrope": (
        "longrope",
        {**LONGROPE, LONGEST: 131072},
        LongRope(8, 1e4, 4096, 4096, 1.1902380714238083, FOUR, LONG),
    ),
    "longrope, factor": (
        "longrope",
        {**LONGROPE, "factor": 32.0, LONGEST: 4096, "context_length": 4097},
        LongRope(8, 1e4, 4096, 4097, 1.1902380714238083, FOUR, LONG),
    ),
    "longrope, attention_factor": (
        "longrope",
        {**LONGROPE, "attention_factor": 1.25},
        LongRope(8, 1e4, 4096, 4096, 1.25, FOUR, LONG),
    ),
    "llama3": ("llama3", LLAMA3, Llama3(8, 1e4, 8.0, 1.0, 4.0, 8192)),
    "proportional": (
        "proportional",
        {"partial_rotary_factor": 0.25},
        Proportional(8, 1e4, 0.25),
    ),
    "proportional, factor": ("proportional", {"factor": 2.0}, Proportional(8, 1e4, 1.0, 2.0)),
}
REQUIRED = {
    "linear": {"factor"},
    "dynamic": {"factor", LONGEST},
    "dynamic, alpha": {"alpha"},
    "ntk": {"factor"},
    "yarn": {"factor", ORIGINAL},
    "longrope, attention_factor": {ORIGINAL, *LISTS},
    "llama3": set(LLAMA3),
}
EVERY_RULE = pytest.mark.parametrize("name", RULES)


def spelled(rope_type: str, keys: dict[str, Any]) -> str:
    lists = {
        key: ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
        for key, value in keys.items()
    }
    return urlencode({"head_dim": 8, "rope_type": rope_type, **lists}, safe=",")


@EVERY_RULE
def test_keys_make_the_rule_that_they_name(name: str) -> None:
    rope_type, keys, expected = RULES[name]

    assert make_rule(rope_type, 8, 1e4, keys) == expected


@EVERY_RULE
def test_every_rule_is_asked_for_by_url_and_by_json(client: Client, name: str) -> None:
    """The answer is spelled in full, and asks for itself again."""
    rope_type, keys, expected = RULES[name]

    answer = client.get(f"/rope/frequencies?{spelled(rope_type, keys)}")
    posted = client.post("/rope/frequencies", json={"head_dim": 8, "rope_type": rope_type, **keys})

    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert posted.content == answer.content
    assert content["parameters"] == json.loads(json.dumps(expected.parameters()))
    assert content["data"]["inv_freq"] == [float(exact) for exact in expected.exact()]
    assert content["data"]["attention_factor"] == expected.scale
    assert list(content["data"])[3:] == list(expected.beside())
    again = client.post("/rope/frequencies", json=content["parameters"])
    assert again.content == answer.content


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, keys in REQUIRED.items() for key in sorted(keys)]
)
def test_a_key_that_is_missing_is_named(client: Client, name: str, key: str) -> None:
    rope_type, keys, _ = RULES[name]
    others = {other: value for other, value in keys.items() if other != key}
    # Without alpha it is the other kind of dynamic.
    named = "factor" if key == "alpha" else key

    answer = client.get(f"/rope/frequencies?{spelled(rope_type, others)}")

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert (fault["parameter"], fault["value"]) == (named, None)
    assert f"{named} is required with rope_type={rope_type}" in fault["detail"]


SOME_VALUE = {
    **dict.fromkeys(TAKEN, 2.0),
    "context_length": 5000,
    ORIGINAL: 4096,
    LONGEST: 8192,
    "partial_rotary_factor": 1.0,
    "truncate": True,
    "short_factor": FOUR,
    "long_factor": FOUR,
    "freq_factors": FOUR,
}


@EVERY_RULE
def test_keys_that_do_not_go_with_a_rule_are_refused_by_name(client: Client, name: str) -> None:
    rope_type, keys, _ = RULES[name]
    # With alpha, dynamic is of another kind.
    strange = TAKEN - taken_by(rope_type, keys) - {"alpha"} | (
        {"alpha"} if rope_type != "dynamic" else set()
    )
    assert strange

    for key in strange:
        answer = client.get(f"/rope?{spelled(rope_type, {**keys, key: SOME_VALUE[key]})}&seq_len=1")

        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["parameter"] == key
        chooser = "alpha" if "alpha" in keys else f"rope_type={rope_type}"
        assert fault["detail"] == f"{key} does not go with {chooser}"


@EVERY_RULE
def test_every_rule_takes_its_keys_and_those_that_all_take(name: str) -> None:
    rope_type, keys, _ = RULES[name]

    taken = taken_by(rope_type, keys)

    assert SHARED | set(keys) <= taken <= TAKEN


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_the_length_that_holds_is_the_one_asked_for_or_the_original(
    client: Client, rope_type: str
) -> None:
    """It is never taken from seq_len, and the answer says which it is."""
    keys = {"factor": 2.0, ORIGINAL: 4096, **(LISTS if rope_type == "longrope" else {})}
    url = f"/rope?{spelled(rope_type, keys)}"

    plain = client.get(f"{url}&seq_len=3").json()
    longer_table = client.get(f"{url}&positions=0,1,5000").json()
    at_original = client.get(f"{url}&seq_len=3&context_length=4096").json()
    past = client.get(f"{url}&seq_len=3&context_length=4097").json()

    lengths = [
        answer["parameters"]["context_length"]
        for answer in (plain, longer_table, at_original, past)
    ]
    assert lengths == [4096, 4096, 4096, 4097]
    assert plain["data"] == at_original["data"]
    assert longer_table["data"][:2] == plain["data"][:2]
    assert past["data"] != plain["data"]


def test_longrope_takes_its_short_factors_up_to_the_original_length(client: Client) -> None:
    keys = {**LONGROPE, LONGEST: 131072}
    url = f"/rope/frequencies?{spelled('longrope', keys)}&part=rescale_factor"

    lists = [
        client.get(f"{url}&context_length={length}").json()["data"]
        for length in (1, 4096, 4097, 131072)
    ]

    assert lists == [[*FOUR], [*FOUR], [*LONG], [*LONG]]


@pytest.mark.parametrize(
    ("rope_type", "change", "named"),
    [
        ("yarn", {"rope_theta": 1.0}, "rope_theta"),
        ("yarn", {"beta_fast": 1.0, "beta_slow": 2.0}, "beta_fast"),
        ("yarn", {"beta_slow": 33.0}, "beta_fast"),
        ("yarn", {"factor": None, LONGEST: 1, ORIGINAL: 2**62}, LONGEST),
        ("yarn", {"factor": None, LONGEST: 2**62, ORIGINAL: 1}, LONGEST),
        ("longrope", {ORIGINAL: 1}, ORIGINAL),
        ("longrope", {"short_factor": (1.0, 2.0)}, "short_factor"),
        ("longrope", {"long_factor": (*FOUR, 1.0)}, "long_factor"),
        ("longrope", {"long_factor": (1.0, 0.0, 1.0, 1.0)}, "long_factor"),
        ("longrope", {"short_factor": (1.0, -1.0, 1.0, 1.0)}, "short_factor"),
        ("longrope", {"short_factor": (1.0, 1e10, 1.0, 1.0)}, "short_factor"),
        ("default", {"freq_factors": (1.0,)}, "freq_factors"),
        ("default", {"freq_factors": (1.0, 1.0, 1e-10, 1.0)}, "freq_factors"),
        ("llama3", {"low_freq_factor": 5.0}, "high_freq_factor"),
        ("dynamic", {"head_dim": 2}, "rope_type"),
        ("linear", {"rope_theta": 1e251}, "rope_theta"),
        ("default", {"rope_theta": 1e251, "freq_factors": FOUR}, "rope_theta"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    client: Client, rope_type: str, change: dict[str, Any], named: str
) -> None:
    plain: dict[str, dict[str, Any]] = {
        "longrope": {**LONGROPE, "factor": 2.0},
        "llama3": LLAMA3,
        "yarn": {"factor": 8.0, ORIGINAL: 4096},
        "dynamic": {"factor": 8.0, LONGEST: 4096},
        "linear": {"factor": 8.0},
        "default": {},
    }
    changed = {**plain[rope_type], **change}
    keys = {key: value for key, value in changed.items() if value is not None}

    answer = client.get(f"/rope/frequencies?{spelled(rope_type, keys)}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [named]


def test_a_base_past_the_scaled_ones_is_right_for_default_alone() -> None:
    assert make_rule("default", 8, 1e300, {}) == Default(8, 1e300)
    with pytest.raises(InvalidParameters):
        make_rule("proportional", 8, 1e300, {})


def test_equal_ends_are_possible(client: Client) -> None:
    """Of llama3 and of the range of yarn; warnings of them are another matter."""
    llama3 = spelled("llama3", {**LLAMA3, "high_freq_factor": 1.0})
    yarn = spelled("yarn", {"factor": 8.0, ORIGINAL: 4096, "beta_fast": 1.0, "truncate": False})

    smooth = client.get(f"/rope/frequencies?{llama3}&part=smooth_factor").json()["data"]
    ramp = client.get(f"/rope/frequencies?{yarn}&part=ramp").json()["data"]

    assert smooth == [1.0, 1.0, 1.0, 1.0]
    assert ramp == [0.0, 0.0, 0.0, 1.0]


def test_bounds_of_factors_are_those_of_the_lists() -> None:
    for bound in (MIN_FACTOR, MAX_FACTOR):
        keys = {"freq_factors": (bound,) * 4}
        assert make_rule("default", 8, 1e4, keys) == Default(8, 1e4, (bound,) * 4)


@pytest.mark.parametrize("name", RULES)
def test_every_number_on_the_way_may_be_asked_for_alone(client: Client, name: str) -> None:
    rope_type, keys, _ = RULES[name]
    url = f"/rope/frequencies?{spelled(rope_type, keys)}"

    every = client.get(url).json()["data"]

    assert set(every) >= {"inv_freq", "wavelength", "attention_factor"}
    for part, values in every.items():
        alone = client.get(f"{url}&part={part}").json()
        assert alone["data"] == values, part
