"""Labels of answers: few values, whatever is asked for."""

import pytest

from service.delivery.labels import format_of, path_of, source_of


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        (b"application/json", "json"),
        (b"application/json; charset=utf-8", "json"),
        (b"application/x-npy", "npy"),
        (b"application/vnd.safetensors", "safetensors"),
        (b"application/octet-stream", "bin"),
        (b"text/csv", "csv"),
        (b"image/png", "png"),
        (b"application/problem+json", "problem"),
        (b"text/html; charset=utf-8", "other"),
        (b"text/plain; version=1.0.0", "other"),
    ],
)
def test_a_format_is_known_by_the_type_that_was_sent(content_type: bytes, form: str) -> None:
    assert format_of([(b"vary", b"Accept"), (b"content-type", content_type)]) == form


def test_what_has_no_body_has_no_format() -> None:
    assert format_of([(b"etag", b'"x"')]) == "none"


def test_what_no_route_is_for_has_one_path() -> None:
    assert path_of({"path": "/nowhere"}) == path_of({"path": "/elsewhere"}) == "other"


def test_sources_are_two() -> None:
    assert [source_of(is_warm=True), source_of(is_warm=False)] == ["kept", "made"]
