"""Tables without a server: the bytes that a URL names, made in this process and saved."""

import errno
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from service.delivery.negotiation import read_extension
from service.delivery.parameters import parse_query, read_parameters
from service.delivery.problems import unknown_path
from service.delivery.representation import represent
from service.delivery.wanted import Wanted
from service.errors import NotFound
from service.formats.format import Body
from service.routes import COMPOSITIONS, NAMED, REPORTS, RESOURCES, TRANSFORMS

_POSTED = {
    *(transform.path for transform in TRANSFORMS),
    *(composition.path for composition in COMPOSITIONS),
    *(report.path for report in REPORTS),
}


def find_body(url: str) -> Body:
    """Describe the body that a GET of this path and query is answered with.

    Args:
        url: path and query, as in ``/encoding.npy?seq_len=50&d_model=512``; scheme and host, where
            there are any, are passed over.

    Raises:
        PosrefError: as the server would.
    """
    split = urlsplit(url)
    path, query = split.path, split.query
    resource_path, dot, text = path.partition(".")
    resource = next((known for known in RESOURCES if known.path == resource_path), None)
    if resource is None:
        if resource_path in _POSTED:
            raise NotFound(
                f"{resource_path} is made of what is POSTed to a server (posref serve); "
                "posref get makes what a URL says alone"
            )
        raise unknown_path(resource_path, [known.path for known in RESOURCES], NAMED)
    extension, is_digest = read_extension(text if dot else None)
    parameters = read_parameters(
        resource.parameters, parse_query(query.encode("utf-8", "surrogateescape"))
    )
    wanted = Wanted(extension, is_digest, revision=parameters.revision)
    return represent(resource.resolve(parameters), wanted).body


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
