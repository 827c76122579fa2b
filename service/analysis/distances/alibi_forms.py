"""ALiBi's forms: slope by slope, what is multiplied, and where queries and keys are then."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.distances.query_keys import query_key_parameters
from service.tables.angle import Float64s, Int64s
from service.tables.document import ParameterValue

_HELD_ROWS = 8
# With a row gone wrong it is no table of these, but the nearest; of few rows, one is too many.
_MOST_WRONG, _FEWEST_ROWS = 1, 4
# A share is that of four roundings, and a multiple has one or two: so this is far from a half.
_SURE = 1.0


@dataclass(frozen=True, eq=False)
class Multiples:
    """What a slope is multiplied by, for queries (down) and keys (across).

    Attributes:
        numbers: (Q, K), near integers.
        hidden: (Q, K), whether there is -∞ instead.
        share: by how much of its size a number is off.
    """

    numbers: Float64s
    hidden: NDArray[np.bool_]
    share: float

    def are(self, expected: Int64s) -> bool:
        """Tell whether numbers are these integers where nothing is hidden."""
        return self.wrong_rows(expected) == 0

    def wrong_rows(self, expected: Int64s) -> int:
        """Count the rows that are not these integers where nothing is hidden."""
        error = self.share * np.abs(expected) + self.share
        is_right = self.hidden | (np.abs(self.numbers - expected) <= error)
        return int((~is_right.all(axis=1)).sum())

    def some_rows(self) -> tuple[Int64s, "Multiples"]:
        """Choose a few rows, the first and the last among them."""
        rows = np.unique(np.linspace(0, len(self.numbers) - 1, _HELD_ROWS, dtype=np.int64))
        return rows, Multiples(self.numbers[rows], self.hidden[rows], self.share)


@dataclass(frozen=True, eq=False)
class Form:
    """A form of biases, and which queries and keys give them.

    Attributes:
        parameters: as of the resource, the slopes apart.
        support: what the numbers are.
    """

    parameters: dict[str, ParameterValue]
    support: str


def forms(of: Multiples) -> Iterator[Form]:
    """Give the forms that numbers may be of, the plainest first."""
    if len(of.numbers) == 1 and not of.hidden.any():
        yield from _forms_of_keys(of)
    for form, sign in (("linear", 1), ("symmetric", -1)):
        places = _in_line(of, sign, 0) or _listed(of, sign) or _in_line(of, sign, _MOST_WRONG)
        if places is not None:
            parameters: dict[str, ParameterValue] = {} if sign == 1 else {"form": form}
            if of.hidden.any():
                parameters["masked"] = True
            said = "slope·(key - query)" if sign == 1 else "-slope·|key - query|"
            yield Form({**parameters, **query_key_parameters(*places)}, said)


def _forms_of_keys(of: Multiples) -> Iterator[Form]:
    numbers = np.round(of.numbers[0]).astype(np.int64)
    if not of.are(numbers[np.newaxis]):
        return
    keys = {
        name: value
        for name, value in query_key_parameters(np.zeros(1, dtype=np.int64), numbers).items()
        if name.startswith("key")
    }
    keys.setdefault("key_len", 1)
    if numbers[-1] == 0:
        own = query_key_parameters(numbers, numbers)
        keys = {name.replace("query", "key"): value for name, value in own.items()}
        yield Form({"form": "last-key", **keys}, "slope·(key - last key)")
    elif numbers.min() >= 0:
        if "key_positions" in keys:
            del keys["key_len"]
        yield Form({"form": "key", **keys}, "slope·key, the same for every query")


def _in_line(of: Multiples, sign: int, most_wrong: int) -> tuple[Int64s, Int64s] | None:
    """Find queries and keys that follow one another, but for so many wrong ones of a few rows.

    The sign is 1 for linear, -1 for symmetric.
    """
    rows, some = of.some_rows()
    queries, keys = of.numbers.shape
    if most_wrong and queries < _FEWEST_ROWS:
        return None
    for nearest in dict.fromkeys(_nearest(of, sign)):
        distances = nearest + np.arange(keys) - rows[:, np.newaxis]
        expected = distances if sign == 1 else -np.abs(distances)
        is_masked = not of.hidden.any() or bool((some.hidden == (distances > 0)).all())
        if some.wrong_rows(expected) <= most_wrong and is_masked:
            return np.arange(queries), np.arange(nearest, nearest + keys)
    return None


def _nearest(of: Multiples, sign: int) -> Iterator[int]:
    """Give how far the first key may be after the first query, by the smallest numbers of rows."""
    sizes = np.where(of.hidden, np.inf, np.abs(of.numbers))
    smallest = int(sizes.min(axis=1).argmin())
    for row in (smallest, 0, len(sizes) - 1):
        column = int(sizes[row].argmin())
        number = round(float(of.numbers[row, column]))
        yield number - column + row
        if sign == -1:
            yield -number - column + row


def _listed(of: Multiples, sign: int) -> tuple[Int64s, Int64s] | None:
    """Find queries and keys anywhere, rising, where every number is known to the integer."""
    numbers = np.round(of.numbers)
    if of.hidden.any() or (np.abs(numbers) * of.share > _SURE).any():
        return None
    whole = numbers.astype(np.int64)
    if not of.are(whole):
        return None
    for first in _signed(whole[0], sign):
        keys = first - first[0]
        queries = _queries(whole, keys, sign)
        if queries is not None:
            return queries, keys
    return None


def _signed(row: Int64s, sign: int) -> Iterator[Int64s]:
    """Give the distances of a row of keys that rise; the nearest may be on either side."""
    if sign == 1:
        yield row
        return
    if row.max() > 0:
        return
    nearest = int(row.argmax())
    for ahead in (nearest, nearest + 1):
        distances = np.concatenate([row[:ahead], -row[ahead:]])
        if (np.diff(distances) > 0).all():
            yield distances


def _queries(numbers: Int64s, keys: Int64s, sign: int) -> Int64s | None:
    """Find each query from its row, given where keys are after the first."""
    found = []
    for row in numbers:
        fitting = [
            distances[0]
            for distances in _signed(row, sign)
            if np.array_equal(distances - distances[0], keys)
        ]
        if not fitting:
            return None
        found.append(-fitting[0])
    return np.array(found, dtype=np.int64)
