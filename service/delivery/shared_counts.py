"""Counts of several processes that serve together, each in a file of its own.

A process writes all that it counts once a second, when it is asked for the counts of all, and when
it ends. So what was told once is never more than what is in the files: whoever is asked next, and
whoever takes the place of a process that was killed, tells no less.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import orjson
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError, field_validator

from service.delivery.families import FAMILIES, Counts, Labels, Row, add, outliving

MAX_FILE_BYTES = 4 * 1024 * 1024
"""The longest file that is read: more than all routes and statuses there are take."""

_SHARE_SECONDS = 1.0

# A process that has written nothing for so long is not alive, or as good as that.
_FRESH_SECONDS = 5.0

_log = logging.getLogger("posref.counts")


@dataclass(frozen=True)
class WorkerSlot:
    """The place of a process among those of a server.

    Attributes:
        directory: what they share.
        slot: its number, which a process that takes its place has, too.
    """

    directory: Path
    slot: int


class _Snapshot(BaseModel):
    """What is in a file: the clock of the machine and all counts at that time."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    written_seconds: FiniteFloat
    rows: dict[str, list[tuple[Labels, list[FiniteFloat]]]]

    @field_validator("rows")
    @classmethod
    def _are_of_families(
        cls, rows: dict[str, list[tuple[Labels, Row]]]
    ) -> dict[str, list[tuple[Labels, Row]]]:
        for name, pairs in rows.items():
            family = FAMILIES.get(name)
            shape = family and (len(family.labels), family.row_length)
            if any((len(labels), len(row)) != shape for labels, row in pairs):
                raise ValueError(f"{name} is not counted in this way")
        return rows

    @property
    def counts(self) -> Counts:
        return {name: dict(pairs) for name, pairs in self.rows.items()}


class SharedCounts:
    """Keep the counts of one process where the others find them, and find theirs."""

    def __init__(self, directory: Path, slot: int) -> None:
        self._directory = directory
        self._file = directory / f"{slot}.counts"
        before = _read(self._file)
        self._inherited = outliving(before.counts) if before else {}
        self._has_failed = False

    def write(self, counts: Counts, *, is_last: bool = False) -> None:
        """Write what this process counts, on top of what those in its slot did before it."""
        own = self._own(counts)
        self._replace(outliving(own) if is_last else own)

    def together(self, counts: Counts) -> Counts:
        """Write what this process counts; gives that of all, and their states if they are alive."""
        own = self._own(counts)
        self._replace(own)
        for file in self._directory.glob("*.counts"):
            other = _read(file) if file != self._file else None
            if other is not None:
                is_fresh = monotonic() - other.written_seconds < _FRESH_SECONDS
                add(own, other.counts if is_fresh else outliving(other.counts))
        return own

    def _own(self, counts: Counts) -> Counts:
        own: Counts = {}
        add(own, self._inherited)
        add(own, counts)
        return own

    def _replace(self, counts: Counts) -> None:
        rows = {name: list(rows.items()) for name, rows in counts.items()}
        draft = self._file.with_suffix(".draft")
        try:
            draft.write_bytes(orjson.dumps({"written_seconds": monotonic(), "rows": rows}))
            draft.replace(self._file)
        except OSError as error:
            if not self._has_failed:
                _log.warning("counts cannot be shared between processes: %s", error)
            self._has_failed = True
            return
        self._has_failed = False


@asynccontextmanager
async def sharing(share: Callable[[], None]) -> AsyncGenerator[None, None]:
    """Share counts each second for as long as a context lasts."""

    async def always() -> None:
        while True:
            share()
            await asyncio.sleep(_SHARE_SECONDS)

    task = asyncio.create_task(always())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _read(file: Path) -> _Snapshot | None:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValueError("it is too long")
        return _Snapshot.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        _log.warning("counts of another process cannot be read: %s: %s", file.name, reason)
        return None
