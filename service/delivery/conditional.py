"""Entity tags and the conditions on them, as pure functions (RFC 9110, §8.8.3 and §13)."""

import json
import re
from hashlib import sha256

from service import TABLE_REVISION
from service.formats.format import Format
from service.tables.document import Document

_ENTITY_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def entity_tag(document: Document, form: Format) -> str:
    """Name the bytes of a document in a format, without making one of them.

    It is strong: spec, format and revision fix the bytes, and so does the encoder's version
    where the format has one.
    """
    described = [
        document.kind,
        TABLE_REVISION[document.kind],
        dict(document.parameters),
        [[name, table.shape, table.dtype.name] for name, table in document.arrays.items()],
        form.extension,
        form.version,
    ]
    return f'"{sha256(json.dumps(described).encode()).hexdigest()[:32]}"'


def matches_none(if_none_match: str | None, tag: str) -> bool:
    """Tell whether the client has not got these bytes: no tag of If-None-Match is this one."""
    if if_none_match is None:
        return True
    if if_none_match.strip() == "*":
        return False
    return tag not in {match[1] for match in _ENTITY_TAG.findall(if_none_match)}
