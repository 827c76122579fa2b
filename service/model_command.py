"""``posref model``: every positional encoding of a model on this disk, without a server."""

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from service.analysis.array import TableRequest
from service.delivery.endpoints import Report
from service.delivery.parameters import parse_query, read_parameters
from service.delivery.problems import problem_of
from service.delivery.representation import represent
from service.errors import PosrefError
from service.formats.npy import NPY
from service.models.documents import read_document
from service.models.translation import ModelDocument
from service.routes.difference import DiffParameters, report_diff
from service.routes.model import EncodingReport, ModelParameters, ModelReport, report_model
from service.routes.table_urls import TableUrl, read_url, table_request, url_of
from service.settings import Settings, default_settings

OK, REFUSED, NOT_KNOWN = 0, 1, 3
_HEAD_BYTES = 64 * 2**20
_READABLE = orjson.OPT_INDENT_2
# What describes a model in a folder; the files of a pipeline are in folders of their own.
_NAMES = (
    *("config.json", "params.json", "genai_config.json", "mlc-chat-config.json"),
    *("model_config.yaml", "*/config.json", "*.gguf", "*.safetensors"),
)


def run(options: argparse.Namespace) -> int:
    """Print the report about a file, or about each file of a folder; return the exit code.

    0: every part is known; 1: the model is refused; 3: a part is not known or assumed. With another
    model to compare with, 0: they are the same; 1: a model is refused; 3: they differ, or a part
    is not known.
    """
    code, written = OK, list[dict[str, Any]]()
    try:
        if options.diff is not None:
            return _compare(options)
        parameters = read_parameters(ModelParameters, parse_query(options.query.encode()))
        for name, body in _bodies(options.file):
            document = read_document(body, parameters.format)
            report = report_model(parameters, document, _without_limits())
            _print(name, report, is_json=options.json)
            known = report.knowledge.status == "known"
            if not known or not all(each.known for each in report.encodings):
                code = NOT_KNOWN
            if options.write:
                folder = Path(name).parent
                written += _tables(report, options.write, folder, options.engine)
    except PosrefError as error:
        sys.stderr.buffer.write(orjson.dumps(problem_of(error), option=_READABLE) + b"\n")
        return REFUSED
    except OSError as error:
        print(error, file=sys.stderr)
        return REFUSED
    if options.write:
        manifest = {"for": options.engine, "tables": written}
        text = orjson.dumps(manifest, option=_READABLE)
        (options.write / "manifest.json").write_bytes(text + b"\n")
    return code


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
    bodies = list(_bodies(name))
    if len(bodies) > 1:
        names = ", ".join(each for each, _ in bodies)
        raise FileNotFoundError(f"{name} has several models: name one of {names}")
    return read_document(bodies[0][1])


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
        yield "", _head(path)
    else:
        found = dict.fromkeys(each for pattern in _NAMES for each in sorted(path.glob(pattern)))
        if not found:
            raise FileNotFoundError(f"{name} has none of {', '.join(_NAMES)}")
        configs = [each for each in found if each.suffix in {".json", ".yaml"}]
        for each in configs or found:
            yield str(each.relative_to(path)), _head(each)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _print(name: str, report: Report, *, is_json: bool) -> None:
    if is_json:
        sys.stdout.buffer.write(orjson.dumps(report.content(), option=_READABLE) + b"\n")
    else:
        print(f"{name}: {report.text()}" if name else report.text(), end="")
    sys.stdout.flush()


def _tables(report: ModelReport, root: Path, folder: Path, engine: str) -> Iterator[dict[str, Any]]:
    """Write the tables of a model with the names of an engine; yield what the manifest has."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    for encoding in report.encodings:
        for name, request in _requests(encoding, engine).items():
            body = _body(request)
            if name == "rope_freqs.weight":
                body = _divisors(body, request)
            path = root / folder / f"{encoding.id}.{name}.npy"
            path.write_bytes(body)
            array = np.load(path, mmap_mode="r")
            yield {
                "file": str(path.relative_to(root)),
                "url": url_of(request, NPY.extension),
                "shape": list(array.shape),
                "dtype": array.dtype.name,
                "sha256": sha256(body).hexdigest(),
            }


def _body(request: TableRequest) -> bytes:
    """Return the npy file of a table."""
    table = read_url(url_of(request, NPY.extension))
    return b"".join(represent(table.document, table.representation).body.blocks())


def _requests(encoding: EncodingReport, engine: str) -> dict[str, TableRequest]:
    """Return the tables of an encoding that an engine has, by their names there."""
    links = encoding.links or {}
    if "table" not in links:
        return {}
    table = table_request(links["table"])
    if encoding.kind not in {"rope", "rope-axial"}:
        return {encoding.kind: table}
    frequencies = table_request(links["frequencies"]) if "frequencies" in links else None
    tables = {part: table.with_parameters(part=part) for part in ("cos", "sin")}
    if engine == "vllm":
        tables = {"cos_sin_cache": table.with_parameters(pack="concat")}
    elif engine == "onnx":
        compact = table.with_parameters(pack="compact")
        tables = {f"{part}_cache": compact.with_parameters(part=part) for part in ("cos", "sin")}
    elif engine == "ggml":
        # llama.cpp computes its angles; of the rules, llama3 alone is in a tensor of the file.
        rule = frequencies.parameters.get("rope_type") if frequencies else None
        tables = {}
        if frequencies is not None and rule == "llama3" and encoding.kind == "rope":
            tables["rope_freqs.weight"] = frequencies.with_parameters(part="inv_freq")
    return tables


def _divisors(body: bytes, request: TableRequest) -> bytes:
    """Return llama.cpp's divisors of the frequencies of a base, as an npy file."""
    names = {"head_dim", "rotary_dim", "rope_theta", "part"}
    own = {name: value for name, value in request.parameters.items() if name in names}
    plain = _body(TableRequest(request.resource, own))
    unscaled, scaled = (np.load(BytesIO(each)) for each in (plain, body))
    written = BytesIO()
    np.save(written, (unscaled / scaled).astype(np.float32))
    return written.getvalue()
