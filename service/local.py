"""Tables without a server: the bytes that a URL names, made in this process."""

from service.delivery.negotiation import choose_format
from service.delivery.parameters import nearest, parse_query, read_parameters
from service.delivery.respond import check_revision, check_table_size
from service.errors import NotFound, shortened
from service.formats import FORMATS
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
    if dot and extension not in FORMATS:
        raise NotFound(f"There is no format {shortened(extension)}; there are {', '.join(FORMATS)}")
    parameters = read_parameters(resource.parameters, parse_query(query.encode()))
    document = resource.resolve(parameters)
    check_table_size(document)
    check_revision(document.kind, parameters.revision)
    form = choose_format(document, extension if dot else None, None, FORMATS["json"])
    return form.body(document)
