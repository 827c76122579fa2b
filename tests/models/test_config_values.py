"""Keys of configs, their readers, and values with origins, faults and warnings."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.errors import InvalidBody
from service.models import config_values as values
from service.models.config_values import (
    MEANINGS,
    OF_EVERY_RULE,
    RULE,
    RULE_TYPE_ALIASES,
    RULE_TYPES,
    ConfigWarning,
    Key,
    KeyPlace,
    ReadingReport,
    did_you_mean,
)
from service.models.documents import read_document
from service.routes.model import ModelParameters, report_model
from service.routes.rope_config import report_config
from service.settings import default_settings


def test_every_key_of_a_rule_is_read() -> None:
    assert frozenset(OF_EVERY_RULE).union(*RULE_TYPES.values()) == set(RULE)


def test_aliases_of_rules_name_rules() -> None:
    assert set(RULE_TYPE_ALIASES.values()) <= set(RULE_TYPES)
    assert not set(RULE_TYPE_ALIASES) & set(RULE_TYPES)


@pytest.mark.parametrize(
    ("read", "sent", "value"),
    [
        (values.count, 4096.0, 4096),
        (values.real, 8, 8.0),
        (values.flag, 1, True),
        (values.sizes, [0, 0.0, 2], (0, 0, 2)),
        (values.flags, [1, 0, True], (True, False, True)),
        (values.bases, [10000, None, 0], (10000.0, 0.0, 0.0)),
        (values.indices, [0, 3], (0, 3)),
        (values.names, [], ()),
        (values.shares, [0.5, 1], (0.5, 1.0)),
        (values.period, "LG", ("sliding_attention", "full_attention")),
        (values.period, ["recurrent"], ("linear_attention",)),
    ],
)
def test_reader_returns_the_value_in_its_type(
    read: Callable[[Any], Any], sent: object, value: object
) -> None:
    assert read(sent) == value


@pytest.mark.parametrize(
    ("read", "sent"),
    [
        (values.count, 0),
        (values.count, True),
        (values.count, 1.5),
        (values.count, 10**400),
        (values.count, float("inf")),
        (values.channels, 65_537),
        (values.layers, 4097),
        (values.real, 10**400),
        (values.real, "8"),
        (values.real, False),
        (values.real, float("inf")),
        (values.share, 0),
        (values.share, 1.5),
        (values.mscale, -1),
        (values.flag, "true"),
        (values.name, 5),
        (values.reals, []),
        (values.reals, [1, "2"]),
        (values.reals, [1.0] * 65_537),
        (values.sizes, [-1]),
        (values.sizes, [None]),
        (values.sizes, [False]),
        (values.sizes, 5),
        (values.indices, [0.5]),
        (values.names, ["a", 1]),
        (values.names, ["a"] * 4097),
        (values.shares, [0.5, 0]),
        (values.period, ""),
        (values.period, "LGX"),
        (values.period, ["recurrent", "mamba"]),
        (values.period, [5]),
        (values.period, []),
    ],
)
def test_invalid_value_raises_an_error_that_states_the_rule(
    read: Callable[[Any], Any], sent: object
) -> None:
    with pytest.raises(ValueError, match=r"must|has item"):
        read(sent)


@pytest.mark.parametrize("read", [values.count, values.real])
def test_error_of_a_quoted_number_mentions_text(read: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="not text"):
        read("4096")


KEYS = {"rope_theta": Key(values.real, ("rotary_emb_base", "rope_base"))}


def key_place(content: dict[str, object], pointer: str = "") -> KeyPlace:
    return KeyPlace(content, pointer, ReadingReport())


@pytest.mark.parametrize(
    ("content", "origin"),
    [
        ({"rope_theta": 1, "base": 2, "rotary_emb_base": 3}, "/a/rope_theta"),
        ({"rope_theta": None, "base": 1, "rotary_emb_base": 3}, "alias /a/base"),
        ({"rope_base": 3, "rotary_emb_base": 1}, "alias /a/rotary_emb_base"),
    ],
)
def test_canonical_name_takes_precedence_then_the_name_of_the_class(
    content: dict[str, object], origin: str
) -> None:
    found = key_place(content, "/a").read_all(KEYS, {"rope_theta": "base"})

    assert (found["rope_theta"].value, str(found["rope_theta"])) == (1.0, origin)


def test_faults_of_several_keys_are_one_problem() -> None:
    place = key_place({"rope_theta": "x", "a/b": 5})
    place.read_all(KEYS)
    place.inner("a/b")
    place.inner("a/b")

    with pytest.raises(InvalidBody) as raised:
        place.report.check()
    assert [(fault.where, fault.detail) for fault in raised.value.faults] == [
        ("/rope_theta", "rope_theta must be a number, not text"),
        ("/a~1b", "a/b must be an object"),
    ]


def test_empty_objects_and_null_members_are_absent() -> None:
    assert key_place({"rope_scaling": {}}).inner("rope_scaling") is None
    assert not key_place({"type": None}).has("type")


def test_only_similar_words_are_suggested() -> None:
    assert did_you_mean("facter", ["factor", "mscale"]) == "; did you mean factor?"
    assert did_you_mean("finetuned", ["factor", "mscale"]) == ""


def test_equal_faults_and_warnings_are_reported_once() -> None:
    report = ReadingReport()
    for _ in range(2):
        for i in range(10_000):
            report.fault(f"/{i}", None, "is required")
            report.warn("unknown-rope-key", "x", f"/{i}")

    assert (len(report.faults), len(report.warnings)) == (10_000, 10_000)


DOCUMENT = (Path(__file__).parents[2] / "docs/configs.md").read_text()
EXAMPLES = re.findall(r"### `([a-z0-9-]+)`\n\n(.+?)\.\n\n```json\n(.+?)\n```", DOCUMENT, re.DOTALL)


def test_every_code_is_documented_with_its_meaning() -> None:
    documented = {code: meaning for code, meaning, _ in EXAMPLES}

    assert [code for code, _, _ in EXAMPLES] == sorted(MEANINGS)
    for code, meaning in MEANINGS.items():
        # A key keeps its spelling at the beginning of a sentence.
        assert documented[code] in {meaning, meaning[0].upper() + meaning[1:]}


@pytest.mark.parametrize(("code", "example"), [(code, text) for code, _, text in EXAMPLES])
def test_every_example_has_its_warning(code: str, example: str) -> None:
    context_length = 16384 if code == "context-length-unused" else None
    parameters = ModelParameters(context_length=context_length)
    # /model says that there is no rotary embedding by the encodings that it lists.
    report = report_config if code == "no-rotary-embedding" else report_model
    warnings = report(parameters, read_document(example.encode()), default_settings()).warnings

    assert code in [warning.code for warning in warnings]
    assert all(warning.detail and warning.pointer.startswith("/") for warning in warnings)


def test_unknown_code_of_a_warning_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not a code"):
        ConfigWarning("no-such-code", "", "/")
