"""The values that a config gives to the parameters of a table, with their origins."""

from typing import Any

import pytest

from service.models.config_values import KeyPlace, ReadingReport, ResolvedValue
from service.models.expressions import Missing, Scope, Unusable

LIBRARY = "library 1.0 type"


def scope(config: dict[str, Any], **defaults: Any) -> Scope:
    names = {"hidden_size": "n_embd"}
    return Scope(KeyPlace(config, "/part", ReadingReport()), LIBRARY, defaults, names)


@pytest.mark.parametrize(
    ("sources", "config", "defaults", "expected"),
    [
        ("/a", {"a": 4}, {"a": 5}, ResolvedValue(4, "config", ("/part/a",))),
        ("/a", {}, {"a": 5}, ResolvedValue(5, "class default", (LIBRARY,))),
        (["/a", 7], {"a": None}, {"a": 5}, ResolvedValue(7, "fixed in code", (LIBRARY,))),
        ("'text'", {}, {}, ResolvedValue("text", "fixed in code", (LIBRARY,))),
        ("/a // /b", {"a": 9, "b": 2}, {}, ResolvedValue(4, "computed", ("/part/a", "/part/b"))),
        ("/a // /b", {"a": 9}, {"b": 2}, ResolvedValue(4, "computed", ("/part/a", LIBRARY))),
        ("2 * (/a - 1) / 4", {"a": 3}, {}, ResolvedValue(1.0, "computed", ("/part/a",))),
        ("/a/1", {"a": [3, 4]}, {}, ResolvedValue(4, "config", ("/part/a/1",))),
        ("/rope/theta", {"rope": {"type": "x"}}, {"rope": {"theta": 5.0}}, None),
        ("sum(/a)", {"a": [3, 4]}, {}, ResolvedValue(7, "computed", ("/part/a",))),
        ("1 if /a == 'x' else 2", {"a": "x"}, {}, ResolvedValue(1, "computed", ("/part/a",))),
        ("/hidden_size", {"n_embd": 8}, {}, ResolvedValue(8, "config", ("/part/n_embd",))),
        (
            "/n_embd",
            {"n_embd": 4, "hidden_size": 8},
            {},
            ResolvedValue(8, "config", ("/part/hidden_size",)),
        ),
        ("/n_embd", {"hidden_size": 8}, {}, ResolvedValue(8, "config", ("/part/hidden_size",))),
    ],
)
def test_value_is_that_of_the_config_then_of_the_class(
    sources: Any, config: dict[str, Any], defaults: dict[str, Any], expected: ResolvedValue | None
) -> None:
    expected = expected or ResolvedValue(5.0, "class default", (LIBRARY,))

    assert scope(config, **defaults).value(sources) == expected


def test_key_of_the_config_precedes_defaults_under_other_names() -> None:
    found = scope({"theta": 5}, rope={"theta": 7}).value(["/rope/theta", "/theta"])

    assert found == ResolvedValue(5, "config", ("/part/theta",))


def test_default_precedes_what_is_computed_of_the_config() -> None:
    found = scope({"width": 64, "heads": 4}, head_dim=32).value(["/head_dim", "/width // /heads"])

    assert found == ResolvedValue(32, "class default", (LIBRARY,))


@pytest.mark.parametrize(("sent", "default", "kind"), [(4.0, 5, int), (4.0, 5.0, float)])
def test_whole_number_is_an_integer_where_that_of_the_class_is(
    sent: float, default: float, kind: type
) -> None:
    assert type(scope({"a": sent}, a=default).value("/a").value) is kind


def test_joined_values_keep_every_origin() -> None:
    found = scope({"a": 9}, b=2).value({"join": ["/a // 2", "/b", 1]})

    assert found.value == (4, 2, 1)
    assert found.sources == ("/part/a", LIBRARY)


def test_value_without_any_source_is_missing() -> None:
    with pytest.raises(Missing):
        scope({"a": {}}).value(["/a", "/b // /c"])


@pytest.mark.parametrize(
    ("source", "config", "pointer"),
    [
        ("/a // /b", {"a": "9", "b": 2}, "/part/a"),
        ("/a // /b", {"a": True, "b": 2}, "/part/a"),
        ("/a // /b", {"a": 9, "b": 0}, "/part/b"),
        ("/a * /a * /a", {"a": 2**53}, "/part/a"),
        ("/a", {"a": 2**60}, "/part/a"),
        ("/a", {"a": float("inf")}, "/part/a"),
        ("/a", {"a": [1] * 5000}, "/part/a"),
        ("/a < 3", {"a": "x"}, "/part/a"),
        ("sum(/a)", {"a": ["x"]}, "/part/a"),
    ],
)
def test_unusable_value_is_refused_with_its_pointer(
    source: str, config: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Unusable) as raised:
        scope(config).value(source)

    assert raised.value.pointer == pointer
    assert raised.value.rule


@pytest.mark.parametrize(
    ("config", "is_there"), [({"a": 0}, True), ({}, True), ({"a": None}, False), ({"b": 1}, True)]
)
def test_condition_asks_whether_there_is_a_value(config: dict[str, Any], is_there: bool) -> None:
    assert scope(config, a=5).holds("has(/a)") == is_there
    assert scope(config, a=5).holds("not has(/a)") != is_there
    assert not scope(config).holds("has(/c)")


def test_list_among_the_defaults_has_no_items_for_a_number() -> None:
    sizes = ["/size/0 // 2", "/size // 2"]

    assert scope({"size": 8}, size=[4, 4]).value(sizes).value == 4
    assert scope({"size": [8, 6]}, size=4).value(sizes).value == 4
    assert scope({}, size=[4, 4]).value(sizes).value == 2


def test_power_is_computed_and_bounded() -> None:
    assert scope({"a": 3}).value("(/a // 1) ** 2 + 1").value == 10
    with pytest.raises(Unusable, match="integer from"):
        scope({"a": 2**40}).value("/a ** 2")
