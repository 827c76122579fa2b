"""The work of a child process: jobs, each within its limits, answered over a socket.

Only the forkserver imports this module (``service.delivery.children``). The import makes it ready:
it imports all that a job needs, and runs each kind of job once, so that a child begins with warm
caches and shares the memory of them.
"""

import ctypes
import errno
import gc
import mmap
import os
import pickle
import resource
import signal
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from math import ceil
from pathlib import Path

# The forkserver and its children yield to the server, which answers requests while they start.
os.nice(10)

# The server decides when its children end: a terminal and systemd signal them, too.
for _sig in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_sig, signal.SIG_IGN)

import orjson  # noqa: E402

from service.delivery.children import FAILED, LENGTH_BYTES, NEXT, Bounds  # noqa: E402
from service.delivery.endpoints import JsonObject, ReportedArrays  # noqa: E402
from service.delivery.negotiation import Job, RawHeaders, RepresentationRequest  # noqa: E402
from service.delivery.plans import (  # noqa: E402
    Plan,
    named_arrays,
    plan_get,
    read_post,
    read_query,
    report_get,
)
from service.delivery.problems import refusal  # noqa: E402
from service.delivery.responses import Answer  # noqa: E402
from service.delivery.schedule import joined_blocks  # noqa: E402
from service.errors import PosrefError  # noqa: E402
from service.formats import FORMATS  # noqa: E402
from service.formats.format import BLOCK_BYTES, Block  # noqa: E402
from service.formats.json_text import JSON  # noqa: E402
from service.memory import give_back_freed  # noqa: E402
from service.routes import ENDPOINTS, RESOURCES  # noqa: E402
from service.settings import MIB, Settings, default_settings  # noqa: E402

_FORKSERVER = os.getpid()
_PR_SET_PDEATHSIG = 1
_STANDARD_STREAMS = 3
_MOST_FILES = 4096
# A child that keeps more memory of its jobs, as in caches, takes no further one.
_MOST_KEPT_BYTES = 4 * MIB
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)


@dataclass(frozen=True)
class JobAnswer:
    """The answer to a job, whose body is not computed yet.

    Attributes:
        status: the status code.
        headers: the headers, without Content-Length.
        blocks: computes the body.
        length_bytes: its length; None if it is unknown.
        is_cut: whether the body is computed in turns, so that sending it paces the work.
    """

    status: int
    headers: RawHeaders
    blocks: Iterator[Block]
    length_bytes: int | None
    is_cut: bool


def answer_job(job: Job, body: Block, settings: Settings) -> JobAnswer:
    """Return the answer to a job; raises PosrefError."""
    endpoint, request = ENDPOINTS[job.resource], job.request
    if job.media_type is None:
        # Formats are compared by identity, and a pickle makes another one.
        job = replace(job, request=replace(request, default=FORMATS[request.default.extension]))
        if endpoint.by_get is not None:
            head, content = report_get(endpoint.by_get, job, settings)
            return _finished(head.streamed(None, content))
        return _planned(plan_get(endpoint, job, settings))
    form = endpoint.inputs.formats[job.media_type]
    job = replace(job, request=replace(request, default=form))
    query, form = read_query(endpoint, form, job.query)
    plan = read_post(endpoint, job, query, form, body).plan(settings)
    return _planned(plan) if isinstance(plan, Plan) else _finished(plan)


def _planned(plan: Plan) -> JobAnswer:
    representation, head = plan.representation, plan.head
    headers = [*head.headers, *head.content_headers]
    length_bytes = representation.length_bytes
    if length_bytes is None and not plan.job.request.takes_chunks:
        # The body is computed twice, so that it is never whole in memory.
        length_bytes = sum(map(len, representation.body.blocks()))
    is_cut = not (representation.is_digest or representation.form.is_drawn)
    return JobAnswer(200, headers, representation.body.blocks(), length_bytes, is_cut)


def _finished(answer: Answer) -> JobAnswer:
    assert isinstance(answer.payload, bytes)
    headers = [header for header in answer.raw_headers if header[0] != b"content-length"]
    body = answer.payload
    return JobAnswer(answer.status_code, headers, iter([body]), len(body), is_cut=False)


def work(channel: socket.socket) -> None:
    """Answer jobs until the server closes the channel, a job fails, or too much memory is kept."""
    _leave_server(channel)
    least_bytes = used_bytes = _used_bytes()
    while used_bytes <= least_bytes + _MOST_KEPT_BYTES:
        message, body = _receive(channel)
        job, settings, bounds = pickle.loads(message)  # noqa: S301 - the server sends it.
        _limit(bounds, used_bytes + len(body))
        if not _answer(channel, job, body, settings):
            break
        _lift(resource.RLIMIT_AS)
        _lift(resource.RLIMIT_CPU)
        del message, body, job
        give_back_freed()
        used_bytes = _used_bytes()
    os._exit(0)


def _answer(channel: socket.socket, job: Job, body: Block, settings: Settings) -> bool:
    """Send the answer to a job, or what has failed; return whether the answer is sent."""
    began, has_begun = time.process_time(), False
    try:
        answer = _begun(job, body, settings)
        if answer.is_cut:
            _lift(resource.RLIMIT_CPU)
        headers = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers
        ]
        head = {"status": answer.status, "headers": headers, "length_bytes": answer.length_bytes}
        _send(channel, orjson.dumps({**head, "seconds": time.process_time() - began}))
        has_begun = True
        for block in answer.blocks:
            _send(channel, block)
            if channel.recv(len(NEXT)) != NEXT:
                return False
        _send(channel, b"")
    except ConnectionError:
        # Nobody waits for the answer.
        return False
    except Exception as error:  # noqa: BLE001 - the server logs it.
        _lift(resource.RLIMIT_AS)
        is_memory = isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM
        if has_begun:
            channel.sendall(FAILED.to_bytes(LENGTH_BYTES, "big"))
        failure = {"traceback": traceback.format_exc(), "is_memory": is_memory}
        _send(channel, orjson.dumps(failure))
        return False
    return True


def _begun(job: Job, body: Block, settings: Settings) -> JobAnswer:
    """Return the answer to a job with its first block computed, or the answer of a refusal."""
    try:
        with named_arrays(job):
            answer = answer_job(job, body, settings)
            turns: Iterator[Block] = iter(partial(joined_blocks, answer.blocks, BLOCK_BYTES), None)
            blocks = (block for block in turns if block)
            first = list(islice(blocks, 1))
    except PosrefError as error:
        return _finished(refusal(error))
    return replace(answer, blocks=chain(first, blocks))


def _send(channel: socket.socket, frame: Block) -> None:
    channel.sendall(len(frame).to_bytes(LENGTH_BYTES, "big"))
    channel.sendall(frame)


def _leave_server(channel: socket.socket) -> None:
    """End with the server, and keep none of its files but the channel."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _FORKSERVER:
        os._exit(1)
    os.setpgid(0, 0)
    with suppress(OSError), Path("/proc/self/oom_score_adj").open("w") as file:
        file.write("1000")
    kept = channel.fileno()
    os.closerange(_STANDARD_STREAMS, kept)
    os.closerange(kept + 1, _MOST_FILES)


def _receive(channel: socket.socket) -> tuple[bytes, Block]:
    """Return the message of a job, and its body; end the process if the server closes."""
    length, files, _, _ = socket.recv_fds(channel, LENGTH_BYTES, 1)
    if not length:
        os._exit(0)
    with channel.makefile("rb") as stream:
        message = stream.read(int.from_bytes(length, "big"))
    if not files:
        return message, b""
    is_empty = os.fstat(files[0]).st_size == 0
    body = b"" if is_empty else mmap.mmap(files[0], 0, access=mmap.ACCESS_READ)
    os.close(files[0])
    return message, memoryview(body)


def _used_bytes() -> int:
    """Return the size of the address space of this process; 0 where the system does not tell."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * mmap.PAGESIZE
    return 0


def _limit(bounds: Bounds, used_bytes: int) -> None:
    """Set the limits of this process, beyond what it has used already."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, bounds.seconds + ceil(time.process_time()))
    if used_bytes:
        _lower(resource.RLIMIT_AS, used_bytes + bounds.memory_bytes)


def _lower(limit: int, value: int) -> None:
    """Lower a limit; the hard limit stays, so that ``_lift`` can raise it again."""
    hard = resource.getrlimit(limit)[1]
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (soft, hard))


def _lift(limit: int) -> None:
    hard = resource.getrlimit(limit)[1]
    resource.setrlimit(limit, (hard, hard))


def _warm() -> None:
    """Import all endpoints, run each kind of job once, and keep memory out of collections."""
    settings = default_settings()
    drawn = RESOURCES["/encoding"]
    request = RepresentationRequest()
    drawing = RepresentationRequest("png")
    jobs = [(Job(drawn.path, ".png", drawn.example.encode(), drawing), b"")]
    for endpoint in ENDPOINTS.values():
        if endpoint.report is not None and not endpoint.has_get:
            inputs, query = endpoint.inputs, endpoint.example.encode()
            assert isinstance(inputs, JsonObject | ReportedArrays)
            job = Job(endpoint.path, endpoint.path, query, request, JSON.media_type)
            jobs.append((job, orjson.dumps(inputs.example)))
    for job, body in jobs:
        b"".join(answer_job(job, body, settings).blocks)
    gc.collect()
    give_back_freed()
    gc.freeze()


_warm()
