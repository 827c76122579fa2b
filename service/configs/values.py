"""What values of a config must be: every function raises ValueError with the rule broken."""

from math import isfinite
from typing import Any

from service.tables.limits import MAX_CHANNELS, MAX_MSCALE

MAX_COUNT = 2**53
MAX_LAYERS = 4096


def count(value: Any) -> int:
    """Hold a value to an integer from 1 on; 4096.0 is one."""
    if isinstance(value, float) and value.is_integer() and value <= MAX_COUNT:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_COUNT:
        rule = "must be an integer from 1 to 2^53"
        raise ValueError(f"{rule}, not text" if isinstance(value, str) else rule)
    return value


def channels(value: Any) -> int:
    """Hold a value to a number of channels."""
    return _at_most(MAX_CHANNELS, count(value))


def layers(value: Any) -> int:
    """Hold a value to a number of layers."""
    return _at_most(MAX_LAYERS, count(value))


def _at_most(limit: int, value: int) -> int:
    if value > limit:
        raise ValueError(f"must be at most {limit}")
    return value


def real(value: Any) -> float:
    """Hold a value to a number within the range of binary64."""
    if not _is(value, int, float):
        raise ValueError("must be a number" + (", not text" if isinstance(value, str) else ""))
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("must be a number within the range of binary64") from error
    if not isfinite(number):
        raise ValueError("must be a number within the range of binary64")
    return number


def share(value: Any) -> float:
    """Hold a value to a share of the whole."""
    number = real(value)
    if not 0 < number <= 1:
        raise ValueError("must be more than 0 and at most 1")
    return number


def mscale(value: Any) -> float:
    """Hold a value to what an attention factor may be made of."""
    number = real(value)
    if not 0 <= number <= MAX_MSCALE:
        raise ValueError(f"must be from 0 to {MAX_MSCALE:g}")
    return number


def flag(value: Any) -> bool:
    """Hold a value to true or false; a number is true unless it is 0."""
    if not _is(value, bool, int):
        raise ValueError("must be true or false")
    return bool(value)


def name(value: Any) -> str:
    """Hold a value to text."""
    if not _is(value, str):
        raise ValueError("must be text")
    return str(value)


def letters(value: Any) -> str:
    """Hold a value to a pattern of layers: L for a sliding window, G for full attention."""
    pattern = name(value)
    if not pattern or len(pattern) > MAX_LAYERS or set(pattern) - {"L", "G"}:
        raise ValueError("must be an integer, or the letters L and G, one for each layer")
    return pattern


def reals(value: Any) -> tuple[float, ...]:
    """Hold a value to a list of numbers, not empty."""
    items = _items(value, "numbers")
    return tuple(_item(real, index, item) for index, item in enumerate(items))


def sizes(value: Any) -> tuple[int, ...]:
    """Hold a value to a list of integers from 0 on, not empty."""
    items = _items(value, "integers")
    return tuple(item and _item(count, index, item) for index, item in enumerate(items))


def indices(value: Any) -> tuple[int, ...]:
    """Hold a value to a list of numbers of layers, counted from 0; it may be empty."""
    items = _by_layer(value, "integers")
    if not all(type(item) is int for item in items):
        raise ValueError("must be a list of integers")
    return tuple(items)


def bases(value: Any) -> tuple[float, ...]:
    """Hold a value to a list of numbers, one for each layer; null is 0."""
    items = _by_layer(value, "numbers")
    return tuple(_item(real, index, item or 0) for index, item in enumerate(items))


def shares(value: Any) -> tuple[float, ...]:
    """Hold a value to a list of shares of the whole, one for each layer."""
    items = _by_layer(value, "numbers")
    return tuple(_item(share, index, item) for index, item in enumerate(items))


def flags(value: Any) -> tuple[bool, ...]:
    """Hold a value to a list of 0 and 1, one for each layer; it may be empty."""
    items = _by_layer(value, "0 and 1")
    return tuple(_item(flag, index, item) for index, item in enumerate(items))


def names(value: Any) -> tuple[str, ...]:
    """Hold a value to a list of texts, one for each layer; it may be empty."""
    items = _by_layer(value, "texts")
    return tuple(_item(name, index, item) for index, item in enumerate(items))


def _items(value: Any, of: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"must be a list of {of}, not empty")
    if len(value) > MAX_CHANNELS:
        raise ValueError(f"must be a list of at most {MAX_CHANNELS}")
    return value


def _by_layer(value: Any, of: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_LAYERS:
        raise ValueError(f"must be a list of at most {MAX_LAYERS} {of}")
    return value


def _item(read: Any, index: int, item: Any) -> Any:
    try:
        return read(item)
    except ValueError as error:
        raise ValueError(f"has item {index}, which {error}") from error


def _is(value: Any, *kinds: type) -> bool:
    """Tell whether a value is of exactly one of these types, so that true is no number."""
    return type(value) in kinds
