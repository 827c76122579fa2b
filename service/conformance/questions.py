"""Questions of the suite: what a case asks, the request that answers it, and the exact numbers.

A question is asked of an implementation, in a message of the runner, and of a posref server, by its
request. The numbers are those of the server, in float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

import numpy as np
import orjson

from service.delivery.parameters import read_parameters
from service.encodings.family import choices
from service.errors import PosrefError
from service.formats.json_text import JSON
from service.grammar import to_query
from service.numerics.dtypes import INDEX_DTYPES, to_float64
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices
from service.numerics.tables import Document, Table, size
from service.routes import ENDPOINTS
from service.routes.table_urls import read_url
from service.settings import default_settings

Kind: TypeAlias = Literal["table", "rotate", "array", "model", "positions", "resize"]
Numbers: TypeAlias = Float64s | Indices

NOT_MADE = (PosrefError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What a question of another suite may raise, as it may lack what those of this one have."""


@dataclass(frozen=True)
class Request:
    """A request to a posref server.

    Attributes:
        method: GET or POST.
        url: path and query.
        body: the JSON object of a POST.
    """

    method: Literal["GET", "POST"]
    url: str
    body: Mapping[str, Any] | None = None

    def content(self, *without: str) -> dict[str, Any]:
        """Return the request as a JSON object, without some members of its body."""
        content: dict[str, Any] = {"method": self.method, "url": self.url}
        if self.body is not None:
            kept = {name: each for name, each in self.body.items() if name not in without}
            content["body"] = kept
        return content

    def document(self) -> Document:
        """Return what a server answers, before any number is computed; raises PosrefError."""
        if self.body is None:
            return read_url(self.url).document
        answer = _answer(self.url.partition("?")[0], {}, orjson.dumps(self.body))
        assert isinstance(answer, Document)
        return answer


@dataclass(frozen=True)
class Question:
    """The question of a case.

    Attributes:
        kind: ``table`` is cosines and sines, (S, r/2) each, with the attention factor in them;
            ``model`` is the same, of a model's config; ``rotate`` is x, rotated; ``array`` is any
            other table; ``positions`` are position ids; ``resize`` is x, resized.
        resource: the path of the server's resource.
        parameters: of the resource, under the names of published configs; for a model, ``config``
            and, where there are several, ``layer_type`` and ``context_length``.
        positions: of the rows, where the resource takes them.
        x: the array that is rotated or resized, as nested lists.
    """

    kind: Kind
    resource: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    positions: tuple[int, ...] | None = None
    x: Any = None

    def changed(self, *without: str, **parameters: Any) -> "Question":
        """Return the question with other values of some parameters, and without others."""
        kept = {name: each for name, each in self.parameters.items() if name not in without}
        return replace(self, parameters={**kept, **parameters})

    def of(self, resource: str, kind: Kind = "array", **defaults: Any) -> "Question":
        """Return the question for another resource, with those parameters that it takes."""
        names = ENDPOINTS[resource].parameters.model_fields
        kept = {name: each for name, each in self.parameters.items() if name in names}
        return Question(kind, resource, {**defaults, **kept})

    @cached_property
    def as_table(self) -> "Question":
        """The question itself, or for a model the question for the table of its config.

        It is the table that ``/rope/config`` links to, at the positions of the question.
        """
        if self.kind != "model":
            return self
        tables = self._tables_of_layers
        label = self.parameters.get("layer_type", next(iter(tables)))
        return Question("table", "/rope", tables[label], self.positions)

    @property
    def is_table(self) -> bool:
        """True if the answer is cosines and sines, of parameters or of a model."""
        return self.kind in {"table", "model"}

    @property
    def is_rotary(self) -> bool:
        """True of rotary tables, rotations, and the tables of models."""
        return self.resource.startswith("/rope")

    @property
    def layer_types(self) -> tuple[str, ...]:
        """The layer types of a model; () otherwise."""
        return tuple(self._tables_of_layers) if self.kind == "model" else ()

    @property
    def _tables_of_layers(self) -> Mapping[str, Mapping[str, Any]]:
        config, length = self.parameters["config"], self.parameters.get("context_length")
        return _tables_of(orjson.dumps(config), length)

    @cached_property
    def request(self) -> Request:
        """The request that a posref server answers with the numbers, in float64."""
        if self.kind == "model":
            return self.as_table.request
        given = dict(self.parameters)
        if self.positions is not None:
            given["positions"] = self.positions
        if self.kind == "table":
            given |= {"pack": "compact"}
        fields = ENDPOINTS[self.resource].parameters.model_fields
        if "dtype" in fields and given.get("part") != "position_ids":
            is_index = "int64" in choices(ENDPOINTS[self.resource].parameters, "dtype")
            given.setdefault("dtype", "int64" if is_index else "float64")
        if self.is_posted:
            arrays = {} if self.x is None else {"x": self.x}
            return Request("POST", self.resource, given | arrays)
        # The commas of lists, and the colons of ranges, are legible.
        query = urlencode({name: to_query(each) for name, each in given.items()}, safe=",:")
        return Request("GET", f"{self.resource}?{query}" if query else self.resource)

    @property
    def is_posted(self) -> bool:
        """True if the request is a POST, because the resource takes arrays."""
        return not ENDPOINTS[self.resource].has_get


def _answer(path: str, query: Mapping[str, Any], body: bytes) -> Any:
    """Return the answer of an endpoint to a POST of JSON; raises PosrefError."""
    endpoint = ENDPOINTS[path]
    values, content = endpoint.inputs.read(JSON, body)
    parameters = read_parameters(endpoint.parameters, {**query, **values})
    arguments = endpoint.inputs.arguments(parameters, content)
    return endpoint.answer_to(parameters, arguments, default_settings())


# Of a table that a config links to: its rows, and how they are packed.
_OF_LINKS = {"seq_len", "start", "pack", "part", "dtype"}


@cache
def _tables_of(config: bytes, context_length: int | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of the rotary tables of a config, by layer type; raises PosrefError.

    Args:
        config: JSON.
        context_length: that the model runs with.
    """
    query = {} if context_length is None else {"context_length": context_length}
    report = _answer("/rope/config", query, config)
    return {
        name: {
            key: each
            for key, each in read_url(entry.table).request.parameters.items()
            if key not in _OF_LINKS
        }
        for name, entry in report.rope.items()
    }


def numbers_of(table: Table) -> Numbers:
    """Return all numbers of a table as float64, or as int64 if they are indices."""
    elements = table.read(0, size(table)).reshape(table.shape)
    # The bits of bfloat16 are stored as integers.
    if table.dtype.name in INDEX_DTYPES:
        return elements.astype(np.int64)
    return to_float64(elements, table.dtype)


def arrays_of(request: Request) -> Mapping[str, Numbers]:
    """Return the arrays of a server's answer by name, not to be written to; raises PosrefError."""
    if request.body is None:
        return _arrays_at(request.url)
    return _arrays_in(request.document())


# A case asks for the same frequencies again and again.
@lru_cache(maxsize=64)
def _arrays_at(url: str) -> Mapping[str, Numbers]:
    return _arrays_in(read_url(url).document)


def _arrays_in(document: Document) -> Mapping[str, Numbers]:
    return {name: numbers_of(table) for name, table in document.arrays.items()}
