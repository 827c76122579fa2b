"""The plot of growth, as SVG that can be read on light and dark pages."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import TypeAlias

Series: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]
"""The points of each series, by its name."""

_WIDTH, _HEIGHT, _COLUMNS = 420, 250, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 16, 34, 34
_LEGEND = 40
_COLOURS = ("#3d8bfd", "#e8710a", "#2da44e")
_STYLE = """
text { font: 12px sans-serif; fill: #1f2328 }
.title { font-weight: bold }
.grid { stroke: #8c959f; stroke-opacity: 0.35 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
"""


def drawn(panels: Mapping[str, Series], unit: str) -> str:
    """Return a picture with a panel for each axis; all have the same scale of costs.

    Args:
        panels: the series of each panel, by its title.
        unit: that of the costs.
    """
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}
    costs = [cost for series in panels.values() for points in series.values() for _, cost in points]
    low, high = floor(log10(min(costs))), ceil(log10(max(costs)))
    rows = ceil(len(panels) / _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT + _LEGEND
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(unit)}</title><style>{_STYLE}</style>",
        *_legend(colours, unit),
    ]
    for place, (title, series) in enumerate(panels.items()):
        row, column = divmod(place, _COLUMNS)
        lines.append(f'<g transform="translate({column * _WIDTH} {row * _HEIGHT + _LEGEND})">')
        lines += [*_panel(title, series, colours, (low, high)), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _legend(colours: Mapping[str, str], unit: str) -> Iterator[str]:
    yield f'<text class="title" x="{_LEFT}" y="16">{escape(unit)}</text>'
    for place, (name, colour) in enumerate(colours.items()):
        x = _LEFT + place * 230
        yield f'<rect x="{x}" y="25" width="18" height="4" fill="{colour}"/>'
        yield f'<text x="{x + 24}" y="32">{escape(name)}</text>'


def _panel(
    title: str, series: Series, colours: Mapping[str, str], costs: tuple[int, int]
) -> Iterator[str]:
    """Yield the lines of a panel; both of its scales are logarithmic."""
    places = [at for points in series.values() for at, _ in points]
    first, last = log10(min(places)), log10(max(places))
    low, high = costs

    def x(at: float) -> float:
        return _LEFT + (log10(at) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(cost: float) -> float:
        share = (log10(cost) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    yield f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>'
    for power in range(low, high + 1):
        level = y(10.0**power)
        yield f'<path class="grid" d="M{_LEFT} {level:.1f}H{_WIDTH - _RIGHT}"/>'
        yield _text(f"{10.0**power:,g}", _LEFT - 6, level + 4, "end")
    for at in sorted(set(places)):
        yield f'<path class="grid" d="M{x(at):.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>'
        yield _text(_short(at), x(at), _HEIGHT - _BOTTOM + 16, "middle")
    for name, points in series.items():
        line = " ".join(f"{x(at):.1f},{y(cost):.1f}" for at, cost in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colours[name]}" stroke-width="2"/>'
        for at, cost in points:
            yield f'<circle cx="{x(at):.1f}" cy="{y(cost):.1f}" r="3" fill="{colours[name]}"/>'


def _text(text: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _short(number: float) -> str:
    return f"{number / 1024:g}k" if number >= 1024 else f"{number:g}"
