"""DETR's sinusoids of images with padding."""

from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from service.tables import masked_grid as module
from service.tables.dtypes import FLOAT64, REAL_DTYPES
from service.tables.masked_grid import DetrRule, MaskedGridTable, quotients
from service.tables.table import size
from tests.exact import UNIT, frequency

PADDED = np.zeros((2, 4, 5), dtype=np.int64)
PADDED[0, :3, :2] = 1
PADDED[1] = [[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]

PLAIN = DetrRule(12, 10000.0, normalize=False, scale=None)
NORMALIZED = DetrRule(12, 20.0, normalize=True, scale=None)
SCALED = DetrRule(12, 20.0, normalize=True, scale=1.5)
EVERY_RULE = pytest.mark.parametrize("rule", [PLAIN, NORMALIZED, SCALED])


def read(table: MaskedGridTable) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def exact(rule: DetrRule, line: list[int], at: int, channel: int) -> Any:
    place = mpf(sum(line[: at + 1]))
    if rule.normalize:
        scale = 2 * mpmath.pi if rule.scale is None else mpf(rule.scale)
        place = place / (sum(line) + mpf("1e-6")) * scale
    angle = place * frequency(rule.base, 6, channel // 2)
    return mpmath.cos(angle) if channel % 2 else mpmath.sin(angle)


@EVERY_RULE
def test_positions_count_the_valid_pixels_of_columns_and_rows(rule: DetrRule) -> None:
    found = read(MaskedGridTable(rule, PADDED, FLOAT64))

    for image, channel, y, x in np.ndindex(*found.shape):
        down, across = PADDED[image, :, x].tolist(), PADDED[image, y].tolist()
        truth = (
            exact(rule, down, y, channel) if channel < 6 else exact(rule, across, x, channel - 6)
        )
        assert abs(found[image, channel, y, x] - truth) <= UNIT


@EVERY_RULE
def test_a_line_of_padding_stays_at_0(rule: DetrRule) -> None:
    nothing = read(MaskedGridTable(rule, np.zeros((1, 2, 3), dtype=np.int64), FLOAT64))

    assert (nothing[:, 0::2] == 0).all()
    assert (nothing[:, 1::2] == 1).all()


@EVERY_RULE
@pytest.mark.parametrize("step_elements", [3, 40, 90, 2**17])
def test_neither_ranges_nor_steps_show(
    monkeypatch: pytest.MonkeyPatch, rule: DetrRule, step_elements: int
) -> None:
    table = MaskedGridTable(rule, PADDED, REAL_DTYPES["float16"])
    whole = read(table).reshape(-1)

    monkeypatch.setattr(module, "STEP_ELEMENTS", step_elements)

    for start, stop in [*pairwise(range(0, len(whole), 7)), (0, len(whole)), (19, 401)]:
        assert (table.read(start, stop) == whole[start:stop]).all()


def test_a_mask_of_noise_is_evaluated_pixel_by_pixel() -> None:
    noise = np.random.default_rng(7).integers(0, 2, (1, 30, 40))
    rule = DetrRule(4, 10000.0, normalize=True, scale=None)

    found = read(MaskedGridTable(rule, noise, FLOAT64))

    for y, x in [(0, 0), (29, 39), (17, 4)]:
        place = mpf(int(noise[0, : y + 1, x].sum())) / (int(noise[0, :, x].sum()) + mpf("1e-6"))
        assert abs(found[0, 0, y, x] - mpmath.sin(2 * mpmath.pi * place)) <= UNIT


def test_quotients_are_those_of_every_count_that_lines_end_with() -> None:
    # Columns end with 3 or 0, rows with 2 or 0; then columns with 2 or 3, rows with 3, 0 or 5.
    assert quotients(NORMALIZED, PADDED) == 3 * (2 + 2 + 2 + 3)
    assert quotients(PLAIN, PADDED) == 3
