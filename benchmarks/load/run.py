"""A run: a server probed alone, under load, and alone again."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import Pool

from benchmarks.load import generator, prober
from benchmarks.load.expected import PROBED, checked_requests, table_target
from benchmarks.load.plan import Plan
from benchmarks.load.prober import Probed, Target
from benchmarks.load.requests import LoadRequest, get
from benchmarks.load.tally import Tally, merged
from benchmarks.load.watch import Watch, watching

BESIDE = "beside: "
"""Prefix of the names of answers that only the prober requests."""

_GRACE_SECONDS = 180.0


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        start: when the load began, in seconds of the monotonic clock.
        tally: of the answers.
        before, during, after: latency of single warm answers without, under and without load.
        watch: of the server from beginning to end.
    """

    plan: Plan
    start: float
    tally: Tally
    before: Probed
    during: Probed
    after: Probed
    watch: Watch

    @property
    def stop(self) -> float:
        return self.start + self.plan.seconds

    @property
    def trouble(self) -> list[str]:
        """All failures."""
        counted = [f"{kind}: {what}: {n}" for (kind, what), n in self.tally.trouble.items()]
        probed = [*self.before.trouble, *self.during.trouble, *self.after.trouble]
        return counted + probed


@dataclass(frozen=True)
class Measured:
    """A server under load, and one beside it that only the prober uses."""

    port: int
    pid: int
    beside_port: int | None = None


def run(server: Measured, plan: Plan) -> Outcome:
    """Measure a server; raise BenchmarkFailed if an answer is wrong before the load."""
    known = checked_requests(server.port)
    targets = _targets("", server.port, known)
    if server.beside_port is not None:
        checked_requests(server.beside_port)
        targets += _targets(BESIDE, server.beside_port, known)
    plans = list(_generator_plans(server.port, plan, known))
    with _processes(len(plans)) as (one, many), watching(server.port, server.pid) as watch:
        before = _probe(one, targets, plan.unloaded_seconds, plan.seed)
        start = time.monotonic()
        load = many.map_async(generator.generate, plans, chunksize=1)
        during = _probe(one, targets, plan.seconds, plan.seed)
        tally = merged(load.get(_GRACE_SECONDS))
        after = _probe(one, targets, plan.unloaded_seconds, plan.seed)
    tally.check_samples()
    return Outcome(plan, start, tally, before, during, after, watch)


@contextmanager
def _processes(generators: int) -> Iterator[tuple[Pool, Pool]]:
    """Start a prober and the low-priority processes of clients."""
    spawning = multiprocessing.get_context("spawn")
    ready = spawning.Barrier(generators + 1)
    with (
        spawning.Pool(1) as one,
        spawning.Pool(generators, generator.lower_priority, (ready,)) as many,
    ):
        ready.wait(_GRACE_SECONDS)
        yield one, many
        for pool in (one, many):
            pool.terminate()
            pool.join()


def _probe(pool: Pool, targets: Sequence[Target], seconds: float, seed: int) -> Probed:
    probing = pool.apply_async(prober.probe, (targets, seconds, seed))
    return probing.get(seconds + _GRACE_SECONDS)


def _generator_plans(
    port: int, plan: Plan, known: Sequence[LoadRequest]
) -> Iterator[generator.GeneratorPlan]:
    for number in range(plan.generators):
        rest = plan.connections % plan.generators
        connections = plan.connections // plan.generators + (number < rest)
        seed = plan.seed * 1000 + number
        yield generator.GeneratorPlan(
            port, connections, plan.seconds, plan.think_seconds, seed, known
        )


def _targets(prefix: str, port: int, known: Sequence[LoadRequest]) -> list[Target]:
    bodies = {request.data: request.body for request in known}
    requests = {str(case): get(table_target(case)) for case in PROBED}
    return [
        Target(prefix + case, port, request, bodies[request] or b"")
        for case, request in requests.items()
    ]
