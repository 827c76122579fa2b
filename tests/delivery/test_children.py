"""Child processes: their answers, their limits, and that none outlives its request."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import wraps
from inspect import Signature
from multiprocessing.process import BaseProcess
from pathlib import Path

import orjson
import pytest
import uvloop

from benchmarks.starvation.kinds import spoilt
from service.delivery import children as module
from service.delivery.children import ChildAnswer, ChildFailed, Children, memory_file
from service.delivery.endpoints import Endpoint
from service.delivery.negotiation import Job, RepresentationRequest
from service.delivery.schedule import Scheduler, Work
from service.delivery.streams import MAX_UNREAD_BYTES
from service.errors import Overloaded, Refusals, RequestTooLarge
from service.routes import REPORTS
from service.routes.diagnosed_models import DIAGNOSE
from service.settings import default_settings
from tests.client import Client
from tests.serving.connections import until

MIB = 2**20
# More than a child needs to begin, a tenth of a second.
_BUSY_TICKS = 10
JSON = "application/json"
NPY = "application/x-npy"
LARGE_TABLE = b"seq_len=4096&d_model=512"

Test = Callable[[Children], Awaitable[None]]


SLOW = spoilt(2**13)
"""An npy file that takes a long time to diagnose."""

# A thousand of these sums of 32,768 cosines take more than half a second of a processor.
SIMILARITY = Job(
    "/relative/similarity",
    "/relative/similarity",
    b"d_model=65536&offsets=0:40000",
    RepresentationRequest("png"),
)
DIAGNOSIS = Job(
    "/diagnose",
    "/diagnose",
    b"to=/encoding?seq_len=8192%26d_model=512",
    RepresentationRequest(),
    NPY,
)


def processes() -> list[int]:
    """Return the child processes that the forkserver of this process has, spares included."""
    servers = forkservers(os.getpid())
    return [pid for server in servers for pid in children_of(server) if pid not in _of_others]


_of_others: set[int] = set()


@pytest.fixture(autouse=True)
def _ignore_children_of_others() -> None:
    """Ignore the children of applications in this process, which share the forkserver."""
    _of_others.clear()
    _of_others.update(processes())


@pytest.fixture
def client(client: Client) -> Iterator[Client]:
    """Use the shared application, which has forked its spares when the next test begins."""
    yield client
    children = client.app.state.delivery.children

    async def fill() -> None:
        children.start()
        await asyncio.gather(*children._spares)

    client.run(fill())


def forkservers(pid: int) -> list[int]:
    return [
        child
        for child in children_of(pid)
        if b"multiprocessing.forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def files_of(pid: int | str) -> list[str]:
    return sorted(file.name for file in Path(f"/proc/{pid}/fd").iterdir())


def children_of(pid: int) -> list[int]:
    """Return the child processes that all threads of a process have started."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile.
        with suppress(FileNotFoundError):
            found += map(int, (thread / "children").read_text("ascii").split())
    return found


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def busy_process(running: asyncio.Task[ChildAnswer]) -> int:
    """Return the child that computes, once it does."""
    while not running.done():
        await asyncio.sleep(0.02)
        for pid in processes():
            if processor_ticks(pid) > _BUSY_TICKS:
                return pid
    pytest.fail(f"the job has ended: {running.result()}")


def with_children(test: Test) -> Callable[[], None]:
    """Run a test with Children in uvloop; afterwards no process and no file of it is left."""

    async def run() -> None:
        if not forkservers(os.getpid()):
            # It stays, with the files to it.
            first = Children(default_settings(), Refusals())
            await first.run(job_of(DIAGNOSE), body_of(DIAGNOSE), seconds=1, memory_bytes=256 * MIB)
            await first.close()
        files = files_of("self")
        children = Children(default_settings(), Refusals())
        try:
            await test(children)
        finally:
            await children.close()
        assert processes() == []
        assert len(files_of("self")) <= len(files)

    @wraps(test)
    def run_in_uvloop() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())

    run_in_uvloop.__signature__ = Signature()  # type: ignore[attr-defined]
    return run_in_uvloop


def job_of(report: Endpoint) -> Job:
    request = RepresentationRequest()
    return Job(report.path, report.path, report.example.encode(), request, JSON)


def body_of(report: Endpoint) -> bytes:
    return orjson.dumps(report.inputs.example)  # type: ignore[attr-defined]


async def until_at_rest() -> None:
    """Wait until a child has a job, and no child computes."""
    await until(lambda: len(processes()) == 3)
    before = -1
    while (ticks := sum(map(processor_ticks, processes()))) > before:
        before = ticks
        await asyncio.sleep(0.2)


def waiting_bytes(channel: int) -> int:
    """Return how many bytes a socket has received that were not read."""
    return int.from_bytes(fcntl.ioctl(channel, termios.FIONREAD, bytes(4)), sys.byteorder)


async def whole(answer: ChildAnswer) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    return b"".join([block async for block in answer.body])


def run(job: Job, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the answer of a child."""
    answers: list[tuple[int, dict[str, str], bytes]] = []

    @with_children
    async def answer(children: Children) -> None:
        made = await children.run(job, body, seconds=60, memory_bytes=1024 * MIB)
        headers = {name.decode(): value.decode() for name, value in made.headers}
        answers.append((made.status, headers, await whole(made)))

    answer()
    return answers[0]


@pytest.mark.parametrize("report", REPORTS.values(), ids=lambda report: report.path)
def test_report_of_a_child_is_the_report_of_a_thread(client: Client, report: Endpoint) -> None:
    body = body_of(report)

    status, headers, content = run(job_of(report), body)
    expected = client.post(
        f"{report.path}?{report.example}", content=body, headers={"Content-Type": JSON}
    )

    assert (status, content) == (expected.status_code, expected.content)
    assert headers.items() <= dict(expected.headers).items()


@pytest.mark.parametrize(
    ("extension", "is_digest"), [("png", False), ("npy", True), ("json", False), ("npy", False)]
)
def test_table_of_a_child_is_the_table_of_a_thread(
    client: Client, extension: str, *, is_digest: bool
) -> None:
    path = f"/encoding.{extension}{'.sha256' if is_digest else ''}"
    request = RepresentationRequest(extension, is_digest)

    _, headers, content = run(Job("/encoding", path, b"seq_len=64&d_model=512", request))
    expected = client.get(f"{path}?seq_len=64&d_model=512")

    assert content == expected.content
    assert headers.items() <= dict(expected.headers).items()


def test_transform_of_a_child_is_streamed_with_its_length(client: Client) -> None:
    body = spoilt(2**9)
    job = Job("/rope/apply", "/rope/apply", b"start=3", RepresentationRequest(), NPY)

    _, headers, content = run(job, body)
    expected = client.post("/rope/apply?start=3", content=body, headers={"Content-Type": NPY})

    assert content == expected.content
    assert headers["content-length"] == expected.headers["Content-Length"]


def test_text_for_a_client_without_chunks_has_a_length() -> None:
    chunked = Job("/encoding", "/encoding", b"seq_len=64&d_model=512", RepresentationRequest("csv"))
    request = RepresentationRequest("csv", takes_chunks=False)
    counted = Job("/encoding", "/encoding", b"seq_len=64&d_model=512", request)

    assert "content-length" not in run(chunked)[1]
    assert int(run(counted)[1]["content-length"]) == len(run(chunked)[2])


def test_refusal_of_a_child_is_the_refusal_of_a_thread(client: Client) -> None:
    job = Job("/diagnose", "/diagnose", b"zzz=1", RepresentationRequest(), JSON)

    status, headers, content = run(job, body_of(DIAGNOSE))
    expected = client.post("/diagnose?zzz=1", json=DIAGNOSE.inputs.example)  # type: ignore[attr-defined]

    assert (status, content) == (expected.status_code, expected.content)
    assert headers["content-type"] == "application/problem+json"


@with_children
async def test_cancelled_job_leaves_no_process(children: Children) -> None:
    running = asyncio.create_task(
        children.run(DIAGNOSIS, SLOW, seconds=60, memory_bytes=1024 * MIB)
    )
    pid = await busy_process(running)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert running.cancelled()
    await until(lambda: pid not in processes())


@with_children
async def test_closed_body_leaves_no_process(children: Children) -> None:
    job = Job("/encoding", "/encoding.csv", LARGE_TABLE, RepresentationRequest("csv"))
    answer = await children.run(job, seconds=60, memory_bytes=1024 * MIB)
    assert isinstance(answer.body, AsyncGenerator)
    await anext(answer.body)
    running = set(processes())

    await answer.body.aclose()

    await until(lambda: bool(running - set(processes())))


@with_children
async def test_dropped_body_leaves_no_process(children: Children) -> None:
    job = Job("/encoding", "/encoding.csv", LARGE_TABLE, RepresentationRequest("csv"))
    answer = await children.run(job, seconds=60, memory_bytes=1024 * MIB)
    running = set(processes())

    del answer

    await until(lambda: bool(running - set(processes())))


@with_children
async def test_child_waits_for_a_reader_that_waits(children: Children) -> None:
    job = Job("/encoding", "/encoding.csv", LARGE_TABLE, RepresentationRequest("csv"))
    answer = await children.run(job, seconds=60, memory_bytes=1024 * MIB)
    await until_at_rest()

    assert len(processes()) == 3
    assert (await whole(answer)).count(b"\n") >= 4096
    await until(lambda: len(processes()) == 2)


@with_children
async def test_body_is_computed_in_a_slot_and_takes_none_while_it_is_unread(
    children: Children,
) -> None:
    settings = default_settings().model_copy(update={"threads": 1, "wait_seconds": 1})
    scheduler = Scheduler(settings, Refusals())
    job = Job("/encoding", "/encoding.csv", LARGE_TABLE, RepresentationRequest("csv"))
    turn = scheduler.stream_of_child()
    answer = await children.run(job, seconds=60, memory_bytes=1024 * MIB, turn=turn)

    # None is left to other work.
    async with Work(scheduler.children, 1).slot(), Work(scheduler.children, 100).slot():
        reading = asyncio.create_task(whole(answer))
        await until_at_rest()
        assert not reading.done()

    assert (await reading).count(b"\n") >= 4096
    scheduler.close()


@with_children
async def test_unread_body_of_a_child_holds_little_memory(children: Children) -> None:
    job = Job("/encoding", "/encoding.csv", LARGE_TABLE, RepresentationRequest("csv"))
    answer = await children.run(job, seconds=60, memory_bytes=1024 * MIB)
    assert isinstance(answer.body, AsyncGenerator)
    piece = await anext(answer.body)
    await until_at_rest()

    waiting = sum(waiting_bytes(child._channel.fileno()) for child in children._children)
    # The generator keeps none: they are of the variable and of the call.
    references = sys.getrefcount(piece)
    await answer.body.aclose()

    assert MAX_UNREAD_BYTES / 2 < len(piece) + waiting <= MAX_UNREAD_BYTES
    assert references == 2


@with_children
async def test_job_of_a_killed_child_may_be_sent_again(children: Children) -> None:
    running = asyncio.create_task(
        children.run(DIAGNOSIS, SLOW, seconds=60, memory_bytes=1024 * MIB)
    )

    os.kill(await busy_process(running), signal.SIGKILL)

    with pytest.raises(Overloaded):
        await running
    assert children._refusals.counts["memory"] == 1


@with_children
async def test_spare_that_was_killed_gets_no_job(children: Children) -> None:
    children.start()
    await until(lambda: len(processes()) == 2)
    for pid in processes():
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not processes())

    answer = await children.run(
        job_of(DIAGNOSE), body_of(DIAGNOSE), seconds=1, memory_bytes=256 * MIB
    )

    assert answer.status == 200


@with_children
async def test_spares_that_could_not_be_forked_refuse_no_later_job(children: Children) -> None:
    def refuse() -> None:
        raise BlockingIOError

    job, body = job_of(DIAGNOSE), body_of(DIAGNOSE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_fork", refuse)
        children.start()
        with pytest.raises(Overloaded):
            await children.run(job, body, seconds=1, memory_bytes=256 * MIB)
        children.start()
        await until(lambda: all(spare.done() for spare in children._spares))

    answer = await children.run(job, body, seconds=1, memory_bytes=256 * MIB)

    assert answer.status == 200


@with_children
async def test_refused_process_ends_no_other(children: Children) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    running = asyncio.create_task(
        children.run(DIAGNOSIS, SLOW, seconds=60, memory_bytes=1024 * MIB)
    )
    await busy_process(running)
    await until(lambda: len(processes()) == 3)
    job, body = job_of(DIAGNOSE), body_of(DIAGNOSE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_NEXT_SPARE_SECONDS", 60)
        patch.setattr(threading, "_start_new_thread", refuse)
        taken = [await children._take(), await children._take()]
        with pytest.raises(Overloaded):
            await children.run(job, body, seconds=1, memory_bytes=256 * MIB)
    for child in taken:
        child.kill()

    assert not running.done()
    assert (await children.run(job, body, seconds=1, memory_bytes=256 * MIB)).status == 200
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@with_children
async def test_end_of_a_child_is_noted_if_its_waiter_is_cancelled(children: Children) -> None:
    child = await children._take()
    waiting = asyncio.create_task(child._ending())
    await asyncio.sleep(0)

    waiting.cancel()
    await until(child.ended.done)

    assert await child.ended == -signal.SIGKILL


@pytest.mark.full
@with_children
async def test_jobs_are_done_after_the_end_of_the_forkserver(children: Children) -> None:
    job, body = job_of(DIAGNOSE), body_of(DIAGNOSE)
    children.start()
    (forkserver,) = forkservers(os.getpid())
    await until(lambda: all(spare.done() for spare in children._spares))
    spares = processes()

    os.kill(forkserver, signal.SIGKILL)
    await until(lambda: not any(Path(f"/proc/{spare}").exists() for spare in spares))
    # The event loop notices the end of the spares.
    await asyncio.sleep(0.01)
    answer = await children.run(job, body, seconds=1, memory_bytes=256 * MIB)

    assert answer.status == 200


@with_children
async def test_many_jobs_leave_two_spares(children: Children) -> None:
    job, body = job_of(DIAGNOSE), body_of(DIAGNOSE)

    await asyncio.gather(
        *(children.run(job, body, seconds=1, memory_bytes=256 * MIB) for _ in range(6))
    )

    await until(lambda: len(processes()) == 2)


@with_children
async def test_child_of_a_brief_job_takes_the_next_one(children: Children) -> None:
    children.start()
    await until(lambda: len(processes()) == 2)
    spares = processes()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_NEXT_SPARE_SECONDS", 60)
        for report in (*REPORTS.values(), *REPORTS.values()):
            job, body = job_of(report), body_of(report)
            await whole(await children.run(job, body, seconds=1, memory_bytes=256 * MIB))

    assert processes() == spares


@with_children
async def test_child_that_keeps_memory_takes_no_further_job(children: Children) -> None:
    wide = Job("/encoding", "/encoding", b"seq_len=4&d_model=65536", RepresentationRequest("npy"))
    children.start()
    await until(lambda: len(processes()) == 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_NEXT_SPARE_SECONDS", 60)
        await whole(await children.run(wide, seconds=1, memory_bytes=256 * MIB))

    await until(lambda: len(processes()) == 1)


@pytest.mark.full
@with_children
async def test_job_beyond_its_processor_time_is_refused(children: Children) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST_SECONDS", 1)
        with pytest.raises(RequestTooLarge, match="POSREF_MAX_REQUEST_SECONDS"):
            await children.run(SIMILARITY, seconds=0.1, memory_bytes=1024 * MIB)


@with_children
async def test_job_beyond_its_memory_is_too_large(children: Children) -> None:
    table = Job("/encoding", "/encoding", LARGE_TABLE, RepresentationRequest("png"))
    smaller = r"\(POSREF_MEMORY_BYTES\): request a smaller table"

    with pytest.raises(RequestTooLarge, match=f"{smaller}, or send the first rows$"):
        await children.run(DIAGNOSIS, SLOW, seconds=60, memory_bytes=8 * MIB)
    with pytest.raises(RequestTooLarge, match=f"{smaller}$"):
        await children.run(table, seconds=60, memory_bytes=0)


@with_children
async def test_failure_of_a_child_has_its_traceback(children: Children) -> None:
    job = Job("/nothing", "/nothing", b"", RepresentationRequest())

    with pytest.raises(ChildFailed, match="in answer_job"):
        await children.run(job, seconds=1, memory_bytes=64 * MIB)


@with_children
async def test_body_is_read_from_a_file_that_stays_open(children: Children) -> None:
    file = memory_file()
    os.write(file, body_of(DIAGNOSE))

    first = await children.run(job_of(DIAGNOSE), file, seconds=1, memory_bytes=256 * MIB)
    again = await children.run(job_of(DIAGNOSE), file, seconds=1, memory_bytes=256 * MIB)

    os.close(file)
    assert first.status == 200
    assert first.body == again.body


@with_children
async def test_child_is_nice_and_the_first_to_be_killed(children: Children) -> None:
    children.start()
    await until(lambda: len(processes()) == 2)
    pid = processes()[0]
    await until(lambda: os.getpgid(pid) == pid)

    await until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 10)
    await until(lambda: Path(f"/proc/{pid}/oom_score_adj").read_text("ascii") == "1000\n")
    # The standard streams and the channel.
    await until(lambda: len(files_of(pid)) == 4)


EXITING = """
import asyncio
from tests.delivery.test_children import DIAGNOSIS, MIB, SLOW, busy_process
from service.delivery.children import Children
from service.errors import Refusals
from service.settings import default_settings

async def leave():
    children = Children(default_settings(), Refusals())
    running = children.run(DIAGNOSIS, SLOW, seconds=60, memory_bytes=1024 * MIB)
    print(await busy_process(asyncio.create_task(running)), flush=True)
    raise SystemExit(5)

if __name__ == "__main__":
    asyncio.run(leave())
"""


def test_child_whose_start_is_cancelled_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    run(job_of(DIAGNOSE), body_of(DIAGNOSE))  # Starts the forkserver, whose files stay.
    files = files_of("self")
    children = Children(default_settings(), Refusals())
    has_begun, may_fork, fork = threading.Event(), threading.Event(), module._fork

    def fork_later() -> tuple[BaseProcess, socket.socket]:
        has_begun.set()
        may_fork.wait()
        return fork()

    async def start() -> None:
        monkeypatch.setattr(module, "_fork", fork_later)
        children.start()
        await until(has_begun.is_set)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start())
    may_fork.set()
    children._starter.shutdown()

    with asyncio.Runner() as runner:
        runner.run(until(lambda: processes() == []))
    assert len(files_of("self")) <= len(files)


@pytest.mark.full
def test_process_that_exits_does_not_wait_for_its_children() -> None:
    command = [sys.executable, "-c", EXITING]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}

    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )

    assert ended.returncode == 5, ended.stderr
    asyncio.run(until(lambda: not Path(f"/proc/{int(ended.stdout)}").exists()))


PROGRAM = """
import asyncio, sys
from service.__main__ import main
from service.delivery.children import Children
from service.errors import Refusals
from service.settings import default_settings

async def wait():
    Children(default_settings(), Refusals()).start()
    await asyncio.sleep(3600)

if __name__ == "__main__":
    import uvicorn, uvloop, httptools
    asyncio.run(wait())
"""


def test_children_end_with_a_killed_server_and_import_no_part_of_it(tmp_path: Path) -> None:
    script = tmp_path / "posref"
    script.write_text(PROGRAM)
    command = [sys.executable, "-W", "error", str(script)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())}) as server:
        try:
            asyncio.run(until(lambda: any(map(children_of, forkservers(server.pid)))))
            (forkserver,) = forkservers(server.pid)
            child = children_of(forkserver)[0]
            asyncio.run(until(lambda: len(files_of(child)) == 4))
            mapped = Path(f"/proc/{child}/maps").read_text("utf-8")
            threads = len(list(Path(f"/proc/{forkserver}/task").iterdir()))
        finally:
            server.kill()

    assert "numpy" in mapped
    assert not [name for name in ("uvloop", "httptools") if name in mapped]
    assert threads == 1
    asyncio.run(
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (forkserver, child)))
    )
