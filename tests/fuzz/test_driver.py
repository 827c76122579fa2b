"""The fuzzer's command and input."""

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.driver import PARSERS
from tests.fuzz.harness import Harness, Source, as_sent
from tests.fuzz.test_parsers import HARNESSES


def test_fuzz_command_lists_the_parsers(capsys: pytest.CaptureFixture[str]) -> None:
    main([])

    assert capsys.readouterr().out.split() == list(PARSERS)


def test_first_byte_selects_raw_or_built_input() -> None:
    tried: list[bytes] = []
    harness = HARNESSES["query"]

    def record(data: bytes) -> bool:
        tried.append(data)
        return True

    recording = Harness(record, harness.build, ())

    assert recording.run(as_sent(b"a=1"))
    assert recording.run(b"")
    assert recording.run(b"\1")
    assert tried == [b"a=1", b"", harness.build(Source(b""))]


def test_choices_consume_bytes_and_default_to_the_first() -> None:
    source = Source(b"\x07\x02\xff\x00ab")

    assert source.integer(-5, 250) == 2
    assert source.pick("abc") == "c"
    assert source.happens(256)
    assert source.bytes(9) == b"\x00ab"
    assert (source.integer(3, 9), source.pick("xyz"), source.bytes(1)) == (3, "x", b"")
