"""The tables that a model expects in its layers, for arrays that are sent beside its config.

A JSON body has the document as ``model``, a safetensors body the bytes of the file as a tensor
``model`` of uint8. It is read as POST /model reads it. Of each type of layers there is one
expectation, whose table has as many rows as the array.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from service.analysis.array import TableRequest
from service.delivery.endpoints import ReportedArrays
from service.delivery.parameters import read_parameters
from service.encodings.family import Position, optional
from service.encodings.rotary.rope import Rope
from service.errors import Fault, InvalidBody, InvalidParameters, ModelNotKnown, shortened
from service.formats.format import Block, Input, ReadableFormat
from service.formats.json_text import read_array
from service.grammar import Integer
from service.models.describe import PartEncoding
from service.models.documents import read_document
from service.models.engines import engine_settings
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.models.translation import ModelDocument
from service.numerics.dtypes import COMPLEX_DTYPES, REAL_DTYPES
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import Decimals
from service.numerics.tables import ParameterValue, StoredTable, size
from service.routes.compared_models import pointing_into
from service.routes.composed_tables import input_names
from service.routes.model import DescribedModel
from service.routes.model_links import (
    CONTEXT_LENGTH,
    ConfigParameters,
    OriginatedValue,
    rope_query,
    settings_at,
)
from service.routes.named_layers import (
    IN_DUMPS,
    LayerArray,
    is_in_dump,
    layer_arrays,
    layers_text,
)
from service.routes.table_urls import ReportParameters, url_of
from service.settings import Settings

MODEL = "model"
"""The name of the document beside arrays."""

_OF_MODEL = ("layer", "encoding", "context_length", "start")
_TYPE = "uint8"
_DOCUMENT = "A document that /model reads, which says what arrays should be in place of to."
_IN_TO = "if it is part of the URL in to, write the & before it as %26"


class LayerParameters(ReportParameters):
    """Parameters of an examination whose expected tables may be those of a model's layers."""

    layer: Integer | None = optional(
        "With model: the number of the layer that the arrays are of, from 0. Required where layers "
        "differ and the names of the arrays do not have it.",
        3,
        ge=0,
        le=MAX_LENGTH,
    )
    encoding: str | None = optional(
        "With model: the id of its encoding, as /model names it; that of its text unless given.",
        "rotary.full_attention",
    )
    # As elsewhere, so that the description is shared.
    context_length: Integer | None = CONTEXT_LENGTH
    start: Position | None = optional("Position of the first row; 0 unless given.", 0)


@dataclass(frozen=True)
class ArraysOfModel(ReportedArrays):
    """Arrays that a report analyses, and beside them a document that says what they should be."""

    errors = (ModelNotKnown,)

    def read_arrays(self, form: ReadableFormat, body: Block) -> Input:
        """Return the arrays, the parameters and the document of a body; raises InvalidBody."""
        content = super().read_arrays(form, body)
        if not content.is_text:
            return _with_tensor(content) if content.is_named else content
        parameters, arrays = dict(content.parameters), dict(content.arrays)
        for name in [name for name in parameters if name in input_names() or is_in_dump(name)]:
            arrays[name] = read_array(name, parameters.pop(name))
        document = _bytes_of(parameters.pop(MODEL)) if MODEL in parameters else None
        return replace(content, arrays=arrays, parameters=parameters, document=document)

    def beside(self) -> Mapping[str, Any]:
        """Return the schema of the document and of arrays of layers in a JSON body."""
        document = {"$ref": "#/components/schemas/Config", "description": _DOCUMENT}
        numbers = {"type": "array", "items": {}}
        patterns = {IN_DUMPS: numbers, f"^({'|'.join(sorted(input_names()))})$": numbers}
        return {"properties": {MODEL: document}, "patternProperties": patterns}

    def count_elements(self, form: ReadableFormat, body: Block) -> int:
        """Return how many elements the arrays have, without the bytes of the document."""
        elements = super().count_elements(form, body)
        if form.is_text or not form.has_several_arrays or not elements:
            return elements
        document = form.read(body, ()).arrays.get(MODEL)
        return elements - (size(document) if document is not None else 0)


def _with_tensor(content: Input) -> Input:
    """Return the content with the tensor that holds the bytes of a document as that."""
    arrays, is_bytes = dict(content.arrays), content.integer_types.get(MODEL) == _TYPE
    if MODEL not in arrays or not (is_bytes or len(arrays) > 1):
        return content
    if not is_bytes:
        raise InvalidBody(f"{MODEL} must hold the bytes of a file, as {_TYPE}", f"/{MODEL}")
    return replace(content, arrays=arrays, document=arrays.pop(MODEL).elements.tobytes())


def _bytes_of(value: Any) -> bytes:
    """Return the bytes of a document in JSON: an object, or the text of a file."""
    if not isinstance(value, dict | str):
        raise InvalidBody(f"{MODEL} must be an object, or the text of a file", f"/{MODEL}")
    return (value if isinstance(value, str) else json.dumps(value)).encode()


@dataclass(frozen=True, eq=False)
class ExpectedOfModel:
    """The rotary table that layers of a model expect.

    Attributes:
        encoding: the encoding, as /model describes it.
        settings: the rotary settings of these layers.
        resolved: those of all layers of the same part of the model.
    """

    encoding: PartEncoding
    settings: LayerSettings
    resolved: Resolved
    described: DescribedModel
    parameters: LayerParameters

    @property
    def layers(self) -> list[int] | None:
        """The layers that have it; None for all, and where the config does not say which."""
        return None if self.settings.layers is None else list(self.settings.layers)

    @property
    def layout(self) -> str:
        """The pairs of channels that turn."""
        return self.resolved.layout

    @property
    def request(self) -> TableRequest:
        """The request for the table, without its rows and packing."""
        return self.request_for(None)

    def request_for(self, rows: int | None) -> TableRequest:
        """Return the request for a table of so many rows, without these and its packing."""
        return TableRequest("rope", rope_query(self._values(rows)))

    def frequencies(self, rows: int) -> Decimals:
        """Return the frequencies of an array with so many rows."""
        return frequencies_of(self.request_for(rows))

    def longest(self, rows: int) -> int:
        """Return the length that the model is trained for, or the last row if that is beyond."""
        return max(int(self.settings.length.value), (self.parameters.start or 0) + rows)

    def values(self, rows: int) -> dict[str, OriginatedValue]:
        """Return the settings for an array with so many rows, with their origins."""
        return self.described.found(self._values(rows))

    def url(self, array: LayerArray, *, has_type: bool = True) -> str:
        """Return the URL of the table or rotation that an array should be.

        Args:
            array: the array.
            has_type: whether its type is meant; numbers in text have none.
        """
        rows, table = self.rows_of(array), next(iter(array.arrays.values()))
        if array.is_rotation:
            rotation = {
                "layout": self.layout,
                "output_layout": self.resolved.writes,
                "rotary_offset": self.settings.offset and self.settings.offset.value,
                "inverse": self.settings.model.type.inverse,
                "start": self.parameters.start,
                "axes": ",".join(array.axes),
            }
            own: dict[str, ParameterValue] = {k: each for k, each in rotation.items() if each}
            return url_of(TableRequest("rope/apply", {**self.request_for(rows).parameters, **own}))
        if len(table.shape) == 1:
            query = {"part": "inv_freq", **self.request_for(None).parameters}
            known = {key: each for key, each in query.items() if not key.startswith("mrope_")}
            return url_of(TableRequest("rope/frequencies", known))
        own = {"seq_len": rows, "pack": self._pack(array)}
        if self.parameters.start:
            own["start"] = self.parameters.start
        if len(array.arrays) == 1 and "x" not in array.arrays:
            own["part"] = next(iter(array.arrays))
        if has_type and table.dtype.name in REAL_DTYPES:
            own["dtype"] = table.dtype.name
        return url_of(self.request_for(rows).with_parameters(**own))

    def rows_of(self, array: LayerArray) -> int:
        """Return how many positions an array has; 1 for a list of frequencies."""
        table = next(iter(array.arrays.values()))
        if array.is_rotation:
            axis = array.axes.index("seq") if array.axes else -2
            return table.shape[axis] if len(table.shape) > 1 else 1
        shape = self._shape(table)
        is_pair = shape[-1] == 2 and len(shape) > 2
        outer = [length for length in shape[: -2 if is_pair else -1] if length > 1]
        return outer[-1] if outer else 1

    def _shape(self, table: StoredTable) -> tuple[int, ...]:
        """Return the shape of a table with its channels last, also where it is transposed."""
        shape, count = table.shape, len(self.frequencies(1))
        is_width = [each in {count, 2 * count, 4 * count} for each in shape]
        return shape[::-1] if is_width == [True, False] else shape

    def _pack(self, array: LayerArray) -> str:
        """Return the packing that a table of this shape may have."""
        table, width = next(iter(array.arrays.values())), 2 * len(self.frequencies(1))
        channels, is_half = self._shape(table)[-1], self.layout == "half"
        if "x" not in array.arrays or (channels == width and self._is_twice(table)):
            return "compact" if 2 * channels == width else self.layout
        if table.dtype in COMPLEX_DTYPES:
            return "complex"
        if table.shape[-2:] == (width // 2, 2):
            return "pair"
        if channels == 2 * width:
            return "half_concat"
        return "concat" if is_half else "flat"

    def _is_twice(self, table: StoredTable) -> bool:
        """Return whether most channels come twice, as cosines, or sines, alone have them."""
        elements = table.elements if self._shape(table) == table.shape else table.elements.T
        count = table.elements.size // 2
        return any(
            2 * np.count_nonzero(one == other) > count
            for one, other in (
                np.split(elements, 2, axis=-1),
                (elements[..., 0::2], elements[..., 1::2]),
            )
        )

    def _values(self, rows: int | None) -> dict[str, Any]:
        last = None if rows is None else rows + (self.parameters.start or 0)
        return settings_at(self.settings, self.parameters.context_length, last)


def frequencies_of(request: TableRequest) -> Decimals:
    """Return the frequencies of a rotary table; raises InvalidParameters."""
    rope = read_parameters(Rope, request.parameters)
    return list(rope.rule(rope.head_dim).exact())


class ModelLayers:
    """The expectations of a model, one for each type of its layers.

    Raises InvalidBody, also ModelNotKnown, where POST /model does, and for a model, or an encoding
    of it, without a rotary embedding along a sequence whose tables are several, or none; that of
    an only one is ``table``, a URL.
    """

    def __init__(self, document: bytes, parameters: LayerParameters, settings: Settings) -> None:
        self._parameters = parameters
        with pointing_into(MODEL):
            self._document: ModelDocument = read_document(document)
            own = ConfigParameters(context_length=parameters.context_length)
            described = DescribedModel(own, self._document, settings)
            every = [
                ExpectedOfModel(each, each.settings, each.resolved, described, parameters)
                for each in described.model.encodings
                if each.settings is not None and each.resolved is not None
            ]
            self.expected = self._chosen(every, described)
            self.table = None if self.expected else self._only_table(described)

    @property
    def _resolved(self) -> Resolved:
        return self.expected[0].resolved

    def _chosen(
        self, every: list[ExpectedOfModel], described: DescribedModel
    ) -> list[ExpectedOfModel]:
        """Return the expectations of the encoding that is asked for, or of the text model."""
        wanted, encodings = self._parameters.encoding, described.model.encodings
        if wanted is None:
            return [each for each in every if each.resolved is every[0].resolved]
        found = [each for each in every if f"{each.encoding.id}.".startswith(f"{wanted}.")]
        if not found and wanted not in {each.id for each in encodings}:
            ids = ", ".join(each.id for each in encodings) or "none"
            rule = f"the model has no encoding {shortened(wanted)}: there are {ids}"
            raise InvalidParameters(Fault("encoding", shortened(wanted), rule))
        return [each for each in found if each.resolved is found[0].resolved]

    def _only_table(self, described: DescribedModel) -> str:
        """Return the URL of the only table; raises InvalidBody with the URLs if it is not sure."""
        start, wanted = self._parameters.start, self._parameters.encoding
        if start is not None:
            rule = "start goes with a rotary embedding along a sequence: give it in to="
            raise InvalidParameters(Fault("start", str(start), rule))
        every = described.model.encodings
        reports = [described.report(each) for each in every if wanted in {None, each.id}]
        served = [each for each in reports if each.links and not each.post]
        if len(served) == 1 and not served[0].asks:
            return served[0].links["table"]
        if not served:
            has = ", ".join(each.id for each in reports) or described.model.reason
            raise InvalidBody(f"no table of the model can be compared with: it has {has}")
        faults = []
        for each in served:
            example = f", an example for {', '.join(each.asks)}" if each.asks else ""
            text = f"{each.id}: {each.kind} of shape {each.shape}{example}"
            faults.append(Fault("", None, text, in_body=True, url=each.links["table"]))
        rule = "the config does not say which table is expected: give the URL of one as to="
        raise InvalidBody(rule, faults=faults)

    @cached_property
    def architecture(self) -> str | None:
        """The architecture of the model's GGUF file, where it is certain."""
        if self._document.architecture is not None:
            return self._document.architecture
        engines = engine_settings(self._resolved, self._document.format)
        return engines.get("llama.cpp", {}).get("architecture")

    def of(self, layer: int | None) -> ExpectedOfModel | None:
        """Return the expectation of a layer; None if the layer does not turn.

        Raises:
            InvalidParameters: layers differ, and there is no number; or no such layer.
        """
        if layer is None:
            if len(self.expected) == 1:
                return self.expected[0]
            raise self._fault(None, f"layers have different tables: {self._groups()}; send layer")
        count = self._resolved.model.value("num_hidden_layers", warns=False)
        if count is not None and layer >= count.value:
            raise self._fault(layer, f"the model has {count.value} layers, from 0 on")
        if layer in self._resolved.without:
            return None
        for each in self.expected:
            if each.layers is None or layer in each.layers:
                if each.layers is None and len(self.expected) > 1:
                    rule = f"the config does not say which layers have which: {self._groups()}"
                    raise self._fault(layer, f"{rule}; send encoding")
                return each
        raise self._fault(layer, f"layer {layer} has another encoding: {self._groups()}")

    def with_axes(self, array: LayerArray) -> LayerArray:
        """Return an array with the names of its axes if its heads are before its channels.

        They are where the last axis but one, and not the one before it, has their number.
        """
        shape = next(iter(array.arrays.values())).shape
        model = self._resolved.model
        known = model.value("num_attention_heads", warns=False)
        heads = {known.value if known else None, model.raw("num_key_value_heads")}
        names = ("batch", "seq", "head", "channel")[-len(shape) :]
        is_moved = array.is_rotation and "seq" in names and shape[-2] in heads
        if not is_moved or len(shape) > len(names) or shape[-3] in heads:
            return array
        return replace(array, axes=names)

    def _groups(self) -> str:
        return "; ".join(
            each.encoding.id + (f" has {layers_text(each.layers)}" if each.layers else "")
            for each in self.expected
        )

    def _fault(self, layer: int | None, rule: str) -> InvalidParameters:
        return InvalidParameters(Fault("layer", None if layer is None else str(layer), rule))


def check_beside(parameters: LayerParameters, content: Input, to: str | None) -> None:
    """Raise InvalidParameters for parameters that do not go together.

    Args:
        parameters: of the request.
        content: its body.
        to: the URL of the expected table.
    """
    if content.document is not None and to is not None:
        raise InvalidParameters(
            Fault("to", shortened(to), "model and to are both what is expected")
        )
    given = [name for name in _OF_MODEL if getattr(parameters, name) is not None]
    if given and content.document is None:
        value = shortened(getattr(parameters, given[0]))
        rule = f"{given[0]} goes with {MODEL}, a config beside the arrays; {_IN_TO}"
        raise InvalidParameters(Fault(given[0], value, rule))


def expected_url(
    parameters: LayerParameters, content: Input, to: str | None, settings: Settings
) -> str:
    """Return the URL of the table that one array should be: ``to``, or that of a layer of a model.

    Raises:
        InvalidParameters: there is neither, or both; or layers differ.
        InvalidBody: the model is not known, or the arrays are several.
    """
    check_beside(parameters, content, to)
    if to is not None:
        return to
    if content.document is None:
        rule = f"to is required: the URL of a table; or send {MODEL}, a config, beside the arrays"
        raise InvalidParameters(Fault("to", None, rule))
    array, *others = layer_arrays(content.arrays)
    if others:
        raise InvalidBody("one table goes with one layer: POST others to /diagnose")
    layer = array.layer if parameters.layer is None else parameters.layer
    model = ModelLayers(content.document, parameters, settings)
    if model.table is not None:
        return model.table
    expected = model.of(layer)
    if expected is None:
        raise InvalidParameters(Fault("layer", str(layer), "this layer has no rotary embedding"))
    return expected.url(array, has_type=not content.is_text)
