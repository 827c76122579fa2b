"""Tables without a server: the bytes that a URL names, made in this process."""

from service.delivery.negotiation import check_extension
from service.delivery.parameters import nearest, parse_query, read_parameters
from service.delivery.respond import Wanted, described
from service.errors import NotFound, shortened
from service.formats.format import Body
from service.routes import RESOURCES


def find_body(url: str) -> Body:
    """Describe the body that a GET of this path and query is answered with.

    Args:
        url: path and query, as in ``/encoding.npy?seq_len=50&d_model=512``.

    Raises:
        PosrefError: as the server would.
    """
    path, _, query = url.partition("?")
    stem, dot, extension = path.rpartition(".")
    resource_path = stem if dot else path
    resource = next((known for known in RESOURCES if known.path == resource_path), None)
    if resource is None:
        near = nearest(resource_path, (known.path for known in RESOURCES))
        hint = f"; did you mean {near}?" if near else ""
        raise NotFound(f"There is no {shortened(resource_path)}{hint}")
    check_extension(extension if dot else None)
    parameters = read_parameters(resource.parameters, parse_query(query.encode()))
    wanted = Wanted(extension if dot else None, revision=parameters.revision)
    _, body = described(resource.resolve(parameters), wanted)
    return body
