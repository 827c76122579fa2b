"""``posref model``: every positional encoding of a model on this disk, without a server."""

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from service.analysis.array import TableRequest
from service.delivery.endpoints import Report
from service.delivery.parameters import parse_query, read_parameters
from service.errors import ModelNotKnown, PosrefError
from service.formats.format import Format
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
from service.models.documents import read_document
from service.models.engines import engine_tables
from service.models.translation import ModelDocument
from service.numerics.dtypes import FLOAT32
from service.numerics.tables import Document, StoredTable, Table
from service.routes.difference import DiffParameters, report_diff
from service.routes.model import EncodingReport, ModelParameters, ModelReport, report_model
from service.routes.table_urls import TableUrl, read_url, table_request, url_of
from service.settings import Settings, default_settings

OK, NOT_KNOWN = 0, 3
_HEAD_BYTES = 64 * 2**20
_READABLE = orjson.OPT_INDENT_2
_ALL = "tables.safetensors"
# What llama.cpp divides the frequency of a channel by that stands still.
_STILL = 1e30
# What describes a model in a folder; the files of a pipeline are in folders of their own.
_NAMES = (
    *("config.json", "params.json", "genai_config.json", "mlc-chat-config.json"),
    *("model_config.yaml", "*/config.json", "*.gguf", "*.safetensors"),
)


def run(options: argparse.Namespace) -> int:
    """Print the report about a file, or about each file of a folder; return the exit code.

    0: every part is known; 3: a part is not known, or is assumed. In a folder, a model that is not
    known counts as a part that is not known. With another model to compare with, 0: they are the
    same; 3: they differ, or a part is not known.

    Raises:
        PosrefError: the model is refused; the file of a folder is a note.
        OSError: a file cannot be read or written, or two models have tables of the same names.
    """
    if options.diff is not None:
        return _compare(options)
    code, written, writers = OK, list[dict[str, Any]](), dict[Path, str]()
    for name, report in _reports(options):
        if report is None:
            code = NOT_KNOWN
            continue
        _print(name, report, is_json=options.json)
        known = report.knowledge.status == "known"
        if not known or not all(each.known for each in report.encodings):
            code = NOT_KNOWN
        if options.write and any(any(_requests(each, options.engine)) for each in report.encodings):
            folder = Path(name).parent
            other = writers.setdefault(folder, name)
            if other != name:
                raise FileExistsError(f"{other} and {name} have tables of the same names: name one")
            written += _tables(report, options.write, folder, options.engine)
    if options.write:
        files = {"tables": [each for each in written if "shape" in each]}
        files["of_all_tables"] = [each for each in written if "shape" not in each]
        manifest = {"for": options.engine, **files}
        text = orjson.dumps(manifest, option=_READABLE)
        options.write.mkdir(parents=True, exist_ok=True)
        (options.write / "manifest.json").write_bytes(text + b"\n")
    return code


def _reports(options: argparse.Namespace) -> Iterator[tuple[str, ModelReport | None]]:
    """Yield the report about each file; None for one that is not known in a folder with others."""
    parameters = read_parameters(ModelParameters, parse_query(options.query.encode()))
    unknown, is_read = dict[str, ModelNotKnown](), False
    for name, body in _bodies(options.file):
        try:
            document = read_document(body, parameters.format)
            yield name, report_model(parameters, document, _without_limits())
            is_read = True
        except PosrefError as error:
            if name:
                error.add_note(name)
            if not name or not isinstance(error, ModelNotKnown):
                raise
            unknown[name] = error
    for name, refusal in unknown.items():
        if not is_read:
            raise refusal
        print(f"{name}: {refusal.detail}", file=sys.stderr)
        yield name, None


def _compare(options: argparse.Namespace) -> int:
    """Print how a file differs from another one, or from the table at a URL."""
    parameters = read_parameters(DiffParameters, parse_query(options.query.encode()))
    sent = {"a": _document(options.file), "b": _document(options.diff)}
    report = report_diff(parameters, sent, _without_limits())
    _print("", report, is_json=options.json)
    return OK if report.same else NOT_KNOWN


def _document(name: str) -> ModelDocument | TableUrl:
    if name.startswith("/") and not Path(name).exists():
        return read_url(name)
    return read_document(read_head(name))


def read_head(name: str) -> bytes:
    """Return the head of a file that describes a model, of the only one in a folder, or of ``-``.

    Raises:
        OSError: it cannot be read, or the folder has several models.
    """
    bodies = list(_bodies(name))
    if len(bodies) > 1:
        names = ", ".join(each for each, _ in bodies)
        raise FileNotFoundError(f"{name} has several models: name one of {names}")
    return bodies[0][1]


def _without_limits() -> Settings:
    """Return the settings under which links are neither shortened nor cut."""
    limits = {"max_url_bytes": 2**31, "max_response_bytes": 2**62}
    return default_settings().model_copy(update=limits)


def _bodies(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the heads of the files that describe a model, each with its name in a folder."""
    path = Path(name)
    if name == "-":
        yield "", sys.stdin.buffer.read(_HEAD_BYTES)
    elif not path.is_dir():
        with path.open("rb") as file:
            yield "", file.read(_HEAD_BYTES)
    else:
        found = dict.fromkeys(each for pattern in _NAMES for each in sorted(path.glob(pattern)))
        if not found:
            raise FileNotFoundError(f"{name} has none of {', '.join(_NAMES)}")
        configs = [each for each in found if each.suffix in {".json", ".yaml"}]
        for each in configs or found:
            yield from ((str(each.relative_to(path)), body) for _, body in _bodies(str(each)))


def _print(name: str, report: Report, *, is_json: bool) -> None:
    if is_json:
        content = ({"file": name} if name else {}) | report.content()
        sys.stdout.buffer.write(orjson.dumps(content, option=_READABLE) + b"\n")
    else:
        print(f"{name}: {report.text()}" if name else report.text(), end="")
    sys.stdout.flush()


def _tables(report: ModelReport, root: Path, folder: Path, engine: str) -> Iterator[dict[str, Any]]:
    """Write the tables of a model with the names of an engine; yield what the manifest has."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Table] = {}
    for encoding in report.encodings:
        for name, request, length in _requests(encoding, engine):
            document = read_url(url_of(request, NPY.extension)).document
            if engine == "ggml" and name.endswith(".weight"):
                document = _divisors(document, request)
            ((_, table),) = document.arrays.items()
            arrays[name] = table
            yield {
                **_written(root, folder / f"{name}.npy", NPY, document),
                "url": url_of(request, NPY.extension),
                "shape": list(table.shape),
                "dtype": table.dtype.name,
                **({"layers": encoding.layers} if encoding.layers else {}),
                **({"context_length": length} if length else {}),
            }
    if arrays:
        yield _written(root, folder / _ALL, SAFETENSORS, Document("model", {}, arrays))


def _written(root: Path, name: Path, form: Format, document: Document) -> dict[str, str]:
    """Write a file; return its name and its hash."""
    digest = sha256()
    with (root / name).open("wb") as file:
        for block in form.body(document).blocks():
            digest.update(block)
            file.write(block)
    return {"file": str(name), "sha256": digest.hexdigest()}


def _requests(
    encoding: EncodingReport, engine: str
) -> Iterator[tuple[str, TableRequest, int | None]]:
    """Yield the tables of an encoding that an engine has: name, request, and context length."""
    links, rule = encoding.links or {}, encoding.kind
    if "table" in links and rule not in {"rope", "rope-axial"}:
        yield f"{encoding.id}.{rule}", table_request(links["table"]), None
    elif encoding.regimes:
        for place, each in enumerate(encoding.regimes):
            tables = _rotary(each.table, each.frequencies, engine, place)
            suffix = "" if engine == "ggml" else f".{each.context_length}"
            for name, request in tables.items():
                yield f"{encoding.id}{suffix}.{name}", request, each.context_length
    elif "table" in links and (rule, engine) != ("rope-axial", "vllm"):
        rates = links.get("frequencies") if rule == "rope" else None
        for name, request in _rotary(links["table"], rates, engine).items():
            yield f"{encoding.id}.{name}", request, None


def _rotary(url: str, rates: str | None, engine: str, place: int = 0) -> dict[str, TableRequest]:
    """Return the tables of a rotary embedding, by their names; in which place of its regimes."""
    table = table_request(url)
    if engine == "vllm":
        return {"cos_sin_cache": table.with_parameters(pack="concat")}
    if engine == "onnx":
        table = table.with_parameters(pack="compact")
        return {f"{part}_cache": table.with_parameters(part=part) for part in ("cos", "sin")}
    tables = {part: table.with_parameters(part=part) for part in ("cos", "sin")}
    if rates is not None:
        tables["inv_freq"] = table_request(rates).with_parameters(part="inv_freq")
    if engine == "transformers":
        return tables
    # llama.cpp computes its angles; the divisors of these rules are in its files.
    own = tables.get("inv_freq")
    rule = str(own.parameters.get("rope_type")) if own else ""
    names = engine_tables()["llama.cpp"]["tensors"].get(rule)
    # The last one is of the first regime.
    return {names[-1 - place]: own} if own and names else {}


def _divisors(scaled: Document, request: TableRequest) -> Document:
    """Return llama.cpp's divisors of the frequencies of a base."""
    names = {"head_dim", "rotary_dim", "rope_theta", "part"}
    own = {name: value for name, value in request.parameters.items() if name in names}
    plain = read_url(url_of(TableRequest(request.resource, own))).document
    numbers = (next(iter(each.arrays.values())) for each in (plain, scaled))
    one, other = (each.read(0, prod(each.shape)) for each in numbers)
    quotients = np.divide(one, other, out=np.full(len(one), _STILL), where=other != 0)
    table = StoredTable(quotients.astype(np.float32), FLOAT32)
    return Document(scaled.kind, {}, {"divisors": table})
