"""The figures of a run, and whether they are as wanted."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.load.run import BESIDE, Outcome

FIRST_MINUTE_SECONDS = 60
MOST_GROWTH = 0.10
MOST_P99_RATIO = 10.0

# Seconds on either side of a moment whose memory is told.
_AROUND_SECONDS = 5


@dataclass(frozen=True)
class Times:
    """Of so many answers, in milliseconds."""

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
    """Times of one warm answer: before the crowd came, while it asked, and after it left."""

    before: Times
    during: Times
    after: Times

    @property
    def ratio(self) -> float:
        """p99 with all ÷ p99 before."""
        return self.during.p99 / self.before.p99


@dataclass(frozen=True)
class Memory:
    """Resident bytes: before anything, about the end of the first minute, and at the end."""

    idle: float
    first_minute: float
    end: float
    most: float

    @property
    def growth(self) -> float:
        """How much more at the end than after the first minute, as a share of that."""
        return self.end / self.first_minute - 1


def warm_times(outcome: Outcome) -> dict[str, Warm]:
    """Sum up what the prober saw, by what it asked for."""
    targets = dict.fromkeys(probe.target for probe in outcome.before.probes)
    phases = (outcome.before, outcome.during, outcome.after)
    return {
        target: Warm(*(Times.of(phase.seconds(target)) for phase in phases)) for target in targets
    }


def memory(outcome: Outcome) -> Memory:
    """Sum up what the server took; of a short run, its first half is the first minute."""
    watch, start, stop = outcome.watch, outcome.start, outcome.stop
    first = start + min(FIRST_MINUTE_SECONDS, outcome.plan.seconds / 2)
    return Memory(
        idle=watch.seen[0].resident_bytes,
        first_minute=watch.resident_bytes(first - _AROUND_SECONDS, first + _AROUND_SECONDS),
        end=watch.resident_bytes(stop - 2 * _AROUND_SECONDS, stop),
        most=max(each.resident_bytes for each in watch.seen),
    )


def failures(outcome: Outcome) -> list[str]:
    """Name whatever is not as wanted; how long it takes and what, only of clients that pause."""
    found = list(outcome.trouble)
    if not outcome.tally.answers:
        found.append("nothing was answered")
    return found + list(_excesses(outcome)) if outcome.plan.think_seconds else found


def _excesses(outcome: Outcome) -> Iterator[str]:
    growth = memory(outcome).growth
    if abs(growth) > MOST_GROWTH:
        yield f"memory at the end differs by {growth:+.0%} from that of the first minute"
    for target, times in warm_times(outcome).items():
        if not target.startswith(BESIDE) and times.ratio > MOST_P99_RATIO:
            yield f"p99 of warm {target} is {times.ratio:.1f} times that without load"


def document(outcome: Outcome) -> dict[str, object]:
    """Give all figures of a run, for a file of JSON."""
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
        "resident_bytes": [[each.at - outcome.start, each.resident_bytes] for each in watch.seen],
        "stated": [[at - outcome.start, stated] for at, stated in watch.stated],
        "cores": {
            "server": watch.cores(outcome.start, outcome.stop),
            "clients": tally.cpu_seconds / outcome.plan.seconds,
        },
        "cache_filled_after_seconds": watch.filled_after(outcome.start),
        "failures": failures(outcome),
    }


def p99_over_time(outcome: Outcome, target: str, window_seconds: int) -> list[tuple[float, float]]:
    """Give the middle of each window, in seconds from the start, and the p99 in it, in seconds."""
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
