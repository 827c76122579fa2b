"""Endless requests for clients, each with the body of the right answer."""

from itertools import count, repeat

from tests.system.clients import Request, Requests
from tests.system.connection import connected, spelled
from tests.system.servers import GIB, MIB, Server

_WIDTH = 64
_ROW_BYTES = _WIDTH * 4

# The number of different tables.
_ROWS = 2**15


def cached_tables(server: Server, rows: int = 50) -> Requests:
    """Request one table again and again."""
    target = f"/encoding.npy?seq_len={rows}&d_model=512&revision=1"
    return repeat(Request("cached", spelled(target), server.get(target).content))


def fresh_tables(server: Server, rows: int = 64) -> Requests:
    """Request new tables of 64 columns; each is a part of a longer one."""
    whole = server.get(f"/encoding.bin?seq_len={_ROWS}&d_model={_WIDTH}").content
    for start in count(1):
        target = f"/encoding.bin?seq_len={rows}&d_model={_WIDTH}&start={start}&revision=1"
        part = slice(start * _ROW_BYTES, (start + rows) * _ROW_BYTES)
        yield Request("fresh", spelled(target), whole[part])


def ranges(server: Server, length_bytes: int = MIB) -> Requests:
    """Request one range of new huge tables, which differ by a shift of their rows."""
    window = 16 * GIB
    table = f"/encoding.bin?seq_len={2**30}&d_model={_WIDTH}&revision=1"
    whole = server.range(table, window, window + length_bytes + _ROWS * _ROW_BYTES - 1)
    for start in count(1):
        request = spelled(
            f"{table}&start={start}", f"Range: bytes={window}-{window + length_bytes - 1}"
        )
        shift = start * _ROW_BYTES
        yield Request("range", request, whole[shift : shift + length_bytes])


def rotations(server: Server, rows: int = 8) -> Requests:
    """Post the same array again and again."""
    body = b'{"x":[%s],"positions":[%s]}' % (
        b",".join([b"[1,2,3,4]"] * rows),
        b",".join(b"%d" % row for row in range(rows)),
    )
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    request = spelled("/rope/apply", *headers, method="POST") + body
    return repeat(Request("apply", request, _posted(server, request)))


def _posted(server: Server, request: bytes) -> bytes:
    with connected(server.port) as connection:
        answer = connection.ask(request)
    assert answer.status == "HTTP/1.1 200 OK", answer
    return answer.body
