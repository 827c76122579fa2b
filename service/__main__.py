"""The command line: serve, get, model, compare, diagnose, identify, conformance, ready, openapi.

Each command imports what it needs: the processes that the server starts import this module, too.
"""

import argparse
import errno
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from service import __version__
from service.errors import InvalidSettings, PosrefError

if TYPE_CHECKING:
    from service.formats.format import Body

_READY_TIMEOUT_SECONDS = 3.0
_INTERRUPTED = 128 + signal.SIGINT
_EVERY_IPV4 = "0.0.0.0"  # noqa: S104 - compared with, not bound to.
ENGINES = ("transformers", "ggml", "onnx", "vllm")
_REPORTS = {
    "compare": "show where arrays differ from a table",
    "diagnose": "name the mistakes that turn the expected table into an array",
    "identify": "find the table that an array is equal to",
}
_CODES = "The exit code is 0 if the arrays agree with a table, 1 if not, and 2 if they are refused."
_REFUSED = 2
_MOST_SECONDS = 86400
# A list that begins with a minus, or -1e-3: argparse would take it for an option.
_NUMBERS = re.compile(r"-\.?[0-9].*[,:e]")
_READABLE = orjson.OPT_INDENT_2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    # What follows is the command of somebody else.
    own = given.index("--") if "--" in given else len(given)
    named = [f" {each}" if _NUMBERS.match(each) else each for each in given[:own]]
    options = _parser().parse_args([*named, *given[own:]])
    try:
        code: int = options.command(options)
    except InvalidSettings as error:
        print(error, file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="posref", description="The reference server for positional encodings."
    )
    parser.add_argument("--version", action="version", version=f"posref {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    serve = commands.add_parser("serve", help="serve tables over HTTP")
    serve.add_argument("--host", help="address to listen on (POSREF_HOST, 127.0.0.1)")
    serve.add_argument("--port", help="port to listen on (POSREF_PORT, 8000)")
    serve.add_argument("--workers", help="processes that serve (POSREF_WORKERS, 1)")
    serve.set_defaults(command=_serve)

    get = commands.add_parser("get", help="write a table to a file; no server is needed")
    get.add_argument("url", help="path and query, as in /encoding.npy?seq_len=50&d_model=512")
    get.add_argument("-o", "--output", type=Path, help="the file (standard output)")
    get.set_defaults(command=_get)

    ready = commands.add_parser("ready", help="exit with code 0 if a server is ready")
    ready.add_argument("--host", help="its address (POSREF_HOST, 127.0.0.1)")
    ready.add_argument("--port", help="its port (POSREF_PORT, 8000)")
    ready.set_defaults(command=_ready)

    model = commands.add_parser("model", help="show every positional encoding of a model")
    model.add_argument("file", help="a config, the head of a weight file, a folder, or -")
    model.add_argument("--json", action="store_true", help="write the whole report as JSON")
    model.add_argument(
        "--query", default="", help="parameters of /model or /model/diff, as in grid=1,4,6"
    )
    model.add_argument("--diff", metavar="OTHER", help="another model, or a table's URL: compare")
    model.add_argument("--write", type=Path, metavar="DIR", help="write all tables to a folder")
    model.add_argument("--for", dest="engine", choices=ENGINES, help="whose tables (transformers)")
    model.set_defaults(command=_model, engine=ENGINES[0])

    for name, meaning in _REPORTS.items():
        _add_report(commands.add_parser(name, help=meaning, description=f"{meaning}. {_CODES}"))

    meaning = "test vectors for implementations, and the runner that judges one"
    conformance = commands.add_parser("conformance", help=meaning, description=f"{meaning}.")
    _add_conformance(conformance.add_subparsers(required=True, metavar="command"))

    openapi = commands.add_parser("openapi", help="print the OpenAPI document")
    openapi.set_defaults(command=_openapi)
    return parser


def _add_conformance(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands of the conformance suite."""
    write = commands.add_parser("write", help="write the files of the suite to a folder")
    write.add_argument("folder", type=Path, metavar="DIR", help="the folder")
    write.add_argument("--full", type=int, default=0, metavar="COUNT",
        help="draw so many more cases for each file (0)")  # fmt: skip
    write.add_argument("--seed", type=int, default=0, help="what they are drawn from (0)")
    write.set_defaults(command=_conformance, action="write")

    codes = (
        "The exit code is 0 if all that the command supports passes, 1 if a case fails, 2 if it "
        "supports nothing, and 3 if it does not start, ends early, is silent, or breaks the "
        "protocol."
    )
    run = commands.add_parser("run", help="judge an implementation", description=codes)
    run.add_argument("--suite", type=Path, metavar="DIR", help="a folder, or one file (the core)")
    run.add_argument(
        "--only",
        action="append",
        metavar="GLOB",
        help="ids of cases, or files: rope/*",
    )
    run.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    run.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit XML")
    run.add_argument("--no-diagnosis", action="store_true",
        help="do not diagnose what is no mistake of the suite, which takes seconds")  # fmt: skip
    run.add_argument("--timeout", type=_seconds, default=60.0, help="seconds for an answer (60)")
    run.add_argument("program", nargs="+", metavar="COMMAND", help="after --: the implementation")
    run.set_defaults(command=_conformance, action="run")


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(text)) < _MOST_SECONDS:
            return seconds
    rule = f"{text!r} is no number of seconds above 0 and below {_MOST_SECONDS}"
    raise argparse.ArgumentTypeError(rule)


def _add_report(report: argparse.ArgumentParser) -> None:
    """Add the arguments of a report about arrays."""
    endpoint = report.prog.rpartition(" ")[2]
    add = report.add_argument
    add("have", nargs="?", help="npy, safetensors, JSON, elements alone (--shape, --dtype), or -; "
        "of compare, also the URL of a table")  # fmt: skip
    add("--at", nargs=2, action="append", default=[], metavar=("POSITION", "NUMBERS"),
        help="in place of a file, the first numbers of a row; repeatable")  # fmt: skip
    if endpoint != "identify":
        add("--to", metavar="URL|FILE", help="the expected table: its path and query, or a model")
        add("--layer", type=int, help="the layer whose table is expected, of a model in --to")
    if endpoint == "diagnose":
        add("--rotated", metavar="FILE", help="what the array was rotated to")
        add("--write-case", type=Path, metavar="FILE",
            help="write rows that are wrong as a vector file of the suite")  # fmt: skip
    add("--tensor", action="append", default=[], metavar="NAME",
        help="a tensor of a safetensors file, or AS=NAME; repeatable (all)")  # fmt: skip
    add("--shape", help="of a file without a header, as in 50,512")
    add("--dtype", help="of a file without a header, as in bfloat16")
    add("--start", help="position of the first row")
    add("--positions", help="position of each row, as in 0,5,9:20:2")
    add("--query", default="", help=f"other parameters of /{endpoint}, with & between them")
    add("--json", action="store_true", help="write the whole report as JSON")
    report.set_defaults(
        command=_report, endpoint=endpoint, to=None, layer=None, rotated=None, write_case=None
    )


def _serve(options: argparse.Namespace) -> int:
    from multiprocessing import get_all_start_methods

    if "forkserver" not in get_all_start_methods():
        print(f"posref serves on Linux and macOS only, not on {sys.platform}", file=sys.stderr)
        return 1
    from service.serving.start import CannotListen, serve
    from service.settings import load_settings

    settings = load_settings(host=options.host, port=options.port, workers=options.workers)
    try:
        return serve(settings)
    except CannotListen as error:
        print(error, file=sys.stderr)
        return 1


def _get(options: argparse.Namespace) -> int:
    return _caught(_write_table, options)


def _write_table(options: argparse.Namespace) -> int:
    body = find_body(options.url)
    if options.output:
        save(body, options.output)
    else:
        sys.stdout.buffer.writelines(body.blocks())
        sys.stdout.flush()
    return 0


def _caught(
    command: Callable[[argparse.Namespace], int], options: argparse.Namespace, failed: int = 1
) -> int:
    """Return the exit code of a command; ``failed``, with a problem or a line, if it fails."""
    try:
        return command(options)
    except PosrefError as error:
        from service.delivery.problems import problem_of

        (*notes,) = getattr(error, "__notes__", ())
        problem = problem_of(error) | ({"file": notes[0]} if notes else {})
        sys.stderr.buffer.write(orjson.dumps(problem, option=_READABLE) + b"\n")
        return failed
    except BrokenPipeError:
        # The reader has closed the pipe; Python would fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except OSError as error:
        print(f"{error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return failed
    except KeyboardInterrupt:
        return _INTERRUPTED


def _ready(options: argparse.Namespace) -> int:
    import httpx

    from service.settings import load_settings

    settings = load_settings(host=options.host, port=options.port)
    url = f"http://{_reachable(settings.host)}:{settings.port}/readyz"
    try:
        status = httpx.get(url, timeout=_READY_TIMEOUT_SECONDS, trust_env=False).status_code
    except httpx.HTTPError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    return 0 if status == httpx.codes.OK else 1


def _reachable(host: str) -> str:
    """Return the address for local requests to a server on a host: loopback for a wildcard."""
    reachable = {_EVERY_IPV4: "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{reachable}]" if ":" in reachable else reachable


def _model(options: argparse.Namespace) -> int:
    from service.model_command import run

    return _caught(run, options)


def _report(options: argparse.Namespace) -> int:
    from service.array_command import run

    return _caught(run, options, _REFUSED)


def _conformance(options: argparse.Namespace) -> int:
    from service import conformance_command

    return _caught(getattr(conformance_command, options.action), options, _REFUSED)


def _openapi(_options: argparse.Namespace) -> int:
    from service.app import create_app
    from service.settings import default_settings

    document = orjson.dumps(create_app(default_settings()).openapi(), option=_READABLE)
    sys.stdout.buffer.write(document + b"\n")
    return 0


def find_body(url: str) -> "Body":
    """Return the body of the response to a GET of a URL, computed without a server.

    Args:
        url: path and query, as in ``/encoding.npy?seq_len=50&d_model=512``; a scheme and a host
            are ignored.

    Raises:
        PosrefError: as the server would.
    """
    from service.delivery.representation import represent
    from service.routes.table_urls import read_url

    table = read_url(url)
    return represent(table.document, table.representation).body


def save(body: "Body", path: Path) -> None:
    """Write a body to a file, pipe or device; remove an incomplete file after a failure.

    A symbolic link and its file stay.

    Raises:
        OSError: the file cannot be written, or the disk has no room for it.
    """
    _check_room(body, path)
    # An interruption may come before the file is known to be open.
    is_own = not path.exists()
    try:
        with path.open("wb") as file:
            is_own = True
            file.writelines(body.blocks())
    except BaseException:
        if is_own and path.is_file() and not path.is_symlink():
            path.unlink()
        raise


def _check_room(body: "Body", path: Path) -> None:
    if path.exists() and not path.is_file():
        return
    free_bytes = shutil.disk_usage(path.resolve().parent).free
    if path.exists():
        free_bytes += path.stat().st_size
    if (body.length_bytes or 0) > free_bytes:
        reason = f"it takes {body.length_bytes} bytes and there is room for {free_bytes}"
        raise OSError(errno.ENOSPC, reason, str(path))


if __name__ == "__main__":
    sys.exit(main())
