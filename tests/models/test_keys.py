"""Keys of configs: names, aliases and the readers of values."""

from collections.abc import Callable
from typing import Any

import pytest

from service.models import keys as values
from service.models.keys import OF_EVERY_RULE, RULE, RULE_TYPE_ALIASES, RULE_TYPES


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
        (values.flag, 4, True),
        (values.sizes, [0, 2], (0, 2)),
        (values.flags, [1, 0, True], (True, False, True)),
        (values.bases, [10000, None, 0], (10000.0, 0.0, 0.0)),
        (values.indices, [0, 3], (0, 3)),
        (values.names, [], ()),
        (values.shares, [0.5, 1], (0.5, 1.0)),
        (values.letters, "LLG", "LLG"),
    ],
)
def test_every_alias_of_a_key_is_read(
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
        (values.sizes, 5),
        (values.indices, [0.5]),
        (values.names, ["a", 1]),
        (values.names, ["a"] * 4097),
        (values.shares, [0.5, 0]),
        (values.letters, ""),
        (values.letters, "LGX"),
    ],
)
def test_the_fault_of_a_value_states_the_rule(read: Callable[[Any], Any], sent: object) -> None:
    with pytest.raises(ValueError, match=r"must|has item"):
        read(sent)


def test_the_fault_of_a_quoted_number_says_text() -> None:
    for read in (values.count, values.real):
        with pytest.raises(ValueError, match="not text"):
            read("4096")
