"""Sections of the frequencies for several position axes (M-RoPE)."""

from service.configs.lookup import Found
from service.configs.rule import Rule


def put_sections(rule: Rule) -> None:
    """Take mrope_section and mrope_interleaved, where a config or a class has them.

    Sections for other than three axes, or in an order of their own, are a warning, and left out:
    the table's URL then is that of text, where all axes have the same position.
    """
    section, kind = rule.block.values.get("mrope_section"), rule.model.type.mrope
    if section is None and kind is not None and kind.section is not None:
        section = Found(kind.section, rule.model.type.origin, rule.block.place.at("mrope_section"))
        if sum(kind.section) != rule.pairs:
            return
        detail = (
            f"mrope_section is not in the config: {kind.section} is the {rule.model.type.origin}"
        )
        rule.log.caution("class-default-used", detail, section.pointer)
    if section is None:
        return
    if len(section.value) != 3 or (kind is not None and kind.arrangement is not None):
        detail = f"sections {', '.join(map(str, section.value))} are not of axes t, h and w in turn"
        rule.caution("mrope-axes", detail, "mrope_section")
        return
    rule.parameters["mrope_section"] = section
    rule.parameters["mrope_interleaved"] = rule.block.values.get("mrope_interleaved") or Found(
        kind.interleaved if kind else False,
        rule.model.type.origin if kind else "computed: chunked unless given",
        rule.block.place.at("mrope_interleaved"),
    )
