"""``posref compare``, ``diagnose`` and ``identify``: reports about arrays, without a server.

A file, or a few rows on the command line, is read as the body of a POST to the endpoint of the same
name; the options are parameters of its query.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from service.delivery.endpoints import Endpoint, Report
from service.delivery.parameters import most_similar, parse_query, read_parameters
from service.delivery.plans import read_query
from service.encodings.family import Parameters, refuse
from service.errors import Fault, InvalidBody, InvalidParameters, PosrefError, shortened
from service.formats.format import Block, Input, ReadableFormat
from service.formats.json_text import JSON, read_object
from service.formats.npy import NPY
from service.formats.raw import RAW
from service.formats.safetensors_file import SAFETENSORS
from service.grammar import real, reals
from service.model_command import read_head
from service.numerics.tables import StoredTable
from service.routes import ENDPOINTS
from service.routes.compare import CompareReport
from service.routes.diagnose import DiagnoseReport
from service.routes.diagnosed_models import ModelDiagnoseParameters
from service.routes.expected_layers import LayerParameters, expected_url
from service.routes.identify import IdentifyReport
from service.routes.table_urls import pointing_at_to, table_at, table_request, url_of
from service.settings import default_settings

AGREES, DIFFERS, REFUSED = 0, 1, 2
_FORMATS = {f".{form.extension}": form for form in (NPY, SAFETENSORS, JSON, RAW)}
_READABLE = orjson.OPT_INDENT_2
_LENGTH_BYTES = 8
_MOST_NAMED = 5
_ROWS = "rows of --at"
_OF_MODEL = frozenset(LayerParameters.model_fields)


def run(options: argparse.Namespace) -> int:
    """Print the report about the arrays of a file; return the exit code.

    0: they agree with the table, or are identified; 1: they are not; 2: the arrays, the table or a
    parameter are refused, or no case can be made of what is wrong, as standard error says.

    Raises:
        OSError: a file cannot be read, or the report cannot be written.
    """
    try:
        endpoint = ENDPOINTS[f"/{options.endpoint}"]
        are_tables = endpoint.by_get is not None and _is_url(options.have or "")
        report, write_case = (_report_of_tables if are_tables else _report)(endpoint, options)
    except PosrefError as error:
        sys.stderr.writelines(f"{line}\n" for line in _refusal(error))
        return REFUSED
    content = orjson.dumps(report.content(), option=_READABLE) + b"\n"
    sys.stdout.buffer.write(content if options.json else report.text().encode())
    sys.stdout.flush()
    code = AGREES if _agrees(report, is_logged=bool(options.at)) else DIFFERS
    try:
        if write_case is not None:
            write_case()
    except PosrefError as error:
        sys.stderr.writelines(f"{options.write_case}: {line}\n" for line in _refusal(error))
        return code and REFUSED
    return code


def _agrees(report: Report, *, is_logged: bool) -> bool:
    """Return whether a report finds nothing wrong; the few decimals of a log are right."""
    if isinstance(report, CompareReport):
        return report.equal or report.within
    assert isinstance(report, DiagnoseReport | IdentifyReport)
    if isinstance(report, DiagnoseReport) and is_logged and report.verdict == "diagnosed":
        return all(each.name == "rounded-decimals" for each in report.mistakes)
    return report.verdict in {"equal", "identified"}


def _refusal(error: PosrefError) -> Iterator[str]:
    """Yield a line for each fault: the file, the parameter or the array, and the rule it breaks."""
    for fault in error.faults or [Fault(None, None, error.detail)]:
        where = (fault.where or "").strip("/")
        is_named = fault.detail.startswith(where)
        (*files,) = getattr(error, "__notes__", ())
        yield ": ".join([*files, *([] if is_named else [where]), fault.detail])


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Make the errors of a file name it."""
    try:
        yield
    except PosrefError as error:
        error.add_note("standard input" if file == "-" else file)
        raise


def _report(
    endpoint: Endpoint, options: argparse.Namespace
) -> tuple[Report, Callable[[], None] | None]:
    """Return the report of an endpoint, and what writes a case; raises PosrefError or OSError."""
    if bool(options.at) == (options.have is not None):
        raise InvalidParameters(Fault(None, None, "name one file, or give rows with --at"))
    if len([each for each in (options.at, options.positions, options.start) if each]) > 1:
        rule = "--at, --positions and --start exclude each other"
        raise InvalidParameters(Fault(None, None, rule))
    at = [_row(*each) for each in options.at]
    positions = ",".join(position for position, _ in at) if at else options.positions
    rows = {"positions": positions, "start": options.start}
    rows = {name: value.strip() for name, value in rows.items() if value is not None}
    if at:
        body = orjson.dumps({"x": [numbers for _, numbers in at]})
        given, content = _read(endpoint, options, _ROWS, JSON, body)
    else:
        given, content = _read_file(endpoint, options, options.have)
    if options.rotated is not None:
        content = _rotation(endpoint, options, content)
    if options.layer is not None:
        given["layer"] = options.layer
    given, content = _expected(endpoint, options.to, rows, given, content)
    parameters = read_parameters(endpoint.parameters, given)
    arguments = endpoint.inputs.arguments(parameters, content)
    report = endpoint.answer_to(parameters, arguments, default_settings())
    assert isinstance(report, Report)
    if options.write_case is None:
        return report, None
    return report, partial(_write_case, options.write_case, parameters, content, report)


def _write_case(file: Path, parameters: Parameters, content: Input, report: Report) -> None:
    """Write a vector file of rows that are wrong; raises PosrefError or OSError."""
    # The suite takes a tenth of a second to import, and compare and identify do without.
    from service.conformance.own_cases import own_case  # noqa: PLC0415

    assert isinstance(parameters, ModelDiagnoseParameters)
    assert isinstance(report, DiagnoseReport)
    url = expected_url(parameters, content, parameters.to, default_settings())
    if parameters.positions is not None:
        request = table_request(url).without("start", "seq_len")
        url = url_of(request.with_parameters(positions=str(parameters.positions)))
    mistakes = {each.name for each in report.mistakes}
    # An array may be the table, in an arithmetic that costs more than the suite allows.
    sentence = report.sentence if report.verdict == "diagnosed" else ""
    text = own_case(file.stem, url, content.arrays, mistakes, sentence)
    file.write_text(text, "utf-8")
    sys.stderr.write(f"{file}: wrote a case\n")


def _report_of_tables(endpoint: Endpoint, options: argparse.Namespace) -> tuple[Report, None]:
    """Return the report about two tables; raises PosrefError."""
    of_files = ("at", "layer", "tensor", "shape", "dtype", "start", "positions")
    rule = "goes with a file, but have is the URL of a table"
    refuse([Fault(f"--{name}", None, rule) for name in of_files if getattr(options, name)])
    assert endpoint.by_get is not None
    urls = {"have": options.have, "to": options.to}
    given = {name: url for name, url in urls.items() if url is not None}
    query = parse_query(os.fsencode(options.query))
    parameters = read_parameters(endpoint.by_get.parameters, {**query, **given})
    report = endpoint.by_get.answer_to(parameters, (), default_settings())
    assert isinstance(report, Report)
    return report, None


def _row(position: str, numbers: str) -> tuple[str, tuple[float, ...]]:
    """Return the position and the first numbers of a row; raises InvalidParameters."""
    try:
        real(position.strip())
        return position.strip(), reals(numbers.strip())
    except ValueError as error:
        value = shortened(f"{position} {numbers}")
        raise InvalidParameters(Fault("--at", value, f"--at {value}: {error}")) from error


def _read_file(
    endpoint: Endpoint, options: argparse.Namespace, name: str
) -> tuple[dict[str, Any], Input]:
    """Return what ``_read`` does, of a file or of standard input."""
    body = _bytes_of(name)
    with _naming(name):
        form = RAW if options.shape else _format_of(name, body)
        if form is RAW and not (options.shape and options.dtype):
            rule = "without a known header, it needs --shape and --dtype"
            raise InvalidBody(f"{rule}, as in --shape 50,512 --dtype float32")
        if options.tensor:
            if form is not SAFETENSORS:
                raise InvalidBody(f"--tensor goes with safetensors, and the file is {form.name}")
            body = _tensors(body, options.tensor)
    return _read(endpoint, options, name, form, body)


def _read(
    endpoint: Endpoint, options: argparse.Namespace, name: str, form: ReadableFormat, body: Block
) -> tuple[dict[str, Any], Input]:
    """Return the parameters of a body and of the query, which prevail, and the arrays."""
    header = {"shape": options.shape, "dtype": options.dtype}
    given = {key: value for key, value in header.items() if value is not None}
    query = "&".join(filter(None, (options.query, urlencode(given, errors="surrogateescape"))))
    with _naming(name):
        parameters, form = read_query(endpoint, form, os.fsencode(query))
        values, content = endpoint.inputs.read(form, body)
    return {**values, **parameters}, content


def _bytes_of(name: str) -> Block:
    """Return the content of a file, which is mapped if it can be, or of standard input."""
    if name == "-":
        return sys.stdin.buffer.read()
    with Path(name).open("rb") as file:
        if Path(name).is_file() and os.fstat(file.fileno()).st_size:
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
        return file.read()


def _format_of(name: str, body: Block) -> ReadableFormat:
    """Return the format that the name of a file or its content shows; else its elements alone."""
    head = bytes(body[: 2 * _LENGTH_BYTES])
    if head.startswith(b"PK"):
        raise InvalidBody("an archive, as npz and pt are, is not read: save npy or safetensors")
    if (form := _FORMATS.get(Path(name).suffix.lower())) is not None:
        return form
    if head.startswith(b"\x93NUMPY"):
        return NPY
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if head[_LENGTH_BYTES:].startswith(b"{") and length < len(body):
        return SAFETENSORS
    return JSON if head.lstrip().startswith((b"{", b"[")) else RAW


def _tensors(body: Block, names: Sequence[str]) -> bytes:
    """Return a safetensors file of the named tensors alone, whatever else a checkpoint has.

    ``cos=rotary.cos_cached`` gives the tensor ``rotary.cos_cached`` the name ``cos``.
    """
    first = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
    header, kept, data = read_object(body[_LENGTH_BYTES:first]), dict[str, Any](), b""
    header.pop("__metadata__", None)
    for each in names:
        role, _, name = each.rpartition("=")
        match header.get(name):
            case {"data_offsets": [int(start), int(stop)], **others}:
                elements = bytes(body[first + start : first + stop])
                offsets = [len(data), len(data) + len(elements)]
                kept[role or name] = {**others, "data_offsets": offsets}
                data += elements
            case _:
                near = ", ".join(map(shortened, most_similar(name, header, _MOST_NAMED)))
                raise InvalidBody(f"there is no tensor {shortened(name)}; among them are {near}")
    text = json.dumps(kept).encode()
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + data


def _rotation(endpoint: Endpoint, options: argparse.Namespace, x: Input) -> Input:
    """Return the arrays of a rotation: x, and what it was rotated to, of another file."""
    _, rotated = _read_file(endpoint, options, options.rotated)
    arrays = {
        "x": _single(options.have or _ROWS, x),
        "rotated": _single(options.rotated, rotated),
    }
    return Input(arrays, is_text=x.is_text and rotated.is_text)


def _single(name: str, content: Input) -> StoredTable:
    with _naming(name):
        if len(content.arrays) != 1:
            names = shortened(", ".join(content.arrays) or "none")
            raise InvalidBody(f"--rotated takes one array of each file (--tensor), not {names}")
    return next(iter(content.arrays.values()))


def _expected(
    endpoint: Endpoint,
    to: str | None,
    rows: Mapping[str, str],
    given: Mapping[str, Any],
    content: Input,
) -> tuple[dict[str, Any], Input]:
    """Return parameters and arrays with what the arrays should be: a table, or a model.

    Positions that the endpoint has no parameter for are those of the expected table.

    Args:
        endpoint: the endpoint.
        to: the URL of a table, or the file of a model.
        rows: ``positions`` or ``start``, if there are any.
        given: the other parameters.
        content: the arrays.

    Raises:
        PosrefError: the model, or the URL, is refused.
        OSError: the file cannot be read.
    """
    fields = endpoint.parameters.model_fields
    if to is None:
        return {**given, **rows}, content
    if not _is_url(to):
        content = replace(content, document=read_head(to))
        if rows.keys() <= fields.keys():
            return {**given, **rows}, content
        parameters = read_parameters(endpoint.parameters, given)
        assert isinstance(parameters, LayerParameters)
        to = expected_url(parameters, content, None, default_settings())
        given = {name: each for name, each in given.items() if name not in _OF_MODEL}
        content = replace(content, document=None)
    if "positions" in rows and "positions" in fields:
        return {**given, **rows, "to": to}, content
    if rows:
        with pointing_at_to(to):
            request = table_request(to)
        others = ("positions", "start", *(["seq_len"] if "positions" in rows else []))
        to = url_of(request.without(*others).with_parameters(**rows))
    return {**given, "to": to}, content


def _is_url(text: str) -> bool:
    return "?" in text or "://" in text or table_at(text.partition(".")[0]) is not None
