"""Names that were meant."""

import pytest

from service.delivery.spelling import likest, nearest


def test_what_is_like_nothing_has_no_nearest() -> None:
    assert nearest("seqlen", ["seq_len", "start"]) == "seq_len"
    assert nearest("zzz", ["seq_len", "start"]) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [("FLOAT32", "float32"), ("fp16", "float16"), ("BF16", "bfloat16"), ("double", "float64")],
)
def test_types_are_known_by_what_they_are_called_elsewhere(said: str, meant: str) -> None:
    assert nearest(said, ["float16", "bfloat16", "float32", "float64"]) == meant


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("unidirectional", "bidirectional"),
        ("is_decoder", "bidirectional"),
        ("causal", "bidirectional"),
        ("non_causal", "causal"),
        ("noncausal", "causal"),
        ("not_causal", "causal"),
        ("unmasked", "masked"),
        ("invalid_mask", "valid_mask"),
        ("non_padding_mask", "padding_mask"),
    ],
)
def test_a_name_never_means_its_opposite(said: str, known: str) -> None:
    assert nearest(said, [known]) is None
    assert nearest(known[:-1], [known]) == known


def test_long_names_are_like_nothing() -> None:
    assert nearest("seq_len" * 20, ["seq_len"]) is None


def test_the_likest_come_first_and_are_few() -> None:
    known = ["start", "seq_len", "query_len", "key_len"]

    assert likest("seqlen", known, 2) == ["seq_len", "key_len"]
    assert len(likest("x" * 10_000, known, 3)) <= 3
    assert likest("zzz", known[:2], 5) != []
