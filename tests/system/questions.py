"""Questions without end for clients to ask, each with the only body that is right."""

from itertools import count

from tests.system.clients import Question, Questions
from tests.system.connection import connected, spelled
from tests.system.servers import GIB, MIB, Server

_WIDTH = 64
_ROW_BYTES = _WIDTH * 4

# So many fresh tables there are to ask for.
_ROWS = 2**15


def kept_tables(server: Server, rows: int = 50) -> Questions:
    """Ask for one table for ever."""
    target = f"/encoding.npy?seq_len={rows}&d_model=512&revision=1"
    question = Question("kept", spelled(target), server.get(target).content)
    return iter(lambda: question, None)


def fresh_tables(server: Server, rows: int = 64) -> Questions:
    """Ask for ever new tables of 64 columns; each is a part of a longer one."""
    whole = server.get(f"/encoding.bin?seq_len={_ROWS}&d_model={_WIDTH}").content
    for start in count(1):
        target = f"/encoding.bin?seq_len={rows}&d_model={_WIDTH}&start={start}&revision=1"
        part = slice(start * _ROW_BYTES, (start + rows) * _ROW_BYTES)
        yield Question("fresh", spelled(target), whole[part])


def ranges(server: Server, length_bytes: int = MIB) -> Questions:
    """Ask for one range of ever new huge tables, which differ by a shift of their rows."""
    window = 16 * GIB
    table = f"/encoding.bin?seq_len={2**30}&d_model={_WIDTH}&revision=1"
    whole = server.range(table, window, window + length_bytes + _ROWS * _ROW_BYTES - 1)
    for start in count(1):
        asked = spelled(
            f"{table}&start={start}", f"Range: bytes={window}-{window + length_bytes - 1}"
        )
        shift = start * _ROW_BYTES
        yield Question("range", asked, whole[shift : shift + length_bytes])


def rotations(server: Server, rows: int = 8) -> Questions:
    """Post the same numbers for ever."""
    body = b'{"x":[%s],"positions":[%s]}' % (
        b",".join([b"[1,2,3,4]"] * rows),
        b",".join(b"%d" % row for row in range(rows)),
    )
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    request = spelled("/rope/apply", *headers, method="POST") + body
    question = Question("apply", request, _posted(server, request))
    return iter(lambda: question, None)


def _posted(server: Server, request: bytes) -> bytes:
    with connected(server.port) as connection:
        answer = connection.ask(request)
    assert answer.status == "HTTP/1.1 200 OK", answer
    return answer.body
