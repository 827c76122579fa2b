"""Compressed bodies and digests."""

import gzip
from hashlib import sha256

import pytest

from service.delivery.derived import DerivedBody, _portions, checksum_line, gzipped, repr_digest
from service.formats.binary import BinaryBody

BLOCKS = [b"0.5403023,", b"0.99995,"] * 1000


def test_compressed_blocks_are_one_gzip_member_of_them_all() -> None:
    packed = b"".join(gzipped(BLOCKS))

    assert gzip.decompress(packed) == b"".join(BLOCKS)
    assert len(packed) < 500


def test_a_compressed_body_holds_no_time() -> None:
    assert b"".join(gzipped(BLOCKS))[4:8] == bytes(4)


def test_compressed_bytes_do_not_show_their_blocks() -> None:
    assert b"".join(gzipped(BLOCKS)) == b"".join(gzipped([b"".join(BLOCKS)]))


def test_a_packer_is_given_the_same_portions_whatever_the_blocks() -> None:
    whole = bytes(range(256)) * 1000
    cuts = ([whole], [whole[:1], whole[1:]], [whole[i : i + 7000] for i in range(0, 256000, 7000)])

    portions = [[bytes(portion) for portion in _portions(blocks)] for blocks in cuts]

    assert portions[0] == portions[1] == portions[2]
    assert b"".join(portions[0]) == whole
    assert [len(portion) for portion in portions[0]] == [65536, 65536, 65536, 59392]


def test_a_checksum_is_made_block_by_block() -> None:
    *waits, line = checksum_line([b"a", b"b"], "ab.bin")

    assert waits == [b"", b""]
    assert line == f"{sha256(b'ab').hexdigest()}  ab.bin\n".encode()


def test_a_digest_is_spelled_as_a_structured_field() -> None:
    # RFC 9530, appendix B.1: the digest of {"hello": "world"} and a line feed.
    expected = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"

    assert repr_digest(b'{"hello": "world"}\n') == expected


def test_a_derived_body_is_only_made_whole() -> None:
    body = DerivedBody(BinaryBody((b"abc",)), gzipped)

    assert gzip.decompress(b"".join(body.blocks())) == b"abc"
    assert (body.length_bytes, body.limit_bytes) == (None, 3)
    with pytest.raises(ValueError, match="only made whole"):
        next(body.blocks(1))
