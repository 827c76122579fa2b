"""The figures of a run and their limits."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.load.run import BESIDE, Outcome

FIRST_MINUTE_SECONDS = 60
MOST_GROWTH = 0.10
MOST_P99_RATIO = 10.0

# Seconds around a moment over which its memory is averaged.
_AROUND_SECONDS = 5


@dataclass(frozen=True)
class Times:
    """Latency of a number of answers, in milliseconds."""

    answers: int
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        if not len(seconds):
            return cls(0, 0.0, 0.0, 0.0)
        p50, p99, most = (1e3 * float(each) for each in np.percentile(seconds, [50, 99, 100]))
        return cls(len(seconds), p50, p99, most)


@dataclass(frozen=True)
class Warm:
    """Latency of a warm answer before, during and after the load."""

    before: Times
    during: Times
    after: Times

    @property
    def ratio(self) -> float:
        """p99 under load ÷ p99 before."""
        return self.during.p99 / self.before.p99


@dataclass(frozen=True)
class Memory:
    """Resident bytes before, after about a minute, and at the end."""

    idle: float
    first_minute: float
    end: float
    most: float

    @property
    def growth(self) -> float:
        """Growth from the first minute to the end, as a share of the former."""
        return self.end / self.first_minute - 1


def warm_times(outcome: Outcome) -> dict[str, Warm]:
    """Summarize the prober's measurements by answer."""
    targets = dict.fromkeys(probe.target for probe in outcome.before.probes)
    phases = (outcome.before, outcome.during, outcome.after)
    return {
        target: Warm(*(Times.of(phase.seconds(target)) for phase in phases)) for target in targets
    }


def memory(outcome: Outcome) -> Memory:
    """Summarize memory; the first half of a short run counts as its first minute."""
    watch, start, stop = outcome.watch, outcome.start, outcome.stop
    first = start + min(FIRST_MINUTE_SECONDS, outcome.plan.seconds / 2)
    return Memory(
        idle=watch.usages[0].resident_bytes,
        first_minute=watch.resident_bytes(first - _AROUND_SECONDS, first + _AROUND_SECONDS),
        end=watch.resident_bytes(stop - 2 * _AROUND_SECONDS, stop),
        most=max(each.resident_bytes for each in watch.usages),
    )


def failures(outcome: Outcome) -> list[str]:
    """List figures beyond their limits; latency and memory only for clients with pauses."""
    found = list(outcome.trouble)
    if not outcome.tally.answers:
        found.append("nothing was answered")
    return found + list(_excesses(outcome)) if outcome.plan.think_seconds else found


def _excesses(outcome: Outcome) -> Iterator[str]:
    growth = memory(outcome).growth
    if growth > MOST_GROWTH:
        yield f"memory at the end has grown by {growth:.0%} since the first minute"
    for target, times in warm_times(outcome).items():
        if not target.startswith(BESIDE) and times.ratio > MOST_P99_RATIO:
            yield f"p99 of warm {target} is {times.ratio:.1f} times that without load"


def document(outcome: Outcome) -> dict[str, object]:
    """Return all figures of a run for a JSON file."""
    tally, watch = outcome.tally, outcome.watch
    return {
        "plan": asdict(outcome.plan),
        "answers": {f"{kind} {status}": n for (kind, status), n in sorted(tally.statuses.items())},
        "answers_per_second": tally.answers / outcome.plan.seconds,
        "body_bytes": tally.body_bytes,
        "compared": tally.compared,
        "milliseconds": {kind: asdict(Times.of(each)) for kind, each in tally.seconds.items()},
        "warm_milliseconds": {
            target: {**asdict(times), "ratio": times.ratio}
            for target, times in warm_times(outcome).items()
        },
        "memory_bytes": {**asdict(memory(outcome)), "growth": memory(outcome).growth},
        "resident_bytes": [[each.at - outcome.start, each.resident_bytes] for each in watch.usages],
        "metrics": [[at - outcome.start, metrics] for at, metrics in watch.metrics],
        "cores": {
            "server": watch.cores(outcome.start, outcome.stop),
            "clients": tally.cpu_seconds / outcome.plan.seconds,
        },
        "cache_filled_after_seconds": watch.filled_after(outcome.start),
        "failures": failures(outcome),
    }


def p99_over_time(outcome: Outcome, target: str, window_seconds: int) -> list[tuple[float, float]]:
    """Return (middle, p99) of each window of time, both in seconds."""
    windows: dict[int, list[float]] = {}
    for phase in (outcome.before, outcome.during, outcome.after):
        for probe in phase.probes:
            if probe.target == target:
                number = int((probe.at - outcome.start) // window_seconds)
                windows.setdefault(number, []).append(probe.seconds)
    return [
        ((number + 0.5) * window_seconds, float(np.percentile(seconds, 99)))
        for number, seconds in sorted(windows.items())
    ]
