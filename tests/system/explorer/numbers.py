"""Numbers of tables one by one, read with Range from the table's own URL: not as the page reads."""

from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np

from tests.system.servers import Server

_DTYPES = {"float32": "<f4", "float64": "<f8", "float16": "<f2", "int32": "<i4", "int64": "<i8"}


class Numbers:
    """A table as rows and columns; several matrices follow each other."""

    def __init__(self, server: Server, url: str) -> None:
        described = server.get(f"/describe?url={quote(url, safe='')}")
        assert described.status_code == 200, described.text
        self.description: dict[str, Any] = described.json()
        view, (array, *_) = self.description["view"], self.description["arrays"]
        path, _, query = self.description["url"].partition("?")
        named = view["parts"] or parse_qs(urlsplit(view["url"]).query).get("part", [])
        part = f"&part={named[0]}" if named and "part=" not in query else ""
        leading = view["leading"] or {}
        if leading.get("values"):
            # Its matrices do not follow each other in the file.
            part += f"&{leading['parameter']}={leading['values'].split(',')[0]}"
        self._server, self._target = server, f"{path}.bin?{query}{part}"
        self._dtype = np.dtype(_DTYPES[array["dtype"]])
        self.rows, self.columns = int(view["rows"]["count"]), int(view["columns"]["count"])
        self._is_channels_first = self.description["axes"][0].startswith("channel")

    def row(self, row: int, count: int = 1) -> np.ndarray[Any, Any]:
        """Return rows from one on."""
        size = self.columns * self._dtype.itemsize
        body = self._server.range(self._target, row * size, (row + count) * size - 1)
        return np.frombuffer(body, self._dtype).reshape(count, self.columns)

    def cell(self, row: int, column: int) -> Any:
        """Return a number."""
        size = self._dtype.itemsize
        by_row, by_column = row * self.columns + column, column * self.rows + row
        first = (by_column if self._is_channels_first else by_row) * size
        body = self._server.range(self._target, first, first + size - 1)
        return np.frombuffer(body, self._dtype)[0]
