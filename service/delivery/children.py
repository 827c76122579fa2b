"""Child processes for work that cannot be cut in turns: reports, drawings, digests.

A thread that computes cannot be stopped, nor bounded in memory; a process can. Each does one piece
of work at a time, and is forked from a server that has imported everything (``service.child``);
spares are forked in advance. It is killed as soon as nobody waits for its work, and after long
work; after brief work it takes the next one, because a fork and its first touch of the shared
memory take several times the processor time of a small report.

A job goes to the child as a pickle, and its body as an open file. The answer comes back over the
same socket in frames: JSON for the head, then the blocks of the body. The child computes the first
block with the head, and each other one when it is asked for.
"""

import asyncio
import logging
import os
import pickle
import signal
import socket
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from threading import Thread
from typing import Any, TypeAlias

import orjson

from service.delivery.negotiation import Job, RawHeaders
from service.errors import Refusals, RequestTooLarge
from service.settings import Settings

LENGTH_BYTES = 8
"""The bytes of the length before each frame."""
NEXT = b"."
"""A message to a child: compute and send the next block."""
FAILED = 2**64 - 1
"""In place of the length of a block: the frame of a failure follows."""

Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""Returns the slot to hold while a child computes a block."""

_CHILD_MODULE = "service.child"
_NAME = "posref-child"

_SPARES = 2
_TRIES = 3
# An estimate is right within a factor of 4.
_TIME_FACTOR = 4
_LEAST_SECONDS = 10
# A child whose job ends within this time takes the next one; otherwise another spare is forked.
_NEXT_SPARE_SECONDS = 0.1

# The most that is received at a time. A body up to this length is received whole, so that its child
# is free before it is sent.
_PIECE_BYTES = 64 * 1024
# Linux doubles it. What a child has sent and nobody has received takes memory beside a piece.
_SEND_BUFFER_BYTES = 24 * 1024

_log = logging.getLogger("posref.children")


class ChildFailed(Exception):
    """An error in a child process; the message is its traceback."""


class _Lost(Exception):
    """A child has ended before it took its job."""


@dataclass(frozen=True)
class Bounds:
    """The limits of a child.

    Attributes:
        seconds: its processor time.
        memory_bytes: its memory, without what it begins with and the body of the request.
    """

    seconds: int
    memory_bytes: int


@dataclass(frozen=True)
class ChildAnswer:
    """The answer of a child.

    Attributes:
        status: the status code.
        headers: all headers, with Content-Length unless the body is bytes or its length unknown.
        body: the whole body if it is short; else its pieces, which must be closed. The child
            waits while none is awaited.
        seconds: the processor time of the child until the body began.
    """

    status: int
    headers: RawHeaders
    body: bytes | AsyncGenerator[bytes, None]
    seconds: float


class Children:
    """Runs jobs in child processes, one at a time in each; belongs to one event loop."""

    def __init__(self, settings: Settings, refusals: Refusals) -> None:
        self._settings = settings
        self._refusals = refusals
        self._starter = ThreadPoolExecutor(1, "posref-children")
        self._spares: deque[asyncio.Future[_Child | None]] = deque()
        self._starting: set[asyncio.Task[_Child | None]] = set()
        self._children: set[_Child] = set()
        self._is_closed = False

    def start(self) -> None:
        """Begin to fork the spares; otherwise the first job does.

        Raises RuntimeError if the system refuses the thread that forks.
        """
        self._starter.submit(int)
        self._fill()

    async def run(
        self,
        job: Job,
        body: bytes | int | None = None,
        *,
        seconds: float,
        memory_bytes: int,
        turn: Turn = nullcontext,
    ) -> ChildAnswer:
        """Return the answer to a job; the child is killed if the caller is cancelled.

        Args:
            job: the request.
            body: its body, or the descriptor of a file with it, which stays open.
            seconds: the estimated processor time. The child is stopped after four times as much,
                unless it has begun to send a body that it computes while it sends it.
            memory_bytes: the memory that the child may use, without the body of the request.
            turn: returns what is held while a block is computed, after this has returned.

        Raises:
            Overloaded: no child can be started, or it was killed from outside.
            RequestTooLarge: a limit was reached.
            ChildFailed: the child has failed.
        """
        limit_seconds = max(_LEAST_SECONDS, ceil(_TIME_FACTOR * seconds))
        bounds = Bounds(limit_seconds, memory_bytes)
        for _ in range(_TRIES):
            child = await self._take()
            try:
                await child.send((job, self._settings, bounds), body)
                return await child.answer(turn)
            except _Lost:
                # It has ended without a job, as a spare may; another one gets the job.
                continue
            except BaseException:
                child.kill()
                raise
        detail = "the server has lost the processes of this request"
        raise self._refusals.overloaded("memory", detail)

    async def close(self) -> None:
        """Kill all children, and wait until they have ended."""
        self._is_closed = True
        while self._starting:
            await asyncio.gather(*self._starting)
        spares = [spare.result() for spare in self._spares]
        children = {*self._children, *filter(None, spares)}
        for child in children:
            child.kill()
        await asyncio.gather(*(child.ended for child in children))
        self._starter.shutdown()

    async def _take(self) -> "_Child":
        """Return a child that waits for a job; raises Overloaded if none can be forked."""
        while True:
            is_spare = bool(self._spares)
            spare = self._spares.popleft() if is_spare else self._begin()
            try:
                child = await asyncio.shield(spare)
            except asyncio.CancelledError:
                self._spares.append(spare)
                raise
            if child is not None and not child.ended.done():
                loop = asyncio.get_running_loop()
                child.replacing = loop.call_later(_NEXT_SPARE_SECONDS, self._fill)
                return child
            if child is not None:
                child.kill()
            elif not is_spare:
                detail = "the server cannot start a process for this request now"
                raise self._refusals.overloaded("memory", detail)

    def _fill(self) -> None:
        while len(self._spares) < _SPARES and not self._is_closed:
            self._spares.append(self._begin())

    def _keep(self, child: "_Child") -> None:
        """Keep a child that has done its job for the next one, unless there are enough."""
        child.replacing.cancel()
        if len(self._spares) >= _SPARES or self._is_closed:
            child.kill()
            return
        spare: asyncio.Future[_Child | None] = asyncio.get_running_loop().create_future()
        spare.set_result(child)
        self._spares.appendleft(spare)

    def _begin(self) -> "asyncio.Task[_Child | None]":
        task = asyncio.get_running_loop().create_task(self._forked())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return task

    async def _forked(self) -> "_Child | None":
        """Return a new child, or None if the system refuses one."""
        try:
            fork = self._starter.submit(_fork)
            process, channel = await asyncio.wrap_future(fork)
        except asyncio.CancelledError:
            fork.add_done_callback(_end)
            raise
        except (OSError, EOFError, RuntimeError) as error:
            _log.warning("no process can be started: %r", error)
            return None
        child = _Child(process, channel, self._refusals, self._keep)
        self._children.add(child)
        child.ended.add_done_callback(lambda _: self._children.discard(child))
        return child


class _Child:
    """A child process, and the socket to it.

    Attributes:
        ended: the exit code, once the process has ended.
        replacing: forks a spare in place of this one, if its job takes long.
    """

    replacing: asyncio.TimerHandle

    def __init__(
        self,
        process: BaseProcess,
        channel: socket.socket,
        refusals: Refusals,
        keep: Callable[["_Child"], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._channel = channel
        self._refusals = refusals
        self._keep = keep
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(process.sentinel, self._end)

    def kill(self) -> None:
        """End the process; may be called twice."""
        self._channel.close()
        if not self.ended.done():
            self._process.kill()

    async def _killed(self) -> int:
        """End the process, and return its exit code."""
        self.kill()
        # A waiter that is cancelled must not cancel what others wait for.
        return await asyncio.shield(self.ended)

    def _end(self) -> None:
        """Note the exit code of the process, which has ended."""
        self._loop.remove_reader(self._process.sentinel)
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        self._process.close()
        self.ended.set_result(code)

    async def send(self, message: object, body: bytes | int | None) -> None:
        """Send a message, and a body as an open file; raises _Lost if the child has ended."""
        self._way_out = "request a smaller table" + ", or send the first rows" * (body is not None)
        pickled = pickle.dumps(message)
        frame = len(pickled).to_bytes(LENGTH_BYTES, "big") + pickled
        file = _file_with(body) if isinstance(body, bytes) else body
        try:
            sent_bytes = socket.send_fds(self._channel, [frame], [] if file is None else [file])
            await self._loop.sock_sendall(self._channel, frame[sent_bytes:])
        except OSError:
            await self._killed()
            raise _Lost from None
        finally:
            if isinstance(body, bytes) and file is not None:
                os.close(file)

    async def answer(self, turn: Turn) -> ChildAnswer:
        """Return the answer, with the whole body if it is short."""
        head = await self._document()
        status, length_bytes = head["status"], head["length_bytes"]
        headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in head["headers"]
        ]
        if length_bytes is not None:
            if length_bytes <= _PIECE_BYTES:
                whole = b"".join([piece async for piece in self._pieces(nullcontext)])
                return ChildAnswer(status, headers, whole, head["seconds"])
            headers.append((b"content-length", b"%d" % length_bytes))
        pieces = self._pieces(turn)
        # Dropping a generator that has not begun would not kill the child.
        await anext(pieces)
        return ChildAnswer(status, headers, pieces, head["seconds"])

    async def _pieces(self, turn: Turn) -> AsyncGenerator[bytes, None]:
        """Yield an empty piece, and the body as it comes; the child is killed unless all came."""
        try:
            yield b""
            left_bytes = await self._length()
            while left_bytes:
                pieces = [await self._piece(min(left_bytes, _PIECE_BYTES))]
                left_bytes -= len(pieces[0])
                # Only the reader keeps it.
                yield pieces.pop()
                if not left_bytes:
                    async with turn():
                        left_bytes = await self._next_length()
        except BaseException:
            self.kill()
            raise
        self._keep(self)

    async def _document(self) -> dict[str, Any]:
        """Receive the head of an answer; raises the error of a child that has failed."""
        document: dict[str, Any] = orjson.loads(await self._received(await self._length()))
        if document.get("is_memory"):
            rule = "the request needs more memory than a request can have (POSREF_MEMORY_BYTES)"
            raise RequestTooLarge(f"{rule}: {self._way_out}")
        if "traceback" in document:
            raise ChildFailed(document["traceback"])
        return document

    async def _next_length(self) -> int:
        """Have the next block computed, and return its length; 0 at the end."""
        # Receiving reports the end of the child.
        with suppress(OSError):
            self._channel.send(NEXT)
        length_bytes = await self._length()
        if length_bytes == FAILED:
            await self._document()
        return length_bytes

    async def _length(self) -> int:
        return int.from_bytes(await self._received(LENGTH_BYTES), "big")

    async def _received(self, length_bytes: int) -> bytes:
        received = b""
        while len(received) < length_bytes:
            received += await self._piece(length_bytes - len(received))
        return received

    async def _piece(self, most_bytes: int) -> bytes:
        """Receive some bytes; if the child has ended, raise the error that says why."""
        try:
            piece = await self._loop.sock_recv(self._channel, most_bytes)
        except ConnectionError:
            piece = b""
        if not piece:
            raise await self._ending()
        return piece

    async def _ending(self) -> Exception:
        """Return the error for a child that has ended without an answer."""
        code = await self._killed()
        if code == -signal.SIGXCPU:
            rule = "the request needs more processor time than it may have"
            return RequestTooLarge(f"{rule} (POSREF_MAX_REQUEST_SECONDS): {self._way_out}")
        if code == 0:
            return _Lost()
        _log.warning("a child process ended with code %d before its answer", code)
        detail = "the process of this request was stopped: the server lacks memory"
        return self._refusals.overloaded("memory", detail)


def memory_file() -> int:
    """Return the descriptor of a new file without a name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("posref-body")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _file_with(body: bytes) -> int:
    file = memory_file()
    with open(file, "wb", closefd=False) as stream:
        stream.write(body)
    return file


def _fork() -> tuple[BaseProcess, socket.socket]:
    """Return a new child process and the socket to it; the first one starts the forkserver.

    Raises OSError, EOFError or RuntimeError if the system refuses a process.
    """
    # A forkserver that cannot fork ends, and all children with it. A limit of processes counts
    # threads, too, and a thread that is refused ends nothing.
    probe = Thread(target=int)
    probe.start()
    probe.join()
    context = get_context("forkserver")
    context.set_forkserver_preload([_CHILD_MODULE])
    channel, far_end = socket.socketpair()
    channel.setblocking(False)
    far_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    process = context.Process(target=_work, args=(far_end,), name=_NAME, daemon=True)
    try:
        process.start()
    except BaseException:
        channel.close()
        raise
    finally:
        far_end.close()
    return process, channel


def _end(fork: Future[tuple[BaseProcess, socket.socket]]) -> None:
    """End the child of a fork that nobody waits for any more."""
    if not fork.cancelled() and fork.exception() is None:
        process, channel = fork.result()
        channel.close()
        process.kill()
        process.join()
        process.close()


def _work(channel: socket.socket) -> None:
    """Do the work of a child; only there the module is imported, by the forkserver."""
    import_module(_CHILD_MODULE).work(channel)


def _kill_all() -> None:
    """Kill all children: they ignore SIGTERM, and multiprocessing waits for them at exit."""
    for process in active_children():
        if process.name == _NAME:
            process.kill()


Finalize(None, _kill_all, exitpriority=0)
