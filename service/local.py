"""Tables without a server: the bytes that a URL names, made in this process and saved."""

import errno
import shutil
from pathlib import Path

from service.delivery.responses import represent
from service.formats.format import Body
from service.routes.table_urls import read_url


def find_body(url: str) -> Body:
    """Describe the body that a GET of this path and query is answered with.

    Args:
        url: path and query, as in ``/encoding.npy?seq_len=50&d_model=512``; scheme and host, where
            there are any, are passed over.

    Raises:
        PosrefError: as the server would.
    """
    asked = read_url(url)
    return represent(asked.document, asked.wanted).body


def save(body: Body, path: Path) -> None:
    """Write a body to a file, which is removed if it cannot be finished.

    Args:
        body: what to write.
        path: where; a link is followed, a pipe or a device is written to as it is.

    Raises:
        OSError: it cannot be written, or is known to be longer than what the disk has room for.
    """
    _check_room(body, path)
    with path.open("wb") as file:
        try:
            file.writelines(body.blocks())
            file.flush()
        except BaseException:
            if path.is_file() and not path.is_symlink():
                path.unlink()
            raise


def _check_room(body: Body, path: Path) -> None:
    if path.exists() and not path.is_file():
        return
    room_bytes = shutil.disk_usage(path.resolve().parent).free
    if path.exists():
        room_bytes += path.stat().st_size
    if (body.length_bytes or 0) > room_bytes:
        rule = f"it takes {body.length_bytes} bytes and there is room for {room_bytes}"
        raise OSError(errno.ENOSPC, rule, str(path))
