"""A library's own parameters, read one by one, so that none goes by unnoticed."""

from collections.abc import Mapping
from typing import Any


class NotUnderstoodError(Exception):
    """A mapping met something of a case that it has no request for."""


class Params:
    """Read parameters by name; whatever is left over in the end was not understood."""

    def __init__(self, values: Mapping[str, Any], where: str = "params") -> None:
        self._rest = dict(values)
        self._where = where

    def take(self, name: str, default: Any = None) -> Any:
        """Read a parameter, or what the library takes where there is none."""
        value = self._rest.pop(name, None)
        return default if value is None else value

    def require(self, name: str) -> Any:
        value = self.take(name)
        if value is None:
            raise NotUnderstoodError(f"{self._where} has no {name}")
        return value

    def only(self, name: str, *accepted: Any) -> None:
        """Read a parameter that has to be one of these values, the first where there is none."""
        value = self.take(name, accepted[0])
        if value not in accepted:
            raise NotUnderstoodError(f"{self._where}: {name} = {value!r}")

    def ignore(self, *names: str) -> None:
        """Pass over parameters that change no number of the answer."""
        for name in names:
            self._rest.pop(name, None)

    def finish(self) -> None:
        """Raise NotUnderstoodError unless every parameter was read."""
        rest = {name: value for name, value in self._rest.items() if value is not None}
        if rest:
            raise NotUnderstoodError(f"{self._where}: {rest}")
