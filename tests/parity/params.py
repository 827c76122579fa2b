"""The parameters of a library's call, read by name so that none is overlooked."""

from collections.abc import Mapping
from typing import Any

from tests.parity.backend import Query


class NotUnderstoodError(Exception):
    """A case has something that its mapping cannot express as a request."""


class Params:
    """Read parameters by name; those left over at the end are an error."""

    def __init__(self, values: Mapping[str, Any], where: str = "params") -> None:
        self._rest = dict(values)
        self._where = where

    def take(self, name: str, default: Any = None) -> Any:
        """Return a parameter, or the library's default where it is missing or None."""
        value = self._rest.pop(name, None)
        return default if value is None else value

    def require(self, *names: str) -> Any:
        """Return the first of these parameters that is there."""
        values = [value for name in names if (value := self.take(name)) is not None]
        if not values:
            raise NotUnderstoodError(f"{self._where} has no {names[0]}")
        return values[0]

    def only(self, name: str, *accepted: Any) -> None:
        """Check that a parameter is one of these values, the first of which is its default."""
        value = self.take(name, accepted[0])
        if value not in accepted:
            raise NotUnderstoodError(f"{self._where}: {name} = {value!r}")

    def ignore(self, *names: str) -> None:
        """Skip parameters that do not change the answer."""
        for name in names:
            self._rest.pop(name, None)

    def finish(self) -> None:
        """Raise NotUnderstoodError unless every parameter was read."""
        rest = {name: value for name, value in self._rest.items() if value is not None}
        if rest:
            raise NotUnderstoodError(f"{self._where}: {rest}")

    def query(self, ignored: str = "", /, **sources: str | tuple[str, Any]) -> Query:
        """Return all parameters under the names of a query.

        Args:
            ignored: names of parameters that do not change the answer.
            sources: for each name of the query, that of the parameter, with its default where it
                has one (None: the query has no such field either), or two names of which a call
                has one: ``"n_pos|num_positions"``.

        Raises:
            NotUnderstoodError: if a required parameter is missing, or one is left over.
        """
        self.ignore(*ignored.split())
        values = {
            name: self.require(*source.split("|"))
            if isinstance(source, str)
            else self.take(*source)
            for name, source in sources.items()
        }
        self.finish()
        return {name: value for name, value in values.items() if value is not None}
