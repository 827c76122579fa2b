"""The command line: serve, get, ready, openapi."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import orjson

from service import __version__
from service.app import create_app
from service.delivery.problems import problem_of
from service.errors import PosrefError
from service.local import find_body, save
from service.serving.server import CannotListen, serve
from service.settings import InvalidSettings, default_settings, load_settings

_READY_TIMEOUT_SECONDS = 3.0
_INTERRUPTED = 128 + signal.SIGINT
_EVERY_IPV4 = "0.0.0.0"  # noqa: S104 - compared with, not bound to.
_READABLE = orjson.OPT_INDENT_2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    options = _parser().parse_args(arguments)
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

    ready = commands.add_parser("ready", help="tell whether a server answers: exit code 0 if so")
    ready.add_argument("--host", help="its address (POSREF_HOST, 127.0.0.1)")
    ready.add_argument("--port", help="its port (POSREF_PORT, 8000)")
    ready.set_defaults(command=_ready)

    openapi = commands.add_parser("openapi", help="print the OpenAPI document")
    openapi.set_defaults(command=_openapi)
    return parser


def _serve(options: argparse.Namespace) -> int:
    settings = load_settings(host=options.host, port=options.port, workers=options.workers)
    try:
        return serve(settings)
    except CannotListen as error:
        print(error, file=sys.stderr)
        return 1


def _get(options: argparse.Namespace) -> int:
    try:
        body = find_body(options.url)
        if options.output:
            save(body, options.output)
        else:
            sys.stdout.buffer.writelines(body.blocks())
            sys.stdout.flush()
    except PosrefError as error:
        sys.stderr.buffer.write(orjson.dumps(problem_of(error), option=_READABLE) + b"\n")
        return 1
    except BrokenPipeError:
        # Whoever read has enough; Python would complain once more when it flushes on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _ready(options: argparse.Namespace) -> int:
    settings = load_settings(host=options.host, port=options.port)
    url = f"http://{_reachable(settings.host)}:{settings.port}/readyz"
    try:
        status = httpx.get(url, timeout=_READY_TIMEOUT_SECONDS, trust_env=False).status_code
    except httpx.HTTPError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    return 0 if status == httpx.codes.OK else 1


def _reachable(host: str) -> str:
    """Give the address under which a server on this machine answers that listens on a host."""
    reachable = {_EVERY_IPV4: "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{reachable}]" if ":" in reachable else reachable


def _openapi(_options: argparse.Namespace) -> int:
    document = orjson.dumps(create_app(default_settings()).openapi(), option=_READABLE)
    sys.stdout.buffer.write(document + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
