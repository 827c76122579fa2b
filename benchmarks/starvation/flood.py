"""Two hundred costly requests of one client, and a report for another client meanwhile."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load.plan import HOST
from benchmarks.processes import ROOT
from benchmarks.starvation.kinds import examination
from benchmarks.starvation.server import serving

FLOOD = 200
MOST_SECONDS = 5.0
LEAST_KEPT = 0.9

_OTHER_HOST = "127.0.0.2"
_AFTER_SECONDS = 1.0
_WATCH_SECONDS = 5.0
_BETWEEN_SECONDS = 0.5
_PATIENCE_SECONDS = 300.0
_ALLOWED = {200, 413, 503}


@dataclass(frozen=True)
class Sender:
    """A client: the address that it connects from, and the lines that it adds to each head."""

    address: str = HOST
    headers: Sequence[str] = ()


@dataclass
class Flood:
    """The outcome of a flood.

    Attributes:
        statuses: of the first answers to the requests of the flood; 0 for none.
        waits: the Retry-After of the refused ones, in seconds.
        kept: for each of those that tried again as told, whether they were answered.
        reports: the seconds until each report of the other client; inf unless it was 200.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    kept: list[bool] = field(default_factory=list)
    reports: list[float] = field(default_factory=list)

    @property
    def broken(self) -> list[str]:
        """The broken promises."""
        rules = {
            "another client's report late": max(self.reports) > MOST_SECONDS,
            "neither 200, 413 nor 503 with Retry-After": bool(
                set(self.statuses) - _ALLOWED or any(map(math.isnan, self.waits))
            ),
            "Retry-After": sum(self.kept) < LEAST_KEPT * len(self.kept),
        }
        return [name for name, is_broken in rules.items() if is_broken]


@dataclass(frozen=True)
class _Answer:
    status: int
    retry_seconds: float


def flood(port: int, costly: bytes, senders: tuple[Sender, Sender], *, retries: bool) -> Flood:
    """Send the costly request of one sender many times at once, and reports of the other.

    Args:
        port: of the server.
        costly: the request of the flood.
        senders: of the flood, and of the reports.
        retries: whether refused requests are sent again when they are told to, and whether to wait
            until all are answered.
    """
    return asyncio.run(_flood(port, costly, senders, retries=retries))


async def _flood(
    port: int, costly: bytes, senders: tuple[Sender, Sender], *, retries: bool
) -> Flood:
    found, (many, other) = Flood(), senders
    asked = [
        asyncio.create_task(_costly(port, costly, many, found, retries=retries))
        for _ in range(FLOOD)
    ]
    await asyncio.sleep(_AFTER_SECONDS)
    end = time.monotonic() + _WATCH_SECONDS
    while time.monotonic() < end or not found.reports:
        start = time.monotonic()
        answer = await _ask(port, examination("compare", 50), other, 4 * MOST_SECONDS)
        is_right = answer.status == 200
        found.reports.append(time.monotonic() - start if is_right else math.inf)
        await asyncio.sleep(_BETWEEN_SECONDS)
    if not retries:
        for task in asked:
            task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    return found


async def _costly(port: int, costly: bytes, sender: Sender, found: Flood, *, retries: bool) -> None:
    answer = await _ask(port, costly, sender, _PATIENCE_SECONDS)
    found.statuses[answer.status] += 1
    if answer.status != 503:
        return
    found.waits.append(answer.retry_seconds)
    if retries and not math.isnan(answer.retry_seconds):
        found.kept.append(await _is_kept(port, costly, sender, answer.retry_seconds))


async def _is_kept(port: int, costly: bytes, sender: Sender, retry_seconds: float) -> bool:
    """Try again as told, until twice the time is over; return whether it is answered."""
    latest = time.monotonic() + 2 * retry_seconds
    wait_seconds = retry_seconds
    while time.monotonic() + wait_seconds <= latest + 0.1:
        await asyncio.sleep(wait_seconds)
        again = await _ask(port, costly, sender, _PATIENCE_SECONDS)
        if again.status != 503:
            return again.status == 200
        wait_seconds = max(1.0, again.retry_seconds)
    return False


async def _ask(port: int, request: bytes, sender: Sender, patience_seconds: float) -> _Answer:
    """Send a request on a new connection; status 0 is no answer."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [head, *(line.encode() for line in sender.headers), b"Connection: close", b"", body]
    try:
        async with asyncio.timeout(patience_seconds):
            reader, writer = await asyncio.open_connection(
                HOST, port, local_addr=(sender.address, 0)
            )
            try:
                writer.write(b"\r\n".join(lines))
                answer = await reader.readuntil(b"\r\n\r\n")
                await reader.read()
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return _Answer(0, math.nan)
    first, *rest = answer.decode("latin-1").lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest if line)
    return _Answer(int(first.split()[1]), float(headers.get("retry-after", "nan")))


KEYS = ("a" * 16, "b" * 16)
WAYS: Mapping[str, tuple[tuple[Sender, Sender], Mapping[str, str]]] = {
    "two addresses": ((Sender(), Sender(_OTHER_HOST)), {}),
    "two keys": (
        (
            Sender(headers=[f"Authorization: Bearer {KEYS[0]}"]),
            Sender(headers=[f"Authorization: Bearer {KEYS[1]}"]),
        ),
        {"POSREF_API_KEYS": ",".join(KEYS)},
    ),
}
"""How the server can tell two clients from each other: the clients, and settings."""


def show(checkout: Path = ROOT, *, is_quick: bool) -> list[str]:
    """Print the outcome of floods; return the broken promises."""
    print(f"\n{FLOOD} examinations of one client at once, and reports for another (s):\n")
    print("| flood | told apart by | reports, worst | first answers | Retry-After | kept |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    broken: list[str] = []
    floods = {"diagnose 50×512": ("diagnose", False), "identify 50×512": ("identify", not is_quick)}
    for name, (what, retries) in floods.items():
        for way, (senders, settings) in WAYS.items():
            with serving(checkout, settings) as server:
                costly = examination(what, 50)
                found = flood(server.port, costly, senders, retries=retries)
            waits = f"{min(found.waits):g} to {max(found.waits):g}" if found.waits else ""
            kept = f"{sum(found.kept)} of {len(found.kept)}" if found.kept else ""
            statuses = ", ".join(f"{n} × {status}" for status, n in sorted(found.statuses.items()))
            cells = [name, way, f"{max(found.reports):.2f}", statuses, waits, kept]
            print(f"| {' | '.join(cells)} |", flush=True)
            broken += [f"{name}, {way}: {each}" for each in found.broken]
    return broken
