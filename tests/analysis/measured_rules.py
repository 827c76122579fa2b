"""Frequencies and rows of tables as families measure them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from service.analysis.array import Sample
from service.analysis.families.series_rules import MeasuredFrequencies, RuleMatch
from service.analysis.families.sinusoid_rows import LayoutView, layout_views
from service.numerics.tables import size
from service.routes.table_urls import read_url


def measured(url: str, share: float = 1e-7, scale: float | None = 1.0) -> MeasuredFrequencies:
    """Return the frequencies of a URL as they would be measured, each a little off."""
    table = read_url(url).document.arrays["inv_freq"]
    omega = table.read(0, size(table))
    off = share * omega * np.where(np.arange(len(omega)) % 2, 0.5, -0.5)
    return MeasuredFrequencies(omega + off, np.maximum(share * omega, 1e-12), scale, 1e-7)


def named(matches: Iterable[RuleMatch]) -> list[dict[str, Any]]:
    return [match.parameters for match in matches]


def view_of(sample: Sample, layout: str = "concatenated") -> LayoutView:
    """Read rows in a layout, sines first."""
    return next(
        view for view in layout_views(sample) if view.layout == layout and not view.is_flipped
    )
