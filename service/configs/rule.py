"""A frequency rule in the making, and which one it is."""

from dataclasses import dataclass, field
from difflib import get_close_matches

from service.configs.blocks import Block
from service.configs.lookup import Found, Log, did_you_mean
from service.configs.spellings import RULE_TYPE_ALIASES, RULE_TYPES
from service.configs.text import TextModel
from service.errors import shortened

_MAX_COMPARED = 64


@dataclass
class Rule:
    """A frequency rule in the making.

    Attributes:
        model: whose rule it is.
        block: where it is read.
        pairs: of channels that turn.
        log: takes faults and warnings.
        parameters: what fixes its frequencies, by canonical name.
        lengths: where the frequencies depend on the length a model runs at, one of each regime.
        mscales: the attention factors of these, where a config says them outright.
    """

    model: TextModel
    block: Block
    pairs: int
    log: Log
    parameters: dict[str, Found] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    mscales: tuple[Found, ...] = ()

    def put(self, *names: str) -> None:
        """Take what the block has of these."""
        self.parameters |= {name: self.block.values[name] for name in names if name in self}

    def __contains__(self, name: str) -> bool:
        return name in self.block.values

    def need(self, *names: str) -> bool:
        """Take these; each that is missing is a fault."""
        missing = [name for name in names if name not in self]
        rope_type = self.parameters["rope_type"].value
        for name in missing:
            hint = did_you_mean(name, list(self.block.place.content)[:_MAX_COMPARED])
            rule = f"is required for {rope_type}{hint.replace('did you mean', 'is it')}"
            self.log.fault(self.block.place.at(name), None, rule)
        self.put(*names)
        return not missing

    def number(self, name: str, default: float = 0.0) -> float:
        """Give a number of the block."""
        found = self.block.values.get(name)
        return default if found is None else float(found.value)

    def caution(self, code: str, detail: str, name: str) -> None:
        """Warn of something in the block."""
        found = self.block.values.get(name)
        self.log.caution(code, detail, found.pointer if found else self.block.place.at(name))


def rope_type_of(block: Block, log: Log) -> Found:
    """Give the canonical rope_type of a block; a fault if there is no such rule."""
    found = block.values.get("rope_type")
    if found is None:
        return Found("default", "computed: no rope_type is given", block.place.at("rope_type"))
    other = block.place.content.get("type", found.value)
    if other != found.value and found.pointer != block.place.at("type"):
        detail = f"rope_type {shortened(found.value)} holds, and type is {shortened(other)}"
        log.caution("type-and-rope-type-disagree", detail, block.place.at("type"))
    name = RULE_TYPE_ALIASES.get(found.value, found.value)
    if name == "yarn" and "short_factor" in block.values and "factor" not in block.values:
        name = "longrope"
    if name not in RULE_TYPES:
        log.fault(found.pointer, found.value, _unknown_type(found.value))
        return found.computed("default", "unknown")
    return found if name == found.value else Found(name, f"alias {found.pointer}", found.pointer)


def _unknown_type(name: str) -> str:
    near = get_close_matches(name[:64].lower(), [*RULE_TYPES, *RULE_TYPE_ALIASES], n=1)
    if near:
        return f"{shortened(name)} is not known; did you mean {near[0]}?"
    return f"{shortened(name)} is not known; there are {', '.join(RULE_TYPES)}"
