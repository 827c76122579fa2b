"""Whole answers as bytes."""

from service.delivery.problems import refusal
from service.errors import NotReady
from service.serving.whole import spelled


def test_an_answer_is_spelled_with_its_length_and_is_the_last() -> None:
    answer = refusal(NotReady("about to end"))

    head, _, body = spelled(answer, [(b"date", b"today")]).partition(b"\r\n\r\n")

    status, *lines = head.decode().split("\r\n")
    assert status.startswith("HTTP/1.1 503 ")
    assert lines[0] == "date: today"
    assert lines[-1] == "connection: close"
    assert f"content-length: {len(body)}" in lines
    assert body == answer.payload
