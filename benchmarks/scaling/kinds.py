"""The measured kinds of requests, and wrk's script for each."""

from dataclasses import dataclass
from pathlib import Path

KIB, MIB = 2**10, 2**20

_HUGE = "/encoding.npy?seq_len=1099511627776&d_model=512"


@dataclass(frozen=True)
class Kind:
    """One kind of request.

    Attributes:
        name: its name in reports.
        target: its URL; ``{}`` stands for a counter that makes the URL new.
        range_bytes: length of a range of a huge table, at another offset in each request.
        is_conditional: whether the client has the table already, and sends its ETag.
        is_posted: whether the request posts an array.
    """

    name: str
    target: str
    range_bytes: int = 0
    is_conditional: bool = False
    is_posted: bool = False

    @property
    def is_cold(self) -> bool:
        """True if every request differs from all earlier ones."""
        return "{}" in self.target or self.range_bytes > 0

    def numbered(self, number: int) -> str:
        """Return the URL of one request."""
        return self.target.replace("{}", str(number))


WARM_SMALL = Kind("cached 4×4 .npy", "/encoding.npy?seq_len=4&d_model=4")
WARM_TABLE = Kind("cached 50×512 .npy", "/encoding.npy?seq_len=50&d_model=512")
WARM_LARGE = Kind("cached 512×512 .npy", "/encoding.npy?seq_len=512&d_model=512")
WARM_TEXT = Kind("cached 50×512 .json", "/encoding.json?seq_len=50&d_model=512")
UNCHANGED = Kind("304 for 50×512 .npy", WARM_TABLE.target, is_conditional=True)
COLD_SMALL = Kind("uncached 4×4 .npy", "/encoding.npy?seq_len=4&d_model=4&start={}")
COLD_TABLE = Kind("uncached 50×512 .npy", "/encoding.npy?seq_len=50&d_model=512&start={}")
COLD_LARGE = Kind("uncached 512×512 .npy", "/encoding.npy?seq_len=512&d_model=512&start={}")
COLD_BASE = Kind(
    "uncached 512×512 .npy of a new base", "/encoding.npy?seq_len=512&d_model=512&base={}.5"
)
COLD_TEXT = Kind("uncached 50×512 .json", "/encoding.json?seq_len=50&d_model=512&start={}")
RANGE = Kind("64 KiB of a table of 2 PiB", _HUGE, range_bytes=64 * KIB)
SLICE = Kind("1 MiB of a table of 2 PiB", _HUGE, range_bytes=MIB)
APPLY = Kind("/rope/apply to 1 MiB", "/rope/apply", is_posted=True)

KEPT = (WARM_SMALL, WARM_TABLE, WARM_LARGE, WARM_TEXT, UNCHANGED)
NEW = (COLD_SMALL, COLD_TABLE, COLD_LARGE, COLD_BASE, COLD_TEXT, RANGE, SLICE, APPLY)
KINDS = (*KEPT, *NEW)

_DONE = """\
done = function(summary, latency)
  local errors = summary.errors
  local faults = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\\n{"requests":%d,"received_bytes":%d,"microseconds":%d,"faults":%d,"p50":%d,"p99":%d}\\n',
    summary.requests, summary.bytes, summary.duration, faults,
    latency:percentile(50), latency:percentile(99)))
end
"""
_COUNTING = """\
local number = {first}
request = function()
  number = number + 1
  return wrk.format(nil, (string.gsub("{target}", "{{}}", string.format("%d", number))))
end
"""
_RANGING = """\
local number = {first}
request = function()
  number = number + 1
  local start = number * {stride}
  wrk.headers["Range"] = string.format("bytes=%d-%d", start, start + {length} - 1)
  return wrk.format()
end
"""
_POSTING = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-npy"
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
file:close()
"""
_TRACING = """\
local targets, at = {{}}, 0
for line in io.lines("{trace}") do targets[#targets + 1] = line end
request = function()
  at = at % #targets + 1
  return wrk.format(nil, targets[at])
end
"""


def script(kind: Kind, first: int, *, tag: str = "", body: Path | None = None) -> str:
    """Write the wrk script of a kind.

    Args:
        kind: the kind of requests.
        first: first unused counter value.
        tag: ETag of conditional requests.
        body: the file to post.
    """
    if kind.range_bytes:
        # Each in another slice of the edge, so that none is a hit.
        stride = max(kind.range_bytes, MIB)
        return _RANGING.format(first=first, stride=stride, length=kind.range_bytes) + _DONE
    if kind.is_posted:
        return _POSTING.format(body=body) + _DONE
    if kind.is_conditional:
        return f"wrk.headers['If-None-Match'] = '{tag}'\n" + _DONE
    return (_COUNTING.format(first=first, target=kind.target) if kind.is_cold else "") + _DONE


def trace_script(trace: Path) -> str:
    """Write a wrk script that requests the URLs of a file, line by line."""
    return _TRACING.format(trace=trace) + _DONE
