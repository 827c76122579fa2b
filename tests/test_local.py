"""Tables computed without a server."""

import pytest

from service.__main__ import find_body
from service.encodings.relative.sandwich import Sandwich
from service.errors import InvalidParameters, NotFound, RevisionRetired
from tests.client import Client


@pytest.mark.parametrize(
    "url",
    [
        "/encoding?seq_len=4&d_model=4",
        "http://127.0.0.1:8000/encoding.npy?seq_len=4&d_model=4",
        "/encoding.npy?seq_len=50&d_model=512",
        "/encoding/frequencies.safetensors?d_model=8",
        "/rope.bin?head_dim=8&seq_len=3&pack=complex",
        "/relative/similarity.json?d_model=8&offsets=0:9",
        "/encoding.csv?seq_len=3&d_model=4",
        "/encoding.npy.sha256?seq_len=3&d_model=4",
    ],
)
def test_local_answer_has_the_bytes_of_the_server(client: Client, url: str) -> None:
    assert b"".join(find_body(url).blocks()) == client.get(url).content


@pytest.mark.parametrize(
    ("url", "error", "rule"),
    [
        ("/encodings.npy?seq_len=1&d_model=1", NotFound, "did you mean /encoding"),
        ("/zzzzzzzzzz", NotFound, "There is no table at /zzzzzzzzzz"),
        ("/rope/apply.npy", NotFound, "made of what is POSTed to a server"),
        ("/relative/t5/bias.npy", NotFound, "made of what is POSTed to a server"),
        ("/alibi.npy?num_heads=8", NotFound, "did you mean /relative/alibi?"),
        ("/whisper", NotFound, "did you mean /encoding with convention=whisper"),
        ("/encoding.np?seq_len=1&d_model=1", NotFound, "There is no format np"),
        ("/encoding?seq_len=1", InvalidParameters, "d_model is required"),
        ("/encoding?seq_len=1&d_model=1&revision=9", InvalidParameters, "revision must be 1"),
    ],
)
def test_local_errors_are_those_of_the_server(url: str, error: type[Exception], rule: str) -> None:
    with pytest.raises(error, match=rule):
        find_body(url)


def test_retired_revision_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandwich, "revision_of_bytes", 3)

    with pytest.raises(RevisionRetired, match="the current one is 3"):
        find_body("/relative/sandwich?query_len=1&num_heads=1&head_dim=4&revision=2")
