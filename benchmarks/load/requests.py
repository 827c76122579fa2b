"""Requests of clients: warm and cold tables, ranges and rotations, in a seeded order."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WARM, COLD, RANGE, APPLY = KINDS = ("warm", "cold", "range", "apply")
SHARES = (50, 20, 20, 10)
"""Percentage of each kind of request."""

KIB, MIB = 2**10, 2**20

HUGE = "/encoding.npy?seq_len=1099511627776&d_model=512"
HUGE_BYTES = 128 + 2**40 * 512 * 4

# Cold and partial answers are recomputed after the run, which takes as long again.
_SAMPLED_SHARE = 1 / 20
_POSITIONS = 2**61
_LONGEST_PAUSE_SECONDS = 60.0

# Each with the parameter that makes a URL new, and its percentage.
_COLD: Sequence[tuple[int, str, int | None]] = (
    (30, "/encoding.npy?seq_len=4&d_model=4&start={}", 128 + 4 * 4 * 4),
    (15, "/encoding.json?seq_len=8&d_model=16&start={}", None),
    (20, "/encoding.npy?seq_len=50&d_model=512&start={}", 128 + 50 * 512 * 4),
    (10, "/encoding.npy?seq_len=50&d_model=512&base={}", 128 + 50 * 512 * 4),
    (10, "/rope.safetensors?seq_len=128&head_dim=128&start={}", None),
    (8, "/encoding.json?seq_len=50&d_model=512&start={}", None),
    (4, "/encoding.npy?seq_len=1024&d_model=768&start={}", 128 + 1024 * 768 * 4),
    (3, "/encoding.json?seq_len=512&d_model=512&start={}", None),
)


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a URL; ``stop`` is None for the end."""

    target: str
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A request and its expected answer.

    Attributes:
        kind: one of KINDS.
        data: all its bytes.
        status: expected status of the answer.
        length_bytes: length of the answer's body, or None if unknown.
        body: the answer's body, or None if unknown.
        sampled: what the body is compared with after the run, if anything.
    """

    kind: str
    data: bytes
    status: int = 200
    length_bytes: int | None = None
    body: bytes | None = field(default=None, repr=False)
    sampled: Part | None = None


def get(target: str, *headers: str) -> bytes:
    """Return the bytes of a GET request."""
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: posref", *headers, "", ""]).encode()


def post(target: str, media_type: str, body: bytes) -> bytes:
    """Return the bytes of a POST request."""
    lines = [f"POST {target} HTTP/1.1", "Host: posref", f"Content-Type: {media_type}"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class Mix:
    """An endless series of requests.

    Args:
        known: requests with known answers, warm ones and ones that are never cached.
        seed: of the random order.
    """

    def __init__(self, known: Sequence[LoadRequest], seed: int) -> None:
        self._random = random.Random(seed)
        self._warm = [request for request in known if request.kind == WARM]
        self._apply = [request for request in known if request.kind == APPLY]
        self._makers: dict[str, Callable[[], LoadRequest]] = {
            WARM: lambda: self._random.choice(self._warm),
            COLD: self._cold,
            RANGE: self._range,
            APPLY: lambda: self._random.choice(self._apply),
        }

    def next(self) -> LoadRequest:
        """Return the next request."""
        (kind,) = self._random.choices(KINDS, SHARES)
        return self._makers[kind]()

    def pause(self, mean_seconds: float) -> float:
        """Return the next pause: exponential, as for independent users.

        It is shorter than the time for which servers keep idle connections, so that no request
        meets a closing one.
        """
        return min(self._random.expovariate(1 / mean_seconds), _LONGEST_PAUSE_SECONDS)

    def _cold(self) -> LoadRequest:
        shares = [share for share, _, _ in _COLD]
        ((_, template, length_bytes),) = self._random.choices(_COLD, shares)
        target = template.format(self._random.randrange(20_000, _POSITIONS))
        return LoadRequest(COLD, get(target), 200, length_bytes, sampled=self._sample(Part(target)))

    def _range(self) -> LoadRequest:
        size_bytes = round(64 * KIB * 16 ** self._random.random())
        start = self._random.randrange(HUGE_BYTES - size_bytes)
        stop = start + size_bytes
        request = get(HUGE, f"Range: bytes={start}-{stop - 1}")
        return LoadRequest(
            RANGE, request, 206, size_bytes, sampled=self._sample(Part(HUGE, start, stop))
        )

    def _sample(self, part: Part) -> Part | None:
        return part if self._random.random() < _SAMPLED_SHARE else None
