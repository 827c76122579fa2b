"""Names of requests."""

import pytest

from service.delivery.request_ids import RequestIds


@pytest.mark.parametrize("sent", [b"a", b"8f3c-2.B_z", b"x" * 128])
def test_a_name_that_was_sent_is_kept(sent: bytes) -> None:
    assert RequestIds().name(sent) == sent.decode()


@pytest.mark.parametrize(
    "sent", [None, b"", b"x" * 129, b"a b", b'a"', b"a\n", "é".encode(), b"a\r\nb: c"]
)
def test_what_is_no_name_is_replaced(sent: bytes | None) -> None:
    name = RequestIds().name(sent)

    assert name.encode() != sent
    assert RequestIds().name(name.encode()) == name


def test_no_two_requests_have_one_name_of_whatever_process() -> None:
    one, other = RequestIds(), RequestIds()

    names = [ids.name(None) for ids in (one, other) for _ in range(1000)]

    assert len(set(names)) == 2000
