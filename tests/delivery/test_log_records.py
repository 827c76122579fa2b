"""Everything else that is logged, as lines of JSON."""

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.delivery.log_lines import LineWriter
from service.delivery.log_records import MAX_TEXT_LENGTH, configure_logging
from service.delivery.request_ids import REQUEST_ID
from service.settings import Settings

Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture(name="_kept")
def kept() -> Iterator[None]:
    """Leave the logging of the tests as it is."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("posref", "uvicorn"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def read(_kept: None) -> Iterator[Read]:
    reading, writing = os.pipe()
    writer = LineWriter(writing)
    writer.__enter__()
    configure_logging(Settings(log_level="info"), writer)

    def lines() -> list[dict[str, Any]]:
        writer.__exit__(None, None, None)
        return [json.loads(line) for line in os.read(reading, 10**6).decode().splitlines()]

    yield lines
    writer.__exit__(None, None, None)
    os.close(reading)
    os.close(writing)


def test_a_record_is_a_line(read: Read) -> None:
    logging.getLogger("posref").warning('the limit is %d\n"too" low', 7)

    (line,) = read()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "message": 'the limit is 7\n"too" low',
        "logger": "posref",
    }


def test_a_failure_is_one_line_with_its_traceback_and_its_request(read: Read) -> None:
    token = REQUEST_ID.set("r-1")
    try:
        raise ArithmeticError("too hard")
    except ArithmeticError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    finally:
        REQUEST_ID.reset(token)

    (line,) = read()
    assert (line["level"], line["request_id"]) == ("error", "r-1")
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ArithmeticError: too hard")


def test_a_long_text_is_cut_and_the_end_of_a_traceback_is_kept(read: Read) -> None:
    try:
        raise ArithmeticError("x" * MAX_TEXT_LENGTH + "end")
    except ArithmeticError:
        logging.getLogger("posref").exception("y" * MAX_TEXT_LENGTH * 2)

    (line,) = read()
    assert len(line["message"]) == len(line["exception"]) == MAX_TEXT_LENGTH
    assert line["exception"].endswith("end")


def test_warnings_of_python_are_logged(read: Read) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Whoever catches warnings takes them from the log.
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old ways", stacklevel=1)
        logging.captureWarnings(False)

    (line,) = read()
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "old ways" in line["message"]


def test_what_is_less_grave_than_asked_for_is_not_told(read: Read) -> None:
    logging.getLogger("posref").debug("a detail")
    logging.getLogger("posref").info("a fact")

    assert [line["message"] for line in read()] == ["a fact"]


def test_libraries_keep_their_details_to_themselves(read: Read) -> None:
    configure_logging(Settings(log_level="debug"), logging.getLogger().handlers[0]._writer)  # type: ignore[attr-defined]
    logging.getLogger("matplotlib").debug("a font")
    logging.getLogger("posref").debug("a detail")

    assert [line["message"] for line in read()] == ["a detail"]


def test_names_that_have_no_bytes_are_told_as_well_as_can_be(read: Read) -> None:
    # pytest keeps what is logged, too, and cannot pass such a name on.
    odd = logging.LogRecord("posref", logging.INFO, "", 0, "no such file: %s", ("\udcff",), None)
    logging.getLogger().handlers[0].handle(odd)

    assert [line["message"] for line in read()] == ["no such file: ?"]


def test_a_record_that_cannot_be_spelled_ends_nothing(
    read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = logging.LogRecord("posref", logging.INFO, "", 0, "%d", ("no number",), None)
    logging.getLogger().handlers[0].handle(wrong)
    logging.getLogger("posref").info("next")

    assert [line["message"] for line in read()] == ["next"]
    assert "Logging error" in capsys.readouterr().err
