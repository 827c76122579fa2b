"""The gate: bounds on what waits, on how long it does, and on what is held of request bodies."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from service.delivery.gate import REASONS, Gate, Held, Line, Recent
from service.errors import Overloaded
from service.settings import default_settings


def gate_of(**limits: float) -> Gate:
    return Gate(default_settings().model_copy(update=limits))


def test_the_newest_time_counts_the_most() -> None:
    recent = Recent()
    recent.add(1.0)
    assert recent.seconds == 1.0

    recent.add(9.0)
    assert recent.seconds == 2.0
    recent.add(2.0)
    assert recent.seconds == 2.0


@pytest.mark.parametrize(("seconds", "told"), [(0.0, 1), (1.0, 1), (1.1, 2), (59.5, 60), (1e9, 60)])
def test_a_client_is_told_to_come_again_in_whole_seconds_within_a_minute(
    seconds: float, told: int
) -> None:
    assert gate_of().overloaded("waiting", "too many", seconds).retry_seconds == told


def test_refusals_are_counted_by_reason() -> None:
    gate = gate_of()
    assert gate.refusals == dict.fromkeys(REASONS, 0)

    gate.refused("connections")
    gate.overloaded("bodies", "too many", 1)

    assert gate.refusals == {"waiting": 0, "wait_time": 0, "bodies": 1, "connections": 1}


def in_line(scenario: Callable[[Line], Any], **limits: float) -> Gate:
    """Run something with a line of two threads."""
    gate = gate_of(**limits)

    async def run() -> None:
        result = scenario(Line(gate, "long", 2))
        if result is not None:
            await result

    asyncio.run(run())
    return gate


def test_one_too_many_is_refused_by_the_name_of_the_setting() -> None:
    def scenario(line: Line) -> None:
        with line.place(), line.place():
            assert len(line) == 2
            with pytest.raises(Overloaded, match=r"2 .* for long work .*POSREF_MAX_WAITING"):
                line.place().__enter__()
        with line.place():
            assert len(line) == 1

    assert in_line(scenario, max_waiting=2).refusals["waiting"] == 1


def test_whoever_is_served_makes_room_in_the_line() -> None:
    def scenario(line: Line) -> None:
        with line.place() as first:
            first.serve()
            with line.place():
                assert len(line) == 1

    assert in_line(scenario, max_waiting=1).refusals["waiting"] == 0


def test_whoever_is_refused_is_told_how_long_the_line_takes() -> None:
    def scenario(line: Line) -> None:
        line.served_for.add(3.0)
        with line.place(), line.place(), line.place():
            with pytest.raises(Overloaded) as refusal:
                line.place().__enter__()
            # Three times three seconds, by two threads.
            assert refusal.value.retry_seconds == 5

    in_line(scenario, max_waiting=3)


def test_only_who_was_served_tells_how_long_that_takes() -> None:
    def scenario(line: Line) -> None:
        with line.place():
            pass
        assert line.served_for.seconds == 0.0
        with line.place() as place:
            place.serve()
        assert line.served_for.seconds > 0.0

    in_line(scenario)


@pytest.mark.parametrize("had_begun", [True, False])
def test_what_has_not_begun_at_its_deadline_is_withdrawn(had_begun: bool) -> None:
    async def scenario(line: Line) -> None:
        done = asyncio.get_running_loop().create_future()

        def withdraw() -> bool:
            if had_begun:
                done.set_result("made")
            return not had_begun and done.cancel()

        with line.place() as place, place.limited(withdraw):
            assert await done == "made"

    if had_begun:
        assert in_line(scenario, wait_seconds=0.01).refusals["wait_time"] == 0
        return
    with pytest.raises(Overloaded, match="POSREF_WAIT_SECONDS"):
        in_line(scenario, wait_seconds=0.01)


def test_whoever_leaves_before_the_deadline_is_not_refused() -> None:
    async def scenario(line: Line) -> None:
        async def wait() -> None:
            with line.place() as place, place.limited(lambda: True):
                await asyncio.Event().wait()

        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert len(line) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(line) == 0

    assert not any(in_line(scenario).refusals.values())


def test_a_turn_that_does_not_come_by_the_deadline_is_waited_for_no_more() -> None:
    async def scenario(line: Line) -> None:
        turns = asyncio.Semaphore(1)
        with line.place() as first, line.place() as second:
            await first.turn(turns)
            with pytest.raises(Overloaded, match="POSREF_WAIT_SECONDS"):
                async with asyncio.timeout(5):
                    await second.turn(turns)
        turns.release()
        with line.place() as third:
            await third.turn(turns)

    assert in_line(scenario, wait_seconds=0.01).refusals["wait_time"] == 1


def test_a_body_is_refused_where_there_is_no_room_beside_others() -> None:
    gate = gate_of(max_held_body_bytes=100)
    first, second = Held(gate), Held(gate)
    first.grow(60)
    second.grow(40)

    with pytest.raises(Overloaded, match=r"up 100 bytes .*POSREF_MAX_HELD_BODY_BYTES"):
        second.grow(41)
    with pytest.raises(Overloaded):
        Held(gate).grow(1)

    assert gate.held_body_bytes == 100
    first.release()
    second.grow(100)
    assert (gate.held_body_bytes, gate.refusals["bodies"]) == (100, 2)


def test_any_body_has_room_where_there_is_no_other() -> None:
    gate = gate_of(max_held_body_bytes=100)
    alone = Held(gate)

    alone.grow(101)
    alone.grow(1000)
    alone.grow(500)

    assert gate.held_body_bytes == 1000
    alone.release()
    assert gate.held_body_bytes == 0


def test_a_body_is_given_back_once() -> None:
    gate = gate_of(max_held_body_bytes=100)
    first, second = Held(gate), Held(gate)
    first.grow(10)
    second.grow(20)

    for _ in range(2):
        first.release()

    assert gate.held_body_bytes == 20
    assert gate.held_for.seconds > 0
