"""Tables of grids with the channels before the tokens."""

import pytest

from service.tables import channels_first as module
from service.tables.channels_first import ChannelsFirstTable
from tests.tables.test_sincos_grid import WIDTH, of_both, read

ROWS = 22


def turned(dtype: str = "float32") -> ChannelsFirstTable:
    return ChannelsFirstTable(of_both(dtype), ROWS, (WIDTH, ROWS))


def test_it_is_the_other_table_turned_to_the_last_bit() -> None:
    for dtype in ("float64", "bfloat16"):
        assert (read(turned(dtype)) == read(of_both(dtype)).T).all()


@pytest.mark.parametrize("step_elements", [5, ROWS, 3 * ROWS, 2**17])
def test_neither_ranges_nor_steps_show(monkeypatch: pytest.MonkeyPatch, step_elements: int) -> None:
    whole = read(turned()).reshape(-1)

    monkeypatch.setattr(module, "STEP_ELEMENTS", step_elements)

    for start, stop in [(0, 1), (3, 4), (21, 23), (40, 111), (0, WIDTH * ROWS), (307, 308)]:
        assert (turned().read(start, stop) == whole[start:stop]).all()


def test_it_takes_what_the_other_takes() -> None:
    assert turned().work_per_element == of_both().work_per_element
    assert turned("bfloat16").dtype == of_both("bfloat16").dtype
