"""Names of keys."""

from service.configs.spellings import EVERY_RULE, RULE, RULE_TYPE_ALIASES, RULE_TYPES


def test_every_key_of_a_rule_is_looked_for() -> None:
    assert EVERY_RULE.union(*RULE_TYPES.values()) == set(RULE)


def test_aliases_of_rules_name_rules_and_are_none() -> None:
    assert set(RULE_TYPE_ALIASES.values()) <= set(RULE_TYPES)
    assert not set(RULE_TYPE_ALIASES) & set(RULE_TYPES)
