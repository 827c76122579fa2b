import pytest

from service.analysis.plain_integers import plain_integers


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (100, 150, [128, 100, 110]),
        (17, 40, [32, 20, 30]),
        (130, 255, [200, 130, 140]),
        (7, 7, [7]),
        (1000, 5000, [1024, 2048, 4096]),
    ],
)
def test_plain_integers_come_first(low: int, high: int, expected: list[int]) -> None:
    assert list(plain_integers(low, high, 128, 3)) == expected


def test_nothing_is_between_ends_that_have_crossed() -> None:
    assert not list(plain_integers(9, 8, 128, 3))
