"""A plot of a run: memory and latency of warm answers over time."""

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from PIL import Image

from benchmarks.load.requests import MIB
from benchmarks.load.run import BESIDE, Outcome
from benchmarks.load.summary import (
    FIRST_MINUTE_SECONDS,
    MOST_GROWTH,
    MOST_P99_RATIO,
    memory,
    p99_over_time,
    warm_times,
)
from benchmarks.load.watch import CACHE_BYTES

_INCHES = (10.0, 6.0)
_DOTS_PER_INCH = 90
_COLOURS = 32
_WINDOW_SECONDS = 5
_LEAST_MS = 0.1


def draw(outcome: Outcome, path: Path) -> None:
    """Write the plot as a PNG of few colours, for the documents."""
    figure = Figure(_INCHES, _DOTS_PER_INCH, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    _draw_memory(upper, outcome)
    _draw_p99(lower, outcome)
    for axes in (upper, lower):
        axes.axvspan(0, outcome.plan.seconds, color="0.95", zorder=0)
        axes.grid(color="0.85", linewidth=0.5)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="small")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(_COLOURS).save(path, "PNG", optimize=True)


def _draw_memory(axes: Axes, outcome: Outcome) -> None:
    usages, metrics = outcome.watch.usages, outcome.watch.metrics
    first, start = memory(outcome).first_minute / MIB, outcome.start
    seconds = [each.at - start for each in usages]
    axes.plot(seconds, [each.resident_bytes / MIB for each in usages], label="resident memory")
    cached = [numbers[CACHE_BYTES] / MIB for _, numbers in metrics]
    axes.plot([at - start for at, _ in metrics], cached, "--", label="cache")
    band = (first * (1 - MOST_GROWTH), first * (1 + MOST_GROWTH))
    times = (FIRST_MINUTE_SECONDS, outcome.plan.seconds)
    axes.fill_between(
        times, *band, color="0.8", zorder=1, label=f"first minute ± {MOST_GROWTH:.0%}"
    )
    axes.set(ylabel="MiB", ylim=(0, None), title=_title(outcome))


def _draw_p99(axes: Axes, outcome: Outcome) -> None:
    for target, times in warm_times(outcome).items():
        windows = p99_over_time(outcome, target, _WINDOW_SECONDS)
        is_beside = target.startswith(BESIDE)
        style = ":" if is_beside else "-"
        (line,) = axes.plot(
            *zip(*((at, 1e3 * p99) for at, p99 in windows), strict=True),
            style,
            label=f"p99, {target}",
        )
        if not is_beside:
            limit = MOST_P99_RATIO * times.before.p99
            axes.axhline(limit, color=line.get_color(), linestyle="--", linewidth=0.8)
    axes.set(yscale="log", ylabel="milliseconds", xlabel="seconds", ylim=(_LEAST_MS, None))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _title(outcome: Outcome) -> str:
    plan = outcome.plan
    answers = outcome.tally.answers / plan.seconds
    return f"{plan.connections} connections, {answers:.0f} answers a second, for {plan.seconds} s"
