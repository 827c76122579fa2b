"""What is said in support of a sinusoidal table."""

from service.analysis.progression import Geometric
from service.analysis.sinusoids.positions import Positioned


def series_support(series: Geometric, count: int, base: float, span: float) -> str:
    """Say what the frequencies are."""
    if count == 1:
        return "there is one frequency, which says nothing of a base"
    return (
        f"{count} frequencies fall as {base:.9g}^(-2k/{span:g}), each to the one before within "
        f"{series.ratio_error:.1e}"
    )


def rows_support(positioned: Positioned, offset: float = 0.0) -> str:
    """Say where rows are."""
    turned = positioned.values + offset
    where = f"angles put the first row at position {turned[0]:.9g}"
    if positioned.step is None:
        where = f"angles put rows at positions from {turned.min():.9g} to {turned.max():.9g}"
    elif positioned.step != 1:
        where += f", each next one {positioned.step:.9g} on"
    return f"{where}, within {positioned.residual:.1e} radians"
