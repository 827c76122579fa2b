"""Limits on answers, before any work."""

import pytest

from service.app import create_app
from service.settings import Settings
from tests.client import Client, client_of


@pytest.mark.parametrize(
    ("settings", "url", "name"),
    [
        (Settings(max_text_bytes=1000), "/encoding.json?seq_len=100&d_model=4", "MAX_TEXT_BYTES"),
        (Settings(max_text_bytes=1000), "/encoding.csv?seq_len=100&d_model=4", "MAX_TEXT_BYTES"),
        (Settings(max_response_bytes=191), "/encoding.npy?seq_len=4&d_model=4", "MAX_RESPONSE_"),
        (
            Settings(max_digest_bytes=191),
            "/encoding.npy.sha256?seq_len=4&d_model=4",
            "MAX_DIGEST_BYTES",
        ),
    ],
)
def test_what_is_past_a_limit_names_it_and_a_way_out(
    settings: Settings, url: str, name: str
) -> None:
    with client_of(create_app(settings)) as limited:
        answers = [limited.get(url), limited.get(url, accept_encoding="gzip")]
        assert limited.app.state.delivery.cache.builds == 0
        small = limited.get(url.replace("seq_len=100", "seq_len=2").replace("=4", "=1"))

        for answer in answers:
            assert answer.status_code == 413
            assert f"POSREF_{name}" in answer.json()["detail"]
            assert ": ask for" in answer.json()["detail"]
        assert small.status_code == 200


def test_what_can_be_had_in_parts_is_described_past_its_limit() -> None:
    with client_of(create_app(Settings(max_response_bytes=191))) as limited:
        binary = limited.head("/encoding.npy?seq_len=4&d_model=4")

    assert (binary.status_code, binary.headers["Content-Length"]) == (200, "192")


def test_text_of_any_size_is_refused_at_once(client: Client) -> None:
    for extension in ("json", "csv"):
        answer = client.get(f"/encoding.{extension}?seq_len={2**60}&d_model=1")

        assert answer.status_code == 413


def test_an_answer_to_a_body_past_its_limit_is_not_to_be_had_in_ranges() -> None:
    with client_of(create_app(Settings(max_response_bytes=191))) as limited:
        answer = limited.post("/encoding.npy", json={"seq_len": 4, "d_model": 4})

    assert answer.status_code == 413
    assert answer.json()["detail"].endswith(": ask for less of it")
