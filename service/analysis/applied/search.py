"""The search for the shortest list of mistakes, on a few rows first."""

from collections.abc import Iterator

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.lengths import length_mistakes
from service.analysis.applied.measured import Gauge
from service.analysis.applied.mistakes import (
    angle_mistakes,
    channel_mistakes,
    size_mistakes,
)
from service.analysis.applied.positions import narrow_mistakes, position_mistakes
from service.analysis.applied.spin import Indices
from service.analysis.applied.widths import width_mistakes

# Mistakes are made in this order, each aspect once: what comes later is measured on what came
# before, and what measures sizes, frequencies and angles does not mind those after it.
_ORDER = (
    "layout",
    "form",
    "order",
    "tiling",
    "rest",
    "offset",
    "width",
    "direction",
    "times",
    "exchange",
    "size",
    "tables",
    "rows",
    "positions",
    "factor",
    "base",
    "linear",
    "frequencies",
    "narrow-frequencies",
    "shift",
    "length",
)
_HEADS = 4
_EARLY_ROWS = 32
_SPREAD_ROWS = 32
_FEW_ROWS = 6
# What explains less than half of the elements says nothing.
_NEAR = 0.5


class _Search:
    """Looks for what explains an array, and remembers what comes nearest."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        rows = evidence.target.rows
        spread = np.linspace(0, rows - 1, min(rows, _SPREAD_ROWS)).astype(np.intp)
        self._rows = np.union1d(np.arange(min(rows, _EARLY_ROWS)), spread)
        self._heads = slice(0, _HEADS)
        self._few = _few(self._rows, rows)
        self.gauge = Gauge(evidence, self._heads, self._rows)
        self.nearest: tuple[float, Application] | None = None

    def explains(self, application: Application) -> bool:
        """Tell whether an application explains every element; few are looked at first."""
        evidence = self.evidence
        if self._share(application, slice(0, 1), self._few) < 1:
            return False
        if self._share(application, self._heads, self._rows) < 1:
            return False
        return all(
            (evidence.share_within(application, slice(None), rows) == 1).all()
            for rows in evidence.chunks()
        )

    def _share(self, application: Application, heads: slice, rows: Indices) -> float:
        share = float(self.evidence.share_within(application, heads, rows).mean())
        if self.nearest is None or share > self.nearest[0]:
            self.nearest = share, application
        return share

    def starts_well(self, application: Application) -> bool:
        """Tell whether the first rows are explained, where there are some."""
        rows = self._rows[1:3]
        return bool((self.evidence.share_within(application, slice(0, 1), rows) == 1).all())

    def mistakes(self, application: Application) -> Iterator[Application]:
        """Make each mistake more that comes after those that were made."""
        last = max(map(_ORDER.index, application.aspects), default=-1)
        for made in self._every(application):
            if _ORDER.index(made.aspects[-1]) > last:
                yield made

    def unnamed(self, application: Application) -> Iterator[Application]:
        """Take the frequencies that were measured as they are."""
        last = max(map(_ORDER.index, application.aspects), default=-1)
        for made in self.gauge.others(application):
            if _ORDER.index(made.aspects[-1]) > last:
                yield made

    def everything(self, starts: list[Application], most: int) -> Iterator[Application]:
        """Make every list of mistakes, the shortest first; those with frequencies unnamed last.

        What has a name comes first: frequencies without one can be made to fit much.
        """
        levels = [starts]
        yield from starts
        for depth in range(most):
            level: list[Application] = []
            for application in levels[-1]:
                for made in self.mistakes(application):
                    yield made
                    if depth < most - 1:
                        level.append(made)
            levels.append(level)
        for level in levels[:most]:
            for application in level:
                yield from self.unnamed(application)
        if most > 1:
            for application in starts:
                for made in self.unnamed(application):
                    yield from self.mistakes(made)

    def _every(self, application: Application) -> Iterator[Application]:
        target = self.evidence.target
        size = target.size
        factor = float(size[0, 0]) if np.ptp(size) <= 1e-12 * size.max() else None
        factor = 1.0 if factor is not None and abs(factor - 1) < 1e-12 else factor
        yield from channel_mistakes(application)
        yield from angle_mistakes(application)
        yield from size_mistakes(application, factor)
        yield from position_mistakes(application, target)
        yield from width_mistakes(application, self.evidence)
        yield from narrow_mistakes(application, target)
        yield from self.gauge.mistakes(application)
        if "length" not in application.aspects and self.starts_well(application):
            yield from length_mistakes(application, self.evidence)


def search(evidence: Evidence, starts: list[Application], most: int) -> Application:
    """Find the application with the fewest mistakes that explains everything, or the nearest.

    Args:
        evidence: what there is to explain.
        starts: applications that are right.
        most: how many mistakes may be made beside theirs.
    """
    looking = _Search(evidence)
    for application in looking.everything(starts, most):
        if looking.explains(application):
            return application
    share, nearest = looking.nearest or (0.0, starts[0])
    return nearest if share >= _NEAR else starts[0]


def _few(sampled: Indices, rows: int) -> Indices:
    """Choose rows that tell most mistakes apart: the first, some in between, the last."""
    chosen = np.linspace(0, len(sampled) - 1, min(len(sampled), _FEW_ROWS)).astype(np.intp)
    return np.unique(np.concatenate([sampled[chosen], np.arange(min(rows, 3))]))
