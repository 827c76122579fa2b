"""Many clients in one process, which runs at low priority."""

import asyncio
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

import uvloop

from benchmarks.load.client import Client
from benchmarks.load.requests import LoadRequest, Mix
from benchmarks.load.tally import Tally

_NICENESS = 10
_OTHER_FILES = 100
_LEAVING_SECONDS = 90.0
_START_SECONDS = 60.0


@dataclass(frozen=True)
class GeneratorPlan:
    """The clients of one process.

    Attributes:
        known: requests whose answers are known.
    """

    port: int
    connections: int
    seconds: int
    think_seconds: float
    seed: int
    known: Sequence[LoadRequest]


def lower_priority(all_are_ready: Barrier) -> None:
    """Prepare a process, and report that it is ready."""
    os.nice(_NICENESS)
    all_are_ready.wait(_START_SECONDS)


def generate(plan: GeneratorPlan) -> Tally:
    """Run the clients for the duration, and complete the last requests."""
    allow_files(plan.connections + _OTHER_FILES)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_generate(plan))


def allow_files(files: int) -> None:
    """Raise the limit of open files if possible."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if least < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, most), most))


async def _generate(plan: GeneratorPlan) -> Tally:
    tally, mix = Tally(), Mix(plan.known, plan.seed)
    clients = [Client(plan.port, mix, tally, plan.think_seconds) for _ in range(plan.connections)]
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: tally.fail("client", "failure", repr(context))
    )
    before_seconds, end = time.process_time(), time.monotonic() + plan.seconds
    for client in clients:
        client.begin()
    while time.monotonic() < end:
        await asyncio.sleep(min(1, max(0, end - time.monotonic())))
        for client in clients:
            client.check()
    tally.cpu_seconds = time.process_time() - before_seconds
    for client in clients:
        client.leave()
    await _until_gone(clients)
    return tally


async def _until_gone(clients: Sequence[Client]) -> None:
    deadline = time.monotonic() + _LEAVING_SECONDS
    while time.monotonic() < deadline and not all(client.is_gone for client in clients):
        for client in clients:
            client.check()
        await asyncio.sleep(0.1)
