"""An implementation that is judged: a command that answers questions, one JSON object a line.

Whatever the command does, the runner neither waits for ever nor believes a message that it did not
ask for. Its standard error is that of the runner.
"""

import os
import re
import selectors
import signal
import subprocess
import time
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import orjson

from service.errors import shortened

PROTOCOL = 1
# How long a command may take to leave.
LEAVE_SECONDS = 5.0
# More than the largest case of the full suite in JSON, by far.
MOST_LINE_BYTES = 2**25
_READ_BYTES, _KEPT_BYTES = 2**16, 2**7
# How long a process that has closed its pipes may take to end.
_END_SECONDS = 1.0
# A child of the command may hold its pipes: whether the command lives is looked at so often.
_LOOK_SECONDS = 0.05
# Signals that end the runner, and the command with it.
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
# What a command may say. A line that is not JSON is a message that went wrong if it has a type.
_TYPES = ("hello", "answer", "unsupported", "error")
_TYPED = re.compile(rf'"type"\s*:\s*"({"|".join(_TYPES)})"'.encode())


class ImplementationFailed(Exception):
    """The command does not start, ends, is silent, or speaks another protocol."""


@dataclass
class Conduct:
    """The conduct of a command, beside its answers.

    Attributes:
        hello: what the implementation says of itself.
        passed_over: how many lines on its standard output are no messages.
        first_passed_over: the first of them.
        unasked: how many messages came that nothing had asked for.
        was_ended: True if it did not leave when it was asked to.
        code: its exit code, once it has left.
    """

    hello: Mapping[str, Any] = field(default_factory=dict)
    passed_over: int = 0
    first_passed_over: str = ""
    unasked: int = 0
    was_ended: bool = False
    code: int | None = None


class Implementation:
    """A running command.

    Attributes:
        conduct: what it does beside its answers.
    """

    def __init__(self, command: Sequence[str], timeout_seconds: float) -> None:
        """Start a command; raises ImplementationFailed."""
        self.conduct = Conduct()
        self._timeout_seconds = timeout_seconds
        self._received, self._is_too_long, self._is_early = bytearray(), False, False
        self._has_ended = False
        try:
            # A session of its own: its process group can be ended with all of its children.
            self._process = subprocess.Popen(  # noqa: S603 - running it is what the caller asks for.
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ImplementationFailed(f"{command[0]} does not start: {reason}") from error
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    def __enter__(self) -> Self:
        # A session of its own would outlive the runner.
        self._handlers = {each: signal.signal(each, _exit) for each in _ENDINGS}
        return self

    def __exit__(self, *_: object) -> None:
        """End the command, if it has not left, and the children that it leaves behind."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for each, handler in self._handlers.items():
            signal.signal(each, handler)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def greet(self, version: str) -> None:
        """Exchange greetings about a version of the suite; raises ImplementationFailed."""
        hello = self._answer_to({"type": "hello", "protocol": PROTOCOL, "suite": version})
        if hello.get("type") != "hello":
            raise ImplementationFailed(f"the answer to hello is {shortened(hello)}, and not hello")
        if (spoken := hello.get("protocol")) != PROTOCOL:
            rule = f"it speaks protocol {shortened(spoken)}, and the runner speaks {PROTOCOL}"
            raise ImplementationFailed(rule)
        for name in ("kinds", "rope_types", "resources"):
            listed = hello.get(name, [])
            if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
                raise ImplementationFailed(f"hello: {name} must be a list of strings")
        self.conduct.hello = hello

    def offers(self, kind: str, resource: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether the implementation says that it answers such questions.

        The rules are those of ``/rope`` and of ``/rope/apply``; of a model, its config has the
        rule. ``resources`` are the others.
        """
        is_rotary = kind in {"table", "rotate"} and resource in {"/rope", "/rope/apply"}
        asked = {"kinds": kind}
        if is_rotary:
            asked["rope_types"] = str(parameters.get("rope_type", "default"))
        elif kind != "model":
            asked["resources"] = resource
        return all(value in self.conduct.hello.get(name, [value]) for name, value in asked.items())

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question; raises ImplementationFailed if there is none."""
        self._receive()
        self._drop_unasked()
        # Neither is a line the answer that has begun before the question.
        self._is_early = bool(self._received)
        return self._answer_to(message)

    def _answer_to(self, message: Mapping[str, Any]) -> dict[str, Any]:
        pending = memoryview(orjson.dumps(message) + b"\n")
        deadline = time.monotonic() + self._timeout_seconds
        while (answer := self._next_message()) is None:
            if self._has_ended:
                raise ImplementationFailed(self._ending())
            if time.monotonic() > deadline:
                raise ImplementationFailed(f"no answer within {self._timeout_seconds:g} seconds")
            pending = self._exchange(pending, min(_LOOK_SECONDS, self._timeout_seconds))
        if pending:
            raise ImplementationFailed("it answers before it has read the question")
        return answer

    def leave(self) -> None:
        """Wait until the command has ended, which a message asks for, but not for long."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError):
            os.write(stdin.fileno(), orjson.dumps({"type": "bye"}) + b"\n")
        with suppress(OSError):
            stdin.close()
        deadline = time.monotonic() + LEAVE_SECONDS
        while not self._has_ended and time.monotonic() < deadline:
            self._exchange(memoryview(b""), _LOOK_SECONDS)
            self._drop_unasked()
        with suppress(subprocess.TimeoutExpired):
            self.conduct.code = self._process.wait(max(deadline - time.monotonic(), 0.0))
        self.conduct.was_ended = self.conduct.code is None

    def _ending(self) -> str:
        """Return how the command has ended, or what it has closed."""
        try:
            return ending_of(self._process.wait(_END_SECONDS))
        except subprocess.TimeoutExpired:
            return "it closes its standard input or output"

    def _exchange(self, pending: memoryview, seconds: float) -> memoryview:
        """Send and receive what can be, and wait for it so long; return what is not sent yet."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if pending:
                selector.register(stdin, selectors.EVENT_WRITE)
            ready = {key.fileobj for key, _ in selector.select(seconds)}
        if stdout in ready or self._process.poll() is not None:
            self._receive()
        if stdin in ready:
            try:
                return pending[os.write(stdin.fileno(), pending) :]
            except OSError:
                # The last words, if there are any, are read first.
                self._receive()
                self._has_ended = True
        return pending

    def _receive(self) -> None:
        """Read what has arrived."""
        assert self._process.stdout is not None
        # Before the last words are read, which come before the end.
        is_over = self._process.poll() is not None
        try:
            block = os.read(self._process.stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            # A child may hold the pipe open when the command has ended.
            self._has_ended = is_over
            return
        self._has_ended = not block
        self._received += block
        if len(self._received) > MOST_LINE_BYTES and b"\n" not in self._received:
            # Its beginning tells a message from noise.
            del self._received[_KEPT_BYTES:]
            self._is_too_long = True

    def _drop_unasked(self) -> None:
        """Count the messages that came before they were asked for."""
        while self._next_message() is not None:
            self.conduct.unasked += 1

    def _next_message(self) -> dict[str, Any] | None:
        """Return the next message that has arrived; None if there is none."""
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end]).strip().removeprefix(BOM_UTF8)
            del self._received[: end + 1]
            message = _message_of(line)
            if self._is_too_long and line.startswith(b"{"):
                rule = f"a line of more than {MOST_LINE_BYTES} bytes"
                message = {"type": "error", "message": rule}
            is_early, self._is_early, self._is_too_long = self._is_early, False, False
            if message is None:
                conduct = self.conduct
                conduct.passed_over += 1
                text = line.decode("utf-8", "replace")
                conduct.first_passed_over = conduct.first_passed_over or shortened(text)
            elif is_early:
                self.conduct.unasked += 1
            else:
                return message
        return None


def ending_of(code: int) -> str:
    """Return how a command ends that has an exit code."""
    return f"it ends with signal {-code}" if code < 0 else f"it ends with exit code {code}"


def _exit(number: int, _: object) -> NoReturn:
    """Leave by an exception at a signal."""
    raise SystemExit(128 + number)


def _message_of(line: bytes) -> dict[str, Any] | None:
    """Return the message that a line is; None if it is none, as what libraries print."""
    if not line.startswith(b"{"):
        return None
    try:
        message: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not _TYPED.search(line):
            return None
        rule = "; what is not finite is null" if re.search(rb"\b(NaN|Infinity)\b", line) else ""
        return {"type": "error", "message": f"a line is not JSON: {error}{rule}"}
    return message if message.get("type") in _TYPES else None
