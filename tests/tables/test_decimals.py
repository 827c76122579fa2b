"""Short lists of exact numbers."""

from decimal import Decimal

from service.tables.decimals import DecimalTable

TABLE = DecimalTable((3,), lambda: [Decimal("0.1"), Decimal("1e-400"), Decimal("Infinity")])


def test_each_number_is_rounded_once() -> None:
    assert TABLE.shape == (3,)
    assert TABLE.read(0, 3).tolist() == [0.1, 0.0, float("inf")]


def test_any_range_is_read() -> None:
    assert TABLE.read(1, 2).tolist() == [0.0]
