"""One run: its extent, its folder, and measurements shared by several rows of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks import cold, kernel, machine, warm
from benchmarks.cases import Case


@dataclass(frozen=True)
class Plan:
    """The extent of a run.

    Attributes:
        rounds: number of rounds for warm tables, with all processes pinned to cores.
        unpinned_rounds: number of rounds without pinned processes, which vary more.
        seconds: duration of the load in a round.
        family_rounds: number of turns of each family and element type.
        turns: number of repetitions of single measurements.
        streamed_gibibytes: size of the table that is streamed while memory is measured.
    """

    rounds: int
    unpinned_rounds: int
    seconds: int
    family_rounds: int
    turns: int
    streamed_gibibytes: int


FULL = Plan(
    rounds=3, unpinned_rounds=7, seconds=2, family_rounds=3, turns=21, streamed_gibibytes=16
)
QUICK = Plan(rounds=1, unpinned_rounds=1, seconds=1, family_rounds=1, turns=5, streamed_gibibytes=1)


@dataclass(frozen=True)
class Bench:
    """A run, which takes shared measurements once, on first use."""

    plan: Plan
    folder: Path

    @cached_property
    def kernel(self) -> Sequence[kernel.Result]:
        core, _ = machine.server_and_client_cores()
        with machine.pinned(core):
            return kernel.measure(self.plan.turns)

    @cached_property
    def cold(self) -> cold.Streams:
        return cold.measure(self.folder, self.plan.unpinned_rounds)

    @cached_property
    def warm(self) -> Mapping[Case, warm.Result]:
        return warm.measure(self.folder, self.plan.seconds, self.plan.rounds)
