"""What ``/diagnose`` answers holds to its schema."""

from jsonschema import Draft202012Validator

from service.routes.diagnose_schema import DIAGNOSIS
from tests.client import Client

TO = "/encoding?seq_len=4&d_model=4"
RIGHT = [[0.0, 1.0, 0.0, 1.0], [0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004]]


def test_every_verdict_holds_to_the_schema(client: Client) -> None:
    Draft202012Validator.check_schema(DIAGNOSIS)
    validator = Draft202012Validator(DIAGNOSIS)
    wrong = [RIGHT[0], [0.1, 0.2, 0.3, 0.4]]
    verdicts = []
    for to, have in ((TO.replace("=4&", "=2&"), RIGHT), (TO, RIGHT), (TO, wrong)):
        report = client.post("/diagnose", json={"to": to, "have": have}).json()
        validator.validate(report)
        verdicts.append(report["verdict"])

    assert verdicts == ["equal", "diagnosed", "none"]
