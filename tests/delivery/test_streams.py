"""Streams: the sizes of pieces, what is computed when, and what is forgotten."""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice, pairwise
from threading import Event
from typing import TypeVar

import pytest

from service.delivery.budget import Budget
from service.delivery.clients import CLIENT
from service.delivery.schedule import Scheduler
from service.delivery.streams import (
    FIRST_BYTES,
    UNSENT_BYTES,
    BodyStream,
    PieceWriter,
    Replay,
    Stream,
)
from service.errors import Refusals
from service.formats.format import BLOCK_BYTES, Block, Body, Part, WholeBody
from service.numerics.setups import TURN_SECONDS
from service.settings import MIB, default_settings

Result = TypeVar("Result")

BUDGET = Budget(1024 * MIB)
LENGTH = 40 * FIRST_BYTES + 5
PART_BYTES = FIRST_BYTES + 7
WHOLE = (bytes(range(251)) * (LENGTH // 251 + 1))[:LENGTH]


@dataclass
class Numbers:
    """A body that records which parts of it are computed."""

    length_bytes = LENGTH
    limit_bytes = LENGTH
    computed: list[tuple[int, int]] = field(default_factory=list)

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        end = LENGTH if stop is None else stop
        while start < end:
            after = min(start + BLOCK_BYTES, end)
            self.computed.append((start, after))
            yield WHOLE[start:after]
            start = after


@dataclass
class Slow(Numbers):
    """The same; each block takes some seconds."""

    seconds: float = 0.0

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        for block in super().blocks(start, stop):
            time.sleep(self.seconds)
            yield block


@dataclass
class Text(WholeBody):
    """A body of unknown length that records which parts of it are computed."""

    limit_bytes = LENGTH
    computed: list[tuple[int, int]] = field(default_factory=list)

    def parts(self) -> Iterator[Part]:
        for start in range(0, LENGTH, PART_BYTES):
            yield b""
            yield partial(self._part, start, min(start + PART_BYTES, LENGTH))

    def _part(self, start: int, stop: int) -> Iterator[Block]:
        yield b""
        self.computed.append((start, stop))
        yield WHOLE[start:stop]


@dataclass
class Packed(Text):
    """The same, but what was computed cannot be computed again."""

    state_bytes = 3 * MIB

    def parts(self) -> Iterator[Block]:
        yield from Text(self.computed).blocks()


BODIES = pytest.mark.parametrize("body_of", [Numbers, Text, Packed])


async def at_once(work: Callable[[], Result]) -> Result:
    """Do a turn in this thread."""
    await asyncio.sleep(0)
    return work()


async def read(
    stream: Stream, at_once_bytes: int = LENGTH, stop: Callable[[], bool] = lambda: False
) -> bytes:
    """Take the rest of a stream; a connection takes some bytes of each piece at once."""
    received = b""
    while not stop() and (piece := await stream.piece()) is not None:
        count = min(at_once_bytes, len(piece))
        received += piece[:count]
        stream.take(count, count)
    return received


@BODIES
@pytest.mark.parametrize("taken_bytes", [1000, FIRST_BYTES, 100_000, LENGTH])
def test_pieces_are_the_body(body_of: Callable[[], Body], taken_bytes: int) -> None:
    async def scenario() -> None:
        stream = BodyStream(body_of(), at_once, BUDGET)
        assert await read(stream, taken_bytes) == WHOLE
        assert (stream.sent_bytes, stream.is_complete) == (LENGTH, True)

    asyncio.run(scenario())


def test_pieces_grow_while_each_is_taken_at_once() -> None:
    body, sizes = Numbers(), []

    async def scenario() -> None:
        stream = BodyStream(body, at_once, BUDGET)
        while piece := await stream.piece():
            sizes.append(len(piece) // FIRST_BYTES)
            stream.take(len(piece), len(piece))

    asyncio.run(scenario())

    assert sizes[:7] == [1, 1, 2, 4, 8, 8, 8]


class Connection(PieceWriter):
    """A connection that takes bytes until it is full."""

    def __init__(self, room_bytes: int = LENGTH) -> None:
        super().__init__()
        self.received = b""
        self.room_bytes = room_bytes

    def write(self, piece: Block) -> None:
        assert not self.is_full
        count = min(len(piece), self.room_bytes - self.taken_bytes)
        self.received += piece[:count]
        self.taken_bytes += count
        self.rest, self.is_full = piece[count:], count < len(piece)


@dataclass
class Connections:
    """Takes a stream, in each turn by a connection with room for so many bytes."""

    stream: Stream
    room_bytes: int = LENGTH
    received: bytes = b""
    turns: int = 0

    async def read(self, stop: Callable[[], bool] = lambda: False) -> None:
        while not stop():
            connection = Connection(self.room_bytes)
            rest = await self.stream.piece(connection)
            if rest is None:
                break
            self.turns += 1
            self.received += connection.received + bytes(rest)
            assert self.stream.sent_bytes == len(self.received) - len(rest)
            if rest:
                self.stream.take(len(rest), 0)


@BODIES
@pytest.mark.parametrize("room_bytes", [0, 1000, FIRST_BYTES, 700_000, LENGTH])
def test_written_pieces_and_the_rests_of_turns_are_the_body(
    body_of: Callable[[], Body], room_bytes: int
) -> None:
    async def scenario() -> None:
        stream = BodyStream(body_of(), at_once, BUDGET)
        connections = Connections(stream, room_bytes)
        await connections.read()
        assert connections.received == WHOLE
        assert (stream.sent_bytes, stream.is_complete) == (LENGTH, True)

    asyncio.run(scenario())


@BODIES
def test_what_a_full_connection_has_not_taken_is_computed_again_after_it_was_dropped(
    body_of: Callable[[], Body],
) -> None:
    async def scenario() -> None:
        stream = BodyStream(body_of(), at_once, BUDGET)
        connections = Connections(stream, 9 * FIRST_BYTES)
        await connections.read(stop=lambda: stream.sent_bytes >= 8 * FIRST_BYTES)
        full = Connection(1000)
        assert await stream.piece(full)
        if stream.can_forget:
            stream.forget()

        assert connections.received + full.received + await read(stream) == WHOLE

    asyncio.run(scenario())


@pytest.mark.parametrize("room_bytes", [0, 1000])
def test_a_piece_that_is_not_granted_and_not_taken_at_once_is_dropped(room_bytes: int) -> None:
    async def scenario() -> None:
        budget = Budget(64 * MIB)
        connections = Connections(stream := BodyStream(Numbers(), at_once, budget))
        others = budget.grant("children", 42 * MIB)
        await connections.read(stop=lambda: stream.sent_bytes >= 4 * FIRST_BYTES)
        full = Connection(room_bytes)
        rest = await stream.piece(full)
        if rest:
            stream.take(0, 0)

        assert len(await stream.piece() or b"") == FIRST_BYTES
        assert connections.received + full.received + await read(stream) == WHOLE
        others.release()

    asyncio.run(scenario())


@pytest.mark.parametrize(("turn_seconds", "turns"), [(0.0, 9), (1e9, 5)])
def test_a_turn_writes_pieces_while_there_is_time_for_another(
    monkeypatch: pytest.MonkeyPatch, turn_seconds: float, turns: int
) -> None:
    monkeypatch.setattr("service.delivery.streams.TURN_SECONDS", turn_seconds)

    async def scenario() -> None:
        connections = Connections(BodyStream(Numbers(), at_once, BUDGET))
        await connections.read()
        # Of 1, 1, 2 and 4 times the first one's bytes, and then four of 8 times and 5 bytes.
        assert connections.turns == turns

    asyncio.run(scenario())


@pytest.mark.parametrize(("pieces_alone", "turns"), [(0, 9), (6, 7), (9, 5)])
def test_a_turn_that_nobody_waits_for_is_longer(
    monkeypatch: pytest.MonkeyPatch, pieces_alone: int, turns: int
) -> None:
    monkeypatch.setattr("service.delivery.streams.TURN_SECONDS", 0.0)
    monkeypatch.setattr("service.delivery.streams.UNAWAITED_TURN_SECONDS", 1e9)
    asked = count(1)

    async def scenario() -> None:
        stream = BodyStream(
            Numbers(), at_once, BUDGET, is_awaited=lambda: next(asked) > pieces_alone
        )
        connections = Connections(stream)
        await connections.read()
        assert (connections.received, connections.turns) == (WHOLE, turns)

    asyncio.run(scenario())


def test_the_connection_of_a_client_that_reads_may_buffer_more() -> None:
    async def scenario() -> None:
        budget = Budget(1024 * MIB)
        stream = BodyStream(Numbers(), at_once, budget)
        await read(stream, stop=lambda: stream.sent_bytes >= 4 * FIRST_BYTES)
        assert stream.unsent_bytes == UNSENT_BYTES
        await read(stream, stop=lambda: stream.sent_bytes >= BLOCK_BYTES)
        assert stream.unsent_bytes == 2 * UNSENT_BYTES
        stream.forget()
        assert stream.unsent_bytes == UNSENT_BYTES

        tight = Budget(64 * MIB)
        stream = BodyStream(Numbers(), at_once, tight)
        others = tight.grant("children", 42 * MIB)
        await read(stream)
        assert stream.unsent_bytes == UNSENT_BYTES
        others.release()

    asyncio.run(scenario())


def test_work_that_waits_for_a_thread_awaits_the_work_that_has_it() -> None:
    scheduler = Scheduler(default_settings().model_copy(update={"threads": 1}), Refusals())
    has_begun, may_end = Event(), Event()

    async def scenario() -> None:
        stream = scheduler.stream()

        def turn() -> bool:
            has_begun.set()
            may_end.wait(60)
            return stream.is_awaited()

        running = asyncio.create_task(stream.turn(turn))
        await asyncio.to_thread(has_begun.wait, 60)
        before = stream.is_awaited()
        waiting = asyncio.create_task(scheduler.stream().turn(bool))
        await asyncio.sleep(0)
        meanwhile = stream.is_awaited()
        may_end.set()
        assert await running
        await waiting
        assert (before, meanwhile, stream.is_awaited()) == (False, True, False)

    asyncio.run(scenario())
    scheduler.close()


def test_streams_that_turns_write_have_turns_alternately() -> None:
    scheduler = Scheduler(default_settings().model_copy(update={"threads": 1}), Refusals())
    turns: list[str] = []

    async def consume(name: str) -> None:
        CLIENT.set(name)
        turn = scheduler.stream().turn

        async def noted(work: Callable[[], Result]) -> Result:
            result = await turn(work)
            turns.append(name)
            return result

        await Connections(BodyStream(Slow(seconds=TURN_SECONDS), noted, BUDGET)).read()

    async def scenario() -> None:
        await asyncio.gather(*map(consume, "abc"))

    asyncio.run(scenario())
    scheduler.close()

    assert [turns.count(name) for name in "abc"] == [9, 9, 9]
    assert all(2 <= turns[:12].count(name) <= 6 for name in "abc")


def test_an_unread_piece_is_dropped_and_computed_again() -> None:
    body = Numbers()

    async def scenario() -> None:
        budget = Budget(1024 * MIB)
        stream = BodyStream(body, at_once, budget)
        await read(stream, stop=lambda: stream.sent_bytes >= 8 * FIRST_BYTES)
        assert len(await stream.piece() or b"") == BLOCK_BYTES

        stream.forget()

        assert budget.granted()["streams"] < 2 * FIRST_BYTES
        computed = len(body.computed)
        received = await read(stream)
        assert received == WHOLE[8 * FIRST_BYTES :]
        assert body.computed[computed][0] == 8 * FIRST_BYTES

    asyncio.run(scenario())


def test_a_stream_that_is_cancelled_gives_its_memory_back_at_once() -> None:
    body, budget, is_stuck = Numbers(), Budget(64 * MIB), asyncio.Event()

    async def turn(work: Callable[[], Result]) -> Result:
        if sum(map(_size, body.computed)) > LENGTH / 2:
            is_stuck.set()
            await asyncio.Event().wait()
        return await at_once(work)

    async def scenario() -> None:
        reading = asyncio.create_task(read(BodyStream(body, turn, budget)))
        await is_stuck.wait()
        assert budget.granted_bytes > BLOCK_BYTES
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading

    gc.disable()
    asyncio.run(scenario())
    gc.enable()

    assert budget.granted_bytes == 0


def test_a_setup_of_several_turns_is_made_once() -> None:
    steps: list[int] = []

    class Slow(Numbers):
        def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
            for step in range(3):
                steps.append(step)
                time.sleep(TURN_SECONDS)
                yield b""
            yield from super().blocks(start, stop)

    async def scenario() -> bytes:
        stream = BodyStream(Slow(), at_once, BUDGET)
        while not (piece := await stream.piece()):
            assert len(steps) <= 3
        return bytes(piece)

    assert WHOLE.startswith(asyncio.run(scenario()))
    assert steps == [0, 1, 2]


def test_no_piece_is_computed_before_the_last_one_is_taken() -> None:
    body = Numbers()

    async def scenario() -> None:
        stream = BodyStream(body, at_once, BUDGET)
        for expected in (1, 1, 1):
            assert await stream.piece() is not None
            stream.take(1000, 1000)
            await asyncio.sleep(0.01)
            assert len(body.computed) == expected

    asyncio.run(scenario())


def test_a_forgotten_piece_is_computed_again_from_the_position() -> None:
    body = Numbers()

    async def scenario() -> None:
        stream = BodyStream(body, at_once, BUDGET, 7, LENGTH - 7)
        received = await read(stream, stop=lambda: stream.sent_bytes > 20 * FIRST_BYTES)
        piece = await stream.piece()
        assert piece is not None
        received += piece[:1000]
        stream.take(1000, 1000)
        assert stream.can_forget
        stream.forget()
        body.computed.clear()

        position = 7 + stream.sent_bytes
        received += await read(stream)
        assert received == WHOLE[7:-7]
        assert body.computed[0] == (position, position + FIRST_BYTES)

    asyncio.run(scenario())


def _size(part: tuple[int, int]) -> int:
    return part[1] - part[0]


async def read_and_forget(stream: Stream) -> bytes:
    """Take the stream in steps that are no divisors of its pieces; forget what follows each."""
    received = b""
    while (piece := await stream.piece()) is not None:
        received += piece[:50_000]
        stream.take(min(50_000, len(piece)), 0)
        stream.forget()
    return received


def test_a_forgotten_text_is_computed_again_from_the_part_with_the_position() -> None:
    body = Text()

    async def scenario() -> None:
        stream = BodyStream(body, at_once, BUDGET)
        assert await read_and_forget(stream) == WHOLE
        assert stream.can_forget

    asyncio.run(scenario())

    assert sum(map(_size, body.computed)) > LENGTH
    for (start, _), (next_start, _) in pairwise(body.computed):
        assert next_start in {start, start + PART_BYTES}


def test_a_text_forgotten_during_a_setup_is_computed_from_the_position() -> None:
    body, received = Text(), b""
    blocks = Replay(body.parts(), 0)
    assert [next(blocks), next(blocks)] == [b"", b""]

    for block in islice(blocks, 4):
        received += block
    blocks.take(len(received))
    assert not next(blocks)
    assert not next(blocks)
    blocks.rewind()
    blocks.rewind()

    assert received + b"".join(blocks) == WHOLE


def test_a_body_with_a_state_is_computed_once_and_its_state_granted() -> None:
    body, budget = Packed(), Budget(64 * MIB)

    async def scenario() -> None:
        stream = BodyStream(body, at_once, budget)
        received = b""
        while (piece := await stream.piece()) is not None:
            assert not stream.can_forget
            assert Packed.state_bytes < budget.granted_bytes < Packed.state_bytes + BLOCK_BYTES
            received += piece
            stream.take(len(piece), 0)
            stream.forget()
        assert received == WHOLE
        stream.close()

    asyncio.run(scenario())

    assert sum(map(_size, body.computed)) == LENGTH
    assert budget.granted_bytes == 0


@pytest.mark.parametrize(
    ("at_once_bytes", "largest"), [(LENGTH, BLOCK_BYTES // 2), (FIRST_BYTES - 1, FIRST_BYTES)]
)
def test_while_memory_is_scarce_only_clients_that_read_at_once_get_large_pieces(
    at_once_bytes: int, largest: int
) -> None:
    body, granted = Numbers(), []

    async def scenario() -> None:
        budget = Budget(64 * MIB)
        others = budget.grant("children", 42 * MIB)
        assert budget.is_tight
        stream = BodyStream(body, at_once, budget)

        def watch() -> bool:
            granted.append(budget.granted()["streams"])
            return False

        assert await read(stream, at_once_bytes, watch) == WHOLE

        others.release()

    asyncio.run(scenario())

    assert max(map(_size, body.computed)) == largest
    assert len(set(granted)) == 1


def test_piece_that_is_not_granted_is_dropped_unless_it_is_taken_at_once() -> None:
    async def scenario() -> None:
        budget = Budget(64 * MIB)
        others = budget.grant("children", 42 * MIB)
        stream = BodyStream(body := Numbers(), at_once, budget)
        await read(stream, stop=lambda: stream.sent_bytes >= 8 * FIRST_BYTES)
        others.release()
        piece = await stream.piece()
        assert piece is not None
        assert len(piece) > FIRST_BYTES

        stream.take(1000, 1000)

        assert len(await stream.piece() or b"") == FIRST_BYTES
        assert body.computed[-1][0] == stream.sent_bytes

    asyncio.run(scenario())


def test_the_largest_pieces_are_granted_once_memory_is_not_scarce_any_more() -> None:
    async def scenario() -> None:
        budget = Budget(64 * MIB)
        others = budget.grant("children", 42 * MIB)
        stream = BodyStream(Numbers(), at_once, budget)
        await read(stream, stop=lambda: stream.sent_bytes >= 16 * FIRST_BYTES)
        others.release()
        while len(piece := await stream.piece() or b"") < BLOCK_BYTES:
            stream.take(len(piece), len(piece))

        assert budget.granted()["streams"] > 2 * BLOCK_BYTES

    asyncio.run(scenario())


def test_larger_pieces_that_are_not_granted_are_no_refusal_of_a_request() -> None:
    body, budget = Numbers(), Budget(64 * MIB)
    others = [budget.grant("streams", size * MIB) for size in (21, 1)]

    async def scenario() -> None:
        assert not budget.is_tight
        assert await read(BodyStream(body, at_once, budget)) == WHOLE

    asyncio.run(scenario())
    others.clear()

    assert max(map(_size, body.computed)) == BLOCK_BYTES // 2
    assert budget.refusals.counts["memory"] == 0


@BODIES
@pytest.mark.parametrize("lookups", [0, 1, 3, 99])
def test_a_cached_body_is_computed_only_after_its_eviction(
    body_of: type[Numbers | Text], lookups: int
) -> None:
    body, left = body_of(), iter(range(lookups))

    async def scenario() -> None:
        stream = BodyStream(
            body,
            at_once,
            BUDGET,
            0,
            LENGTH,
            cached=lambda: None if next(left, None) is None else WHOLE,
        )
        assert await read(stream) == WHOLE

    asyncio.run(scenario())

    assert bool(body.computed) == (lookups < 99)


def test_what_a_step_was_computed_for_is_not_sent_again_after_it_came_from_the_cache() -> None:
    class Stepwise(Slow):
        def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
            for block in super().blocks(start, stop):
                yield b""
                yield block

    async def scenario() -> None:
        found = iter([None, WHOLE])
        body = Stepwise(seconds=TURN_SECONDS)
        stream = BodyStream(body, at_once, BUDGET, 0, LENGTH, cached=lambda: next(found, None))
        assert await stream.piece() == b""
        assert await read(stream) == WHOLE

    asyncio.run(scenario())
