"""``POST /diagnose``: the mistakes in an array, or in those of each layer of a model.

With a model beside them, arrays are examined against the settings of their layer. Layers with the
same report are one group of the answer; an array that is right for layers of another type is
named so. Where a mistake changes frequencies, the answer says how far attention scores move.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from pydantic import Field

from service.delivery.endpoints import ABSENT, Count, Endpoint, Report
from service.errors import InvalidBody, InvalidParameters
from service.formats.format import Input
from service.models.diff import score_agreement
from service.models.engines import keys_for
from service.numerics.dtypes import to_float64
from service.numerics.phase import Decimals
from service.numerics.tables import StoredTable
from service.routes.diagnose import (
    ARRAY_NAMES,
    CheckedElements,
    DiagnoseParameters,
    DiagnoseReport,
    MistakeReport,
    diagnose_arrays,
)
from service.routes.expected_layers import (
    ArraysOfModel,
    ExpectedOfModel,
    LayerParameters,
    ModelLayers,
    check_beside,
    frequencies_of,
)
from service.routes.expected_tables import frequencies_url
from service.routes.model_links import OriginatedValue
from service.routes.named_layers import (
    LayerArray,
    are_of_a_module,
    is_in_dump,
    layer_arrays,
    layers_text,
)
from service.routes.table_urls import table_request
from service.settings import Settings

Examine: TypeAlias = Callable[[Mapping[str, StoredTable], str], DiagnoseReport]
"""Returns the report about an array and what goes with it, against the table of a URL."""

_BY_LAYER = "rules-by-layer"


class ScoreAgreement(Report):
    """The share of an attention score that is left between two positions."""

    distance: Count
    agreement: float = Field(
        description="The mean of cos(distance·(ω' − ω)) over pairs, rounded to four decimals: 1 is "
        "no change."
    )


class ExpectedSettings(Report):
    """The settings of the layers that an array was examined against."""

    encoding: str = Field(description="The id of the encoding, as /model names it.")
    layout: str
    values: dict[str, OriginatedValue]


class SettingsDiagnosis(DiagnoseReport):
    """A diagnosis by the settings of layers."""

    expected: ExpectedSettings = ABSENT
    scores: list[ScoreAgreement] = Field(
        default=ABSENT,
        description="Of frequencies that differ: how far scores move, at distances up to the "
        "length of the model.",
    )

    def lines(self) -> Iterator[str]:
        yield from super().lines()
        for mistake in self.mistakes if self.verdict == "diagnosed" else ():
            for engine, text in getattr(mistake, "keys", {}).items():
                yield f"{mistake.name}.{engine}: {text}"
        for each in self.scores or ():
            yield f"agreement at distance {each.distance}: {each.agreement}"


class LayerGroup(SettingsDiagnosis):
    """Layers, or arrays of them, with the same report; links and numbers are of the first."""

    layers: list[Count] = ABSENT
    arrays: list[str] = Field(description="Their names, with * for the number of the layer.")


class ModelDiagnosis(SettingsDiagnosis):
    """The mistakes, their corrections, and whether they explain every element."""

    groups: list[LayerGroup] = Field(
        default=ABSENT, description="Of several arrays: those with the same report together."
    )

    def lines(self) -> Iterator[str]:
        """Yield the sentence about all groups, then what is wrong in each; or the lines of one."""
        if not self.groups:
            yield from super().lines()
            return
        yield self.sentence
        for group in self.groups:
            name = f"{group.arrays[0]} {layers_text(group.layers or ())}".strip()
            if group.verdict != "equal":
                yield from (f"{name}: {line}" for line in group.lines())


class ModelDiagnoseParameters(DiagnoseParameters, LayerParameters):
    """Parameters of a diagnosis."""


def diagnose_body(
    parameters: ModelDiagnoseParameters, content: Input, settings: Settings
) -> DiagnoseReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    check_beside(parameters, content, parameters.to)
    has_other_names = content.is_named and not content.arrays.keys() <= set(ARRAY_NAMES)
    is_dump = has_other_names and (
        any(map(is_in_dump, content.arrays)) or are_of_a_module(content.arrays)
    )
    if content.document is None and not (is_dump and parameters.to):
        return diagnose_arrays(parameters, content, settings)
    model = None
    if content.document is not None:
        model = ModelLayers(content.document, parameters, settings)
        if model.table is not None:
            own = parameters.model_copy(update={"to": model.table})
            return diagnose_arrays(own, content, settings)

    def examine(arrays: Mapping[str, StoredTable], to: str) -> DiagnoseReport:
        own = parameters.model_copy(update={"to": to})
        return diagnose_arrays(own, replace(content, arrays=arrays, is_named=True), settings)

    return examine_layers(
        layer_arrays(content.arrays),
        model,
        examine,
        layer=parameters.layer,
        to=parameters.to,
        has_types=not content.is_text,
    )


@dataclass(frozen=True)
class _Examined:
    """An array with its report.

    Attributes:
        layer: the number of its layer; None if there is none.
    """

    array: LayerArray
    layer: int | None
    report: SettingsDiagnosis

    @property
    def kind(self) -> str:
        """The mistakes and the settings, which are the same for all arrays of a group."""
        report = self.report
        mistakes = [(each.name, each.content()) for each in report.mistakes]
        if report.verdict == "none":
            mistakes = [(name, {}) for name, _ in mistakes]
        encoding = report.expected.encoding if report.expected else ""
        return str((report.verdict, mistakes, encoding))


def examine_layers(
    arrays: Iterable[LayerArray],
    model: ModelLayers | None,
    examine: Examine,
    *,
    layer: int | None = None,
    to: str | None = None,
    has_types: bool = True,
) -> ModelDiagnosis:
    """Return the report about arrays, in groups of equal ones if they are several.

    Args:
        arrays: the arrays.
        model: what its layers expect.
        examine: the examination of one of them.
        layer: the layer of arrays whose names have none.
        to: what all should be, without a model.
        has_types: whether the types of arrays are meant.

    Raises:
        PosrefError: an array does not fit; its detail names the array.
    """
    found = []
    for array in arrays:
        number = layer if array.layer is None else array.layer
        if layer not in {None, number}:
            rule = f"{array.name} is of layer {number}, and layer is {layer}: leave layer out"
            raise InvalidBody(rule)
        known = array if model is None else model.with_axes(array)
        examination = _Examination(known, number, model, examine, has_types=has_types)
        try:
            report = examination.against(to) if model is None else examination.by_model(model)
        except (InvalidBody, InvalidParameters) as error:
            if array.layer is None or (error.faults and error.faults[0].where == "layer"):
                raise
            raise InvalidBody(f"{array.name}: {error.detail}") from error
        found.append(_Examined(array, number, report))
    if len(found) == 1:
        fields = {name: each for name, each in found[0].report if each is not ABSENT}
        return ModelDiagnosis(**fields)
    return _in_groups(found)


@dataclass(frozen=True)
class _Examination:
    """The examination of an array by the settings of its layer."""

    array: LayerArray
    layer: int | None
    model: ModelLayers | None
    examine: Examine
    has_types: bool

    def against(self, to: str | None) -> SettingsDiagnosis:
        """Return the report about the array against a URL."""
        assert to is not None
        if self.array.is_of_frequencies:
            to = frequencies_url(to)
        return self._reported(self.examine(self.array.arrays, to), None)

    def by_model(self, model: ModelLayers) -> SettingsDiagnosis:
        """Return the report about the array against the settings of its layer."""
        expected = model.of(self.layer)
        report = self._unturned() if expected is None else self._examined(expected)
        if report.verdict != "equal":
            for other in model.expected:
                if other is not expected:
                    found = self._examined(other)
                    if found.verdict == "equal":
                        report = _of_other_layers(report, found, expected, other)
                        break
        return self._reported(report, expected)

    def _examined(self, expected: ExpectedOfModel) -> DiagnoseReport:
        to = expected.url(self.array, has_type=self.has_types)
        return self.examine(self.array.arrays, to)

    def _unturned(self) -> DiagnoseReport:
        """Return the report about an array of a layer without a rotary embedding."""
        if not self.array.is_rotation:
            raise InvalidBody(f"layer {self.layer} has no rotary embedding, and so no table")
        x, rotated = (
            to_float64(table.elements, table.dtype)
            for table in (self.array.arrays[name] for name in ("x", "rotated"))
        )
        if x.shape != rotated.shape:
            rule = f"x has the shape {x.shape}, and rotated {rotated.shape}: they must be the same"
            raise InvalidBody(rule)
        apart = np.abs(rotated - x)
        is_turned = bool(apart.any())
        text = "This layer should not be rotated: rotated differs from x."
        return DiagnoseReport(
            verdict="none" if is_turned else "equal",
            sentence=text if is_turned else "Nothing is rotated, as this layer should be.",
            mistakes=[],
            checked=CheckedElements(elements=rotated.size),
        )

    def _reported(
        self, report: DiagnoseReport, expected: ExpectedOfModel | None
    ) -> SettingsDiagnosis:
        """Return a report with its settings, keys of engines and scores."""
        fields: dict[str, Any] = {name: each for name, each in report if each is not ABSENT}
        arch = self.model.architecture if self.model and report.mistakes else None
        fields["mistakes"] = [_with_keys(each, arch) for each in report.mistakes]
        if expected is not None:
            rows = expected.rows_of(self.array)
            fields["expected"] = ExpectedSettings(
                encoding=expected.encoding.id, layout=expected.layout, values=expected.values(rows)
            )
            if scores := _scores(report, expected, rows):
                fields["scores"] = scores
        return SettingsDiagnosis(**fields)


def _of_other_layers(
    report: DiagnoseReport,
    found: DiagnoseReport,
    expected: ExpectedOfModel | None,
    other: ExpectedOfModel,
) -> DiagnoseReport:
    """Return the report that an array is right for layers of another type."""
    have = other.encoding.id
    own: dict[str, Any] = {
        "sentence": f"This layer is rotated as those of {have}; the model does not rotate it.",
        "correction": "Leave queries and keys of this layer as they are.",
        "key": "no_rope",
    }
    if expected is not None:
        want = expected.encoding.id
        own = {
            "sentence": f"This layer has the settings of {have}; the model says {want}.",
            "correction": f"Use the settings of {want} for this layer.",
            "want": want,
        }
    mistake = MistakeReport(name=_BY_LAYER, have=have, **own)
    sentence = own["sentence"]
    links = {"correct": report.correct, "yours": found.correct}
    return DiagnoseReport(
        verdict="diagnosed",
        sentence=sentence,
        mistakes=[mistake],
        checked=found.checked,
        **{name: link for name, link in links.items() if link is not None},
    )


def _with_keys(mistake: MistakeReport, arch: str | None) -> MistakeReport:
    """Return a mistake with the settings of engines that mend it."""
    keys = keys_for(mistake.name, getattr(mistake, "key", None), arch)
    return MistakeReport(**mistake.content(), keys=keys) if keys else mistake


def _scores(report: DiagnoseReport, expected: ExpectedOfModel, rows: int) -> list[ScoreAgreement]:
    """Return how far scores move by other frequencies; [] if they are the same or not known."""
    had = _frequencies_of(report, expected, rows)
    if had is None or had == (wanted := expected.frequencies(rows)):
        return []
    return [
        ScoreAgreement(distance=distance, agreement=agreement)
        for distance, agreement in score_agreement(wanted, had, expected.longest(rows))
    ]


def _frequencies_of(
    report: DiagnoseReport, expected: ExpectedOfModel, rows: int
) -> Decimals | None:
    """Return the frequencies that an array has; None if the report does not say them.

    They are those of its own table, or those with the setting that its only mistake names.
    """
    if report.verdict != "diagnosed":
        return None
    if report.yours:
        request = table_request(report.yours.url).with_parameters(**(report.yours.post or {}))
        return frequencies_of(request) if request.resource == "rope" else None
    if [each.name for each in report.mistakes] != ["wrong-base"]:
        return None
    base = report.mistakes[0].content()["have"]
    return frequencies_of(expected.request_for(rows).with_parameters(rope_theta=base))


def _in_groups(found: list[_Examined]) -> ModelDiagnosis:
    """Return the report about several arrays."""
    kinds: dict[tuple[str, str], list[_Examined]] = {}
    for each in found:
        kinds.setdefault((each.array.pattern, each.kind), []).append(each)
    alike: dict[tuple[str, tuple[int | None, ...]], list[list[_Examined]]] = {}
    for (_, kind), several in kinds.items():
        layers = tuple(each.layer for each in several)
        alike.setdefault((kind, layers), []).append(several)
    groups = [_group(*each) for each in alike.values()]
    reports = [each.report for each in found]
    verdicts = {each.verdict for each in reports}
    mistakes = {str(each.content()): each for report in reports for each in report.mistakes}
    return ModelDiagnosis(
        verdict="none" if "none" in verdicts else "diagnosed" if mistakes else "equal",
        sentence=_sentence(groups),
        mistakes=list(mistakes.values()),
        checked=CheckedElements(elements=sum(each.checked.elements for each in reports)),
        groups=groups,
    )


def _group(*several: list[_Examined]) -> LayerGroup:
    """Return a group of arrays, each pattern a list with its layers."""
    first, *_ = several[0]
    fields = {name: each for name, each in first.report if each is not ABSENT}
    layers = [each.layer for each in several[0] if each.layer is not None]
    if layers:
        fields["layers"] = layers
    return LayerGroup(**fields, arrays=[own[0].array.pattern for own in several])


def _sentence(groups: list[LayerGroup]) -> str:
    """Return what holds of which layers, those of the same sentence together."""
    said: dict[tuple[tuple[str, ...], str], list[int]] = {}
    for group in groups:
        text = "equal" if group.verdict == "equal" else group.sentence.rstrip(".")
        text = text[:1].lower() + text[1:] if text[1:2].islower() else text
        said.setdefault((tuple(group.arrays), text), []).extend(group.layers or ())
    is_one = len({arrays for arrays, _ in said}) == 1
    parts: list[str] = []
    for (arrays, text), layers in sorted(said.items(), key=lambda each: min(each[1], default=-1)):
        names = "" if is_one else ", ".join(arrays)
        which = layers_text(layers)
        unit = "layers" if len(layers) > 1 else "layer"
        place = f"{unit} {which}" if which and not (is_one and parts) else which
        subject = " of ".join(filter(None, (names, place))) or "all arrays"
        parts.append(f"{subject}: {text}")
    return "; ".join(parts) + "."


DIAGNOSE = Endpoint(
    path="/diagnose",
    operation="Diagnose",
    summary="The shortest known mistakes that turn the expected table into an array",
    parameters=ModelDiagnoseParameters,
    inputs=ArraysOfModel(
        names=ARRAY_NAMES,
        example={
            "x": [[0.0, 0.0, 1.0, 1.0], [0.84147098, 0.00999983, 0.54030231, 0.99995]],
        },
        copies=8,
        base_seconds=0.08,
        root_seconds=2.5e-4,
    ),
    answer=diagnose_body,
    report=ModelDiagnosis,
    example="to=/encoding?seq_len=2%26d_model=4",
)
