"""Objects that are made when they are first asked for, though their names are known before.

A start imports only what it needs: therefore this module, and no other, imports by name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")


class MadeOnDemand(Mapping[str, Value]):
    """Values by name, each made when it is first asked for.

    Args:
        names: all names, in order.
        make: returns the value of a name.

    Attributes:
        made: the values that have been asked for.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], Value]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self.made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self.made:
            if name not in self._names:
                raise KeyError(name)
            # Another thread may have made it meanwhile.
            self.made.setdefault(name, self._make(name))
        return self.made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def imported(place: str) -> Any:
    """Return an object by its module and its name in it, with a dot between."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)
