"""Counts and times by kind, failures, and samples to verify later."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from benchmarks.load.requests import Part
from service.__main__ import find_body

REFUSED = "refused"
_EXAMPLES = 20


@dataclass
class Tally:
    """Counts of one process, or of several together.

    Attributes:
        statuses: answers by kind and status.
        trouble: failures, by kind and description.
        examples: descriptions of some failures.
        seconds: from a request to the last byte of its answer, by kind; refusals are a kind.
        body_bytes: received, by kind.
        compared: numbers of bodies that were compared byte by byte, by kind.
        samples: digests of bodies, compared with recomputed bytes after the run.
        cpu_seconds: processor time of the clients.
    """

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    trouble: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    seconds: defaultdict[str, "array[float]"] = field(default_factory=lambda: defaultdict(_times))
    body_bytes: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[str, Part, bytes]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def answers(self) -> int:
        return sum(self.statuses.values())

    @property
    def refused(self) -> int:
        return sum(count for (_, status), count in self.statuses.items() if status == 503)

    def fail(self, kind: str, what: str, example: str = "") -> None:
        """Count a failure."""
        self.trouble[kind, what] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{kind}: {what}: {example}")

    def sample(self, kind: str, part: Part, body: bytes) -> None:
        """Keep the digest of a body for check_samples()."""
        self.samples.append((kind, part, _digest([body])))

    def check_samples(self) -> None:
        """Recompute the bytes of every sample, and count differences."""
        while self.samples:
            kind, part, digest = self.samples.pop()
            self.compared[kind] += 1
            if _digest(find_body(part.target).blocks(part.start, part.stop)) != digest:
                self.fail(kind, "wrong bytes", str(part))


def merged(tallies: Sequence[Tally]) -> Tally:
    """Add the counts of several processes."""
    whole = Tally()
    for tally in tallies:
        whole.statuses += tally.statuses
        whole.trouble += tally.trouble
        whole.examples += tally.examples
        for kind, seconds in tally.seconds.items():
            whole.seconds[kind].extend(seconds)
        whole.body_bytes += tally.body_bytes
        whole.compared += tally.compared
        whole.samples += tally.samples
        whole.cpu_seconds += tally.cpu_seconds
    return whole


def _times() -> "array[float]":
    return array("f")


def _digest(blocks: Iterable[bytes | memoryview]) -> bytes:
    digest = blake2b(digest_size=16)
    for block in blocks:
        digest.update(block)
    return digest.digest()
