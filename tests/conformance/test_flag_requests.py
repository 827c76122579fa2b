"""The requests of flags, as a reader of a vector file sends them, answer with wrong numbers."""

from typing import Any

import numpy as np
import orjson
import pytest

from service.conformance.files.all_files import FILES
from service.conformance.recorded_cases import RecordedCase
from service.conformance.suite import MOST_TIMES, text_of
from tests.client import Client
from tests.parity.golden import Array


def answered(client: Client, request: Any, case: Any, names: list[str]) -> dict[str, Array]:
    """Return the arrays of a server's answer to a request of a flag, under the names of a case."""
    given = {}
    if request["method"] == "POST":
        x = {"x": case["x"]} if "x" in case else {}
        # A wrong x is in the body of the flag.
        given = {"json": {**x, **request["body"]}}
    answer = client.request(request["method"], request["url"], **given)
    assert answer.status_code == 200, (case["id"], answer.text)
    data = answer.json()["data"]
    listed = [*data.values()] if isinstance(data, dict) else [data]
    if case["kind"] == "positions":
        listed = [data["position_ids"]]
    return {
        name: np.array(each, dtype=np.float64) for name, each in zip(names, listed, strict=True)
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_request_of_a_flag_answers_with_the_wrong_numbers(client: Client, file: Any) -> None:
    for case in orjson.loads(text_of(file))["cases"]:
        expected = RecordedCase.of(file.name, case).expected
        for flag in case["flags"]:
            if "request" not in flag:
                continue
            wrong = answered(client, flag["request"], case, [*expected.arrays])
            shape = next(iter(wrong.values())).shape
            assert (shape != expected.shape) == ("shape" in flag), (case["id"], flag["name"])
            if "times" in flag:
                most = min(float(expected.distances(wrong).max()), MOST_TIMES)
                assert float(f"{most:.1e}") == flag["times"], (case["id"], flag["name"])
