"""``POST /diagnose``: what was done to get what somebody has in place of what it should be."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from service.analysis.call import Call
from service.analysis.mistakes.catalogue import Diagnosis, Leaving, Mistake
from service.analysis.mistakes.diagnosis import Wanted, diagnose
from service.analysis.sample import Sample
from service.delivery.examinations import Examination
from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.received import Input
from service.routes.asked import misnamed, unencoded, url_of
from service.routes.diagnose_applied import diagnose_rotation
from service.routes.diagnose_arrays import sound
from service.routes.diagnose_schema import DIAGNOSIS
from service.routes.diagnose_wanted import others_of, wanted_of
from service.routes.diagnose_yours import with_yours
from service.tables.dtypes import FLOAT64, INT64
from service.tables.table import StoredTable

_PAIR = ("cos", "sin")
_NAMES = (
    "have",
    "want",
    *(f"{side}_{part}" for side in ("have", "want") for part in _PAIR),
    *_PAIR,
    "x",
    "rotated",
)

Arrays = Mapping[str, StoredTable]


class DiagnoseParameters(Parameters):
    """Parameters of a diagnosis."""

    to: str | None = Field(
        default=None,
        description="The URL of the table here that it should be, path and query, with %26 for "
        "each & in it; in place of want. Where x and rotated are sent: of /rope, or /rope/apply.",
        examples=["/encoding?seq_len=2&d_model=4"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        """Say that a parameter may belong to the URL in to."""
        array = misnamed(values.get(name), "have, and want,")
        return array or unencoded("to", values.get("to"), name)


def _examine(parameters: DiagnoseParameters, content: Input) -> Mapping[str, Any]:
    arrays = dict(content.arrays)
    _check_names(arrays, content, parameters)
    if {"x", "rotated"} & set(arrays):
        _check_rotation(arrays, parameters)
        call, diagnosis = diagnose_rotation(str(parameters.to), arrays["x"], arrays["rotated"])
        return _report(diagnosis, call)
    have = _samples(_side(arrays, "have", is_free=parameters.to is not None))
    if parameters.to is None:
        want = _samples(_side(arrays, "want", is_free=False))
        dtype = next(iter(want.values())).element_dtype
        wanted = Wanted(want, FLOAT64 if dtype is INT64 else dtype)
        return _report(_diagnosed(_renamed(have, wanted), wanted, None), None)
    elements = sum(sample.values.size for sample in have.values())
    call, wanted = wanted_of(parameters.to, elements)
    return _report(_diagnosed(_renamed(have, wanted), wanted, call), call)


def _check_names(arrays: Arrays, content: Input, parameters: DiagnoseParameters) -> None:
    unknown = [name for name in arrays if name not in _NAMES]
    is_lone = len(arrays) == 1 and parameters.to is not None
    if unknown and not is_lone:
        if not content.is_named:
            rule = "an array without a name is what you have: to must name what it should be"
            raise InvalidParameters(Fault("to", None, rule))
        rule = f"{shortened(unknown[0])} is no array here: there are {', '.join(_NAMES)}"
        raise InvalidBody(rule, f"/{shortened(unknown[0])}")
    given = [name for name in arrays if name.startswith("want")]
    if given and parameters.to is not None:
        rule = f"to and {given[0]} both say what it should be: send one of them"
        raise InvalidParameters(Fault("to", shortened(parameters.to), rule))


def _check_rotation(arrays: Arrays, parameters: DiagnoseParameters) -> None:
    if set(arrays) != {"x", "rotated"}:
        raise InvalidBody("x and rotated go together, and with nothing else")
    if parameters.to is None:
        rule = "to is required with x and rotated: a URL of /rope or /rope/apply"
        raise InvalidParameters(Fault("to", None, rule))


def _side(arrays: Arrays, side: str, *, is_free: bool) -> Arrays:
    """Pick what somebody has, or wants: one array, or cosines and sines."""
    pair = {part: arrays[name] for part in _PAIR if (name := f"{side}_{part}") in arrays}
    if not pair and side == "have" and is_free:
        pair = {part: arrays[part] for part in _PAIR if part in arrays}
        if len(arrays) == 1:
            return arrays
    if side in arrays and not pair:
        return {side: arrays[side]}
    if len(pair) == 2 and side not in arrays:
        return pair
    rule = f"send {side}, or {side}_cos and {side}_sin"
    if side == "want":
        rule += ", or name in to what it should be"
    raise InvalidBody(rule)


def _samples(arrays: Arrays) -> dict[str, Sample]:
    samples = {name: sound(name, table) for name, table in arrays.items()}
    if len({sample.values.shape for sample in samples.values()}) > 1:
        shapes = " and ".join(str(table.shape) for table in arrays.values())
        raise InvalidBody(f"cosines and sines must have the same shape, and have {shapes}")
    return samples


def _renamed(have: dict[str, Sample], wanted: Wanted) -> dict[str, Sample]:
    """Call a lone array what the table is called."""
    names = sorted(wanted.arrays)
    if len(have) == len(names) == 1:
        return {names[0]: next(iter(have.values()))}
    if sorted(have) != names:
        rule = f"to names {' and '.join(names)}: send the same, or name one by part in to"
        if names == ["rope"]:
            rule += "; with pack=half, interleaved or compact it has cos and sin"
        raise InvalidBody(rule)
    return have


def _diagnosed(have: Mapping[str, Sample], wanted: Wanted, call: Call | None) -> Diagnosis:
    diagnosis = diagnose(have, wanted, others_of(call) if call else ())
    if diagnosis is None:
        (name, ours), *_ = have.items()
        theirs = next(iter(wanted.arrays.values()))
        rule = (
            f"what you have is {ours.dtype.name} of shape {ours.shape}, and what it should be "
            f"{theirs.dtype.name} of shape {theirs.shape}: they do not go together"
        )
        raise InvalidBody(rule, f"/{shortened(name)}")
    return with_yours(diagnosis, have, call)


def _report(diagnosis: Diagnosis, call: Call | None) -> Mapping[str, Any]:
    known: dict[str, Any] = {}
    if call is not None:
        known["correct"] = {"url": url_of(call)}
    if diagnosis.yours is not None:
        known["yours"] = {"url": url_of(diagnosis.yours)}
    if diagnosis.leaves_at is not None:
        known["leaves_at"] = _leaving(diagnosis.leaves_at)
    return {
        "verdict": diagnosis.verdict,
        "mistakes": [_said(mistake) for mistake in diagnosis.mistakes],
        "residual": diagnosis.residual,
        **known,
        "checked": {"elements": diagnosis.elements, "allowed": diagnosis.allowed},
    }


def _said(mistake: Mistake) -> dict[str, Any]:
    return {
        **mistake.values,
        "name": mistake.name,
        "sentence": mistake.sentence,
        "correction": mistake.correction,
    }


def _leaving(leaving: Leaving) -> dict[str, Any]:
    position = {} if leaving.position is None else {"position": int(leaving.position)}
    channel = {"channel": leaving.index[-1]} if len(leaving.index) > 1 else {}
    return {
        "array": leaving.array,
        "index": list(leaving.index),
        **position,
        **channel,
        "have": leaving.have,
        "want": leaving.want,
        "error": abs(leaving.have - leaving.want),
        "allowed": leaving.allowed,
    }


DIAGNOSE = Examination(
    path="/diagnose",
    operation="Diagnose",
    summary="The shortest known mistakes that make what somebody has of what it should be",
    parameters=DiagnoseParameters,
    names=_NAMES,
    examine=_examine,
    says="What was done, what to do about it, and whether that explains every element",
    schema=DIAGNOSIS,
    example={
        "to": "/encoding?seq_len=2&d_model=4",
        "have": [[0.0, 0.0, 1.0, 1.0], [0.84147098, 0.00999983, 0.54030231, 0.99995]],
    },
    copies=16,
)
