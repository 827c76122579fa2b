"""Reports: answers about a JSON object."""

from service.delivery.reports import report_answer


def test_a_report_is_json_that_is_not_cached() -> None:
    answer = report_answer({"layout": "half", "layers": (0, 1)})

    assert answer.payload == b'{"layout":"half","layers":[0,1]}'
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
