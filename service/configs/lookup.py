"""Values with where they came from, and what is wrong or worth a warning on the way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from service.configs.spellings import Key
from service.configs.warnings import ConfigWarning
from service.errors import Fault, InvalidBody, shortened


@dataclass(frozen=True)
class Found:
    """A value.

    Attributes:
        origin: where it came from: a JSON pointer, "alias" and one, "class default of …" or
            "computed: …".
        pointer: a JSON pointer to where it is in the body, or would be given.
    """

    value: Any
    origin: str
    pointer: str

    def computed(self, value: Any, formula: str) -> "Found":
        """Give a value that was made of this one."""
        return Found(value, f"computed: {formula}", self.pointer)


Values = Mapping[str, Found]


@dataclass(frozen=True)
class Place:
    """An object in the body, and the JSON pointer to it."""

    content: Mapping[str, Any]
    pointer: str = ""

    def at(self, key: str) -> str:
        """Point at a member."""
        return f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}"

    def has(self, *keys: str) -> bool:
        """Tell whether any of these members is there, and not null."""
        return any(self.content.get(key) is not None for key in keys)


@dataclass
class Log:
    """What was noticed while a config was read: each thing once, in the order it was noticed."""

    faults: dict[Fault, None] = field(default_factory=dict)
    warnings: dict[ConfigWarning, None] = field(default_factory=dict)

    def fault(self, pointer: str, value: object, rule: str) -> None:
        """Note something that is wrong; the name of what it is about begins the detail."""
        name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") or "the body"
        sent = None if value is None else shortened(value)
        self.faults[Fault(pointer, sent, f"{shortened(name)} {rule}", in_body=True)] = None

    def caution(self, code: str, detail: str, pointer: str) -> None:
        """Note a warning."""
        self.warnings[ConfigWarning(code, detail, pointer)] = None

    def check(self) -> None:
        """Raise InvalidBody with every fault there is."""
        if self.faults:
            raise InvalidBody.at(*self.faults)


def read_values(
    place: Place, keys: Mapping[str, Key], names: Mapping[str, str], log: Log
) -> dict[str, Found]:
    """Find each key under its canonical name, the class's own, then its aliases; null is nothing.

    Args:
        place: the object to look in.
        keys: what to look for, by canonical name.
        names: the class's own names.
        log: takes a fault for each value that is not what it must be.
    """
    found: dict[str, Found] = {}
    for name, key in keys.items():
        spelling = _spelling(place, (name, names.get(name, name), *key.aliases))
        if spelling is not None:
            value = read_value(place, spelling, key, log)
            if value is not None:
                origin = value.pointer if spelling == name else f"alias {value.pointer}"
                found[name] = Found(value.value, origin, value.pointer)
    return found


def _spelling(place: Place, spellings: Iterable[str]) -> str | None:
    return next((spelling for spelling in spellings if place.has(spelling)), None)


def read_value(place: Place, name: str, key: Key, log: Log) -> Found | None:
    """Read a member that may be absent or null; logs a fault if it is not what it must be."""
    sent = place.content.get(name)
    if sent is None:
        return None
    try:
        return Found(key.read(sent), place.at(name), place.at(name))
    except ValueError as error:
        log.fault(place.at(name), sent, str(error))
        return None


def read_object(place: Place, name: str, log: Log) -> Place | None:
    """Find an object within; None if it is not there, or empty, and a fault if it is no object."""
    sent = place.content.get(name)
    if sent is None:
        return None
    if not isinstance(sent, dict):
        log.fault(place.at(name), sent, "must be an object")
        return None
    return Place(sent, place.at(name)) if sent else None


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Ask whether the nearest word that is known was meant; nothing if none is near."""
    near = get_close_matches(word[:64].lower(), known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""
