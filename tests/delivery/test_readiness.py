"""Whether requests are welcome."""

from service.delivery.readiness import Readiness
from tests.client import Client


def test_a_process_is_ready_until_it_is_about_to_end() -> None:
    assert not Readiness().is_draining


def test_a_process_about_to_end_says_so_and_goes_on_answering(fresh_client: Client) -> None:
    assert fresh_client.get("/readyz").status_code == 200
    fresh_client.app.state.delivery.readiness.is_draining = True

    answer = fresh_client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:posref:problem:not-ready"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Cache-Control"] == "no-store"
    assert fresh_client.get("/livez").status_code == 200
    assert fresh_client.get("/encoding?seq_len=1&d_model=2").status_code == 200
