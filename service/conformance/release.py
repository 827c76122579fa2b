"""A release of the suite: its files, their version, the index and the archive.

The version is the first 12 digits of the SHA-256 of ``SHA256SUMS``, which has a line
``<sha256>  <file>`` for each vector file and the schema, sorted by name: whoever has the files can
check it with standard tools.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import orjson

SUITE, FORMAT = "posref-conformance", 1
PATH = "/conformance/"
INDEX, SCHEMA, SUMS, ARCHIVE = "index.json", "schema.json", "SHA256SUMS", "conformance.zip"
VERSION = re.compile(r"[0-9a-f]{12}")

_PACKAGE = "service.conformance"
# The first date that an archive can have.
_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16
_CHANGES = re.compile(
    rf"^## ({VERSION.pattern})\n\n(.*?)(?=\n+## |\n*\Z)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Release:
    """The files of one version of the suite.

    Attributes:
        listed: the vector files and the schema, by name, sorted.
    """

    listed: Mapping[str, bytes]

    @classmethod
    def of(cls, vectors: Mapping[str, str]) -> "Release":
        """Return the release of vector files, whose texts are given by the name of the file."""
        every = {name: text.encode() for name, text in vectors.items()}
        schema = (files(_PACKAGE) / SCHEMA).read_bytes()
        return cls(dict(sorted({**every, SCHEMA: schema}.items())))

    @classmethod
    def packaged(cls) -> "Release":
        """Return the release of the vector files in this package."""
        found = (files(_PACKAGE) / "vectors").iterdir()
        return cls.of({each.name: each.read_text("utf-8") for each in found})

    @cached_property
    def sums(self) -> bytes:
        """The file for ``sha256sum --check``."""
        lines = (f"{sha256(body).hexdigest()}  {name}\n" for name, body in self.listed.items())
        return "".join(lines).encode()

    @cached_property
    def version(self) -> str:
        """The version, 12 hexadecimal digits."""
        return sha256(self.sums).hexdigest()[:12]

    @property
    def files(self) -> dict[str, bytes]:
        """All files of the archive, by name, sorted."""
        return dict(sorted({**self.listed, SUMS: self.sums}.items()))

    @cached_property
    def contents(self) -> dict[str, Any]:
        """The contents of the vector files, by the name of the file."""
        return {name: orjson.loads(self.listed[name]) for name in self.listed if name != SCHEMA}

    def archive(self) -> bytes:
        """Return the files as a zip: stored, since two builds of zlib deflate differently."""
        stream = BytesIO()
        with ZipFile(stream, "w", ZIP_STORED) as archive:
            for name, body in self.files.items():
                entry = ZipInfo(name, _DATE)
                entry.create_system, entry.external_attr = 3, _MODE
                archive.writestr(entry, body)
        return stream.getvalue()

    def index(self, *, is_served: bool = True) -> dict[str, Any]:
        """Return the index: what the release has, where it is, and what changed in each version.

        Args:
            is_served: whether a server has the files; they have no URLs otherwise.
        """

        def where(name: str, body: bytes) -> dict[str, Any]:
            entry = {"bytes": len(body), "sha256": sha256(body).hexdigest()}
            return entry | ({"url": f"{PATH}{self.version}/{name}"} if is_served else {})

        cases = {name: len(content["cases"]) for name, content in self.contents.items()}
        return {
            "suite": SUITE,
            "format": FORMAT,
            "version": self.version,
            "cases": sum(cases.values()),
            "files": [
                {
                    "name": content["name"],
                    "file": name,
                    "cases": cases[name],
                    **where(name, self.listed[name]),
                }
                for name, content in self.contents.items()
            ],
            "schema": where(SCHEMA, self.listed[SCHEMA]),
            "sums": where(SUMS, self.sums),
            "zip": where(ARCHIVE, self.archive()),
            "changelog": [
                {"version": version, "changes": text} for version, text in changes().items()
            ],
        }


@cache
def changes() -> Mapping[str, str]:
    """Return what changed in each released version, the last first."""
    text = (files(_PACKAGE) / "CHANGELOG.md").read_text("utf-8")
    return dict(_CHANGES.findall(text))
