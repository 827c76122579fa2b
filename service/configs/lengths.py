"""The lengths that a frequency rule goes by, and the factor between them."""

from service.configs.lookup import Found
from service.configs.rule import Rule


def longest_of(rule: Rule) -> Found | None:
    """Give max_position_embeddings; None, and a fault, if nothing says it."""
    found = rule.model.value("max_position_embeddings", rule.log)
    if found is None:
        rope_type = rule.parameters["rope_type"].value
        pointer = rule.model.place.at("max_position_embeddings")
        rule.log.fault(pointer, None, f"is required for {rope_type}")
    return found


def original_length_of(rule: Rule) -> Found | None:
    """Give the length a model was trained at first; None, and a fault, if nothing says it.

    As in transformers 5.23.0, that at the top wins over that of a flat block, and without any it is
    max_position_embeddings. What the config says wins over class defaults.
    """
    inside = rule.block.values.get("original_max_position_embeddings")
    top = rule.model.given("original_max_position_embeddings")
    said = [inside, top] if rule.block.is_nested else [top, inside]
    given = [found for found in said if found is not None]
    if len(given) == 2 and given[0].value != given[1].value:
        _caution_of_two(rule, given[0], given[1])
    if given:
        return given[0]
    other = rule.model.given("initial_context_length")
    if other is not None:
        return Found(other.value, f"alias {other.pointer}", other.pointer)
    return rule.model.default("original_max_position_embeddings", rule.log) or _assumed(rule)


def _caution_of_two(rule: Rule, held: Found, other: Found) -> None:
    detail = f"{held.pointer} is {held.value} and holds; {other.pointer} is {other.value}"
    rule.log.caution("original-length-in-two-places", detail, other.pointer)


def _assumed(rule: Rule) -> Found | None:
    longest = longest_of(rule)
    if longest is None:
        return None
    pointer = rule.block.place.at("original_max_position_embeddings")
    detail = (
        "original_max_position_embeddings is not in the config: "
        f"max_position_embeddings, {longest.value}, was taken"
    )
    rule.log.caution("original-length-assumed", detail, pointer)
    return Found(longest.value, f"computed: {longest.origin}", pointer)


def put_lengths_and_factor(rule: Rule) -> bool:
    """Take the original length and the factor, which is max_position_embeddings of it unless given.

    False, and a fault, if either is unknown.
    """
    original = original_length_of(rule)
    factor = rule.block.values.get("factor")
    if factor is None:
        factor = _implied(longest_of(rule), original)
    if original is None or factor is None:
        return False
    rule.parameters["original_max_position_embeddings"] = original
    rule.parameters["factor"] = factor
    if "factor" in rule:
        longest = rule.model.value("max_position_embeddings")
        _caution_of_implicit(rule, factor, original, longest)
    return True


def _implied(longest: Found | None, original: Found | None) -> Found | None:
    if longest is None or original is None:
        return None
    formula = f"{longest.origin} / {original.origin}"
    return longest.computed(longest.value / original.value, formula)


def _caution_of_implicit(rule: Rule, factor: Found, original: Found, longest: Found | None) -> None:
    is_assumed = original.origin.startswith("computed")
    if longest is None or is_assumed or longest.value == factor.value * original.value:
        return
    implicit = longest.value / original.value
    detail = (
        f"factor is {factor.value!r} and holds; max_position_embeddings / "
        f"original_max_position_embeddings is {longest.value} / {original.value} = {implicit!r}"
    )
    rule.log.caution("implicit-factor-differs", detail, factor.pointer)
