"""What a request says about its answer."""

from starlette.requests import Request

from service.delivery.wanted import Wanted


def test_extension_and_headers_are_read() -> None:
    scope = {
        "type": "http",
        "http_version": "1.0",
        "path_params": {"extension": "npy.sha256"},
        "headers": [(b"accept", b"a/b"), (b"accept-encoding", b"gzip")],
    }

    wanted = Wanted.by(Request(scope))

    assert (wanted.extension, wanted.is_digest) == ("npy", True)
    assert (wanted.accept, wanted.accept_encoding) == ("a/b", "gzip")
    assert not wanted.takes_chunks


def test_nothing_said_is_nothing_wanted() -> None:
    scope = {"type": "http", "http_version": "1.1", "path_params": {}, "headers": []}

    assert Wanted.by(Request(scope)) == Wanted()
