"""Everything else that is logged, as JSON lines like those of requests."""

import logging

import orjson

from service.delivery.log_lines import LineWriter
from service.delivery.request_ids import REQUEST_ID
from service.delivery.request_log import Clock
from service.settings import Settings

MAX_TEXT_LENGTH = 16 * 1024
"""How much of a message, or of the end of a traceback, is logged."""

# Libraries tell a great deal of themselves at this level.
_OURS = ("posref", "uvicorn")


def configure_logging(settings: Settings, writer: LineWriter) -> None:
    """Log everything, warnings of Python included, to one place, as lines of JSON."""
    level = getattr(logging, settings.log_level.upper())
    root = logging.getLogger()
    root.handlers[:] = [RecordHandler(writer)]
    root.setLevel(max(level, logging.INFO))
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)


class RecordHandler(logging.Handler):
    """Write records of the logging module as lines."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer
        self._clock = Clock()
        self._tracebacks = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises."""
        try:
            self._writer.write((self._line(record),))
        except Exception:  # noqa: BLE001 - A line that cannot be written must not end what it is of.
            self.handleError(record)

    def _line(self, record: logging.LogRecord) -> str:
        said = {
            "time": self._clock.now(),
            "level": record.levelname.lower(),
            "message": _text(record.getMessage())[:MAX_TEXT_LENGTH],
            "logger": record.name,
        }
        request_id = REQUEST_ID.get()
        if request_id is not None:
            said["request_id"] = request_id
        if record.exc_info:
            traceback = self._tracebacks.formatException(record.exc_info)
            said["exception"] = _text(traceback)[-MAX_TEXT_LENGTH:]
        return orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE).decode()


def _text(text: str) -> str:
    """Replace what UTF-8 has no bytes for: a name of a file may hold such."""
    return text.encode(errors="replace").decode()
