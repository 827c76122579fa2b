"""Tables without a server: the bytes that a URL names, made in this process and saved."""

import errno
import os
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
from service.routes import RESOURCES, TRANSFORMS


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
        if resource_path in {transform.path for transform in TRANSFORMS}:
            raise NotFound(f"{resource_path} works on an array that is posted to a server")
        raise unknown_path(resource_path, [known.path for known in RESOURCES])
    extension, is_digest = read_extension(text if dot else None)
    parameters = read_parameters(
        resource.parameters, parse_query(query.encode("utf-8", "surrogateescape"))
    )
    wanted = Wanted(extension, is_digest, revision=parameters.revision)
    return represent(resource.resolve(parameters), wanted).body


def save(body: Body, path: Path) -> None:
    """Write a body to a file, which is there under its name only when it is whole.

    Args:
        body: what to write.
        path: where; what is there already is replaced. A pipe or a device is written to as it is.

    Raises:
        OSError: it cannot be written, or is known to be longer than what the disk has room for.
    """
    if path.exists() and not path.is_file():
        _write(body, path)
        return
    free_bytes = shutil.disk_usage(path.parent).free
    if (body.length_bytes or 0) > free_bytes:
        rule = f"it takes {body.length_bytes} bytes and there is room for {free_bytes}"
        raise OSError(errno.ENOSPC, rule, str(path))
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        _write(body, unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write(body: Body, path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(body.blocks())
