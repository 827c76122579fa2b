"""Counts of several processes: summed, never going backwards, never trusted."""

import asyncio
import logging
from pathlib import Path

import orjson
import pytest

from service.delivery.families import Counts
from service.delivery.shared_counts import MAX_FILE_BYTES, SharedCounts, sharing


def counted(builds: float, kept_bytes: float = 0) -> Counts:
    return {"posref_builds": {(): [builds]}, "posref_cache_bytes": {(): [kept_bytes]}}


def builds(counts: Counts) -> float:
    return counts["posref_builds"][()][0]


def kept_bytes(counts: Counts) -> float:
    return counts["posref_cache_bytes"][()][0]


def test_counts_of_all_are_told_by_any(tmp_path: Path) -> None:
    slots = [SharedCounts(tmp_path, slot) for slot in range(3)]
    for number, slot in enumerate(slots):
        slot.write(counted(10**number, 5))

    told = slots[1].together(counted(20, 6))

    assert (builds(told), kept_bytes(told)) == (121, 16)


def test_what_one_has_told_the_next_that_is_asked_tells_too(tmp_path: Path) -> None:
    one, other = SharedCounts(tmp_path, 0), SharedCounts(tmp_path, 1)
    one.write(counted(1))
    other.write(counted(1))

    assert builds(one.together(counted(9))) == 10
    assert builds(other.together(counted(2))) == 11


def test_one_that_takes_a_place_goes_on_from_the_counts_and_not_from_the_states(
    tmp_path: Path,
) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100))

    after = SharedCounts(tmp_path, 0)
    after.write(counted(1, 30))
    told = after.together(counted(2, 30))

    assert (builds(told), kept_bytes(told)) == (9, 30)
    assert builds(SharedCounts(tmp_path, 1).together(counted(0))) == 9


def test_counts_never_go_backwards_however_often_a_place_is_taken(tmp_path: Path) -> None:
    watching, last = SharedCounts(tmp_path, 9), 0.0
    for _ in range(5):
        process = SharedCounts(tmp_path, 0)
        for number in range(3):
            process.write(counted(number))
            told = builds(watching.together(counted(0)))
            assert told >= last
            last = told

    assert last == 10


def test_one_that_has_ended_leaves_its_counts_and_no_states(tmp_path: Path) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100), is_last=True)

    told = SharedCounts(tmp_path, 1).together(counted(1, 30))

    assert (builds(told), kept_bytes(told)) == (8, 30)


def test_one_that_is_silent_is_not_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100))
    monkeypatch.setattr("service.delivery.shared_counts._FRESH_SECONDS", 0.0)

    told = SharedCounts(tmp_path, 1).together(counted(1, 30))

    assert (builds(told), kept_bytes(told)) == (8, 30)


def snapshot(rows: object, **others: object) -> bytes:
    return orjson.dumps({"written_seconds": 1.0, "rows": rows, **others})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"[1]",
        b"[" * 100_000,
        snapshot({})[:-1],
        b'{"written_seconds": NaN, "rows": {}}',
        snapshot({"posref_builds": [[[], ["7"]]]}),
        snapshot({"posref_builds": [[[], [1, 2]]]}),
        snapshot({"posref_builds": [[["extra"], [1]]]}),
        snapshot({"posref_builds": [[[], [None]]]}),
        snapshot({"posref_build_seconds": [[[], [1]]]}),
        snapshot({"unheard_of": [[[], [1]]]}),
        snapshot({}, more=1),
        b" " * (MAX_FILE_BYTES + 1),
    ],
    ids=lambda content: repr(content[:60]),
)
def test_what_is_no_counts_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "0.counts").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        told = SharedCounts(tmp_path, 1).together(counted(3))

    assert builds(told) == 3
    assert ["0.counts" in record.getMessage() for record in caplog.records] == [True]
    assert builds(SharedCounts(tmp_path, 0).together(counted(2))) == 5


def test_a_folder_that_is_gone_is_said_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = SharedCounts(tmp_path / "gone", 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert builds(shared.together(counted(1))) == 1
        assert len(caplog.records) == 1

        (tmp_path / "gone").mkdir()
        shared.write(counted(1))
        (tmp_path / "gone" / "0.counts").unlink()
        (tmp_path / "gone").rmdir()
        shared.write(counted(1))

    assert len(caplog.records) == 2


def test_counts_are_shared_from_the_first_moment_to_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.delivery.shared_counts._SHARE_SECONDS", 0.0)
    shares: list[int] = []

    async def scenario() -> None:
        enough = asyncio.Event()

        def share() -> None:
            shares.append(1)
            if len(shares) == 3:
                enough.set()

        async with sharing(share):
            await enough.wait()
        ended = len(shares)
        await asyncio.sleep(0.01)
        assert len(shares) == ended

    asyncio.run(scenario())
