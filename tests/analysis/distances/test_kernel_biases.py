import pytest

from service.analysis.distances.kernel_biases import kerple
from tests.analysis.asked_arrays import SHARES, agreeing, proposed, served


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize(
    "places",
    [
        "query_len=8",
        "query_len=64",
        "query_len=3&query_start=6&key_len=9",
        "query_len=1&query_start=20&key_len=21",
        "query_len=16&causal=false",
        "query_positions=3,9,30&key_len=40",
        "query_positions=3,9,30&key_len=40&causal=false",
        "query_len=4&query_start=5&key_len=20&causal=false",
    ],
)
@pytest.mark.parametrize(
    "numbers",
    [
        "a=1,0.5&p=2,1",
        "a=0.73,1.9,0.02&p=0.3,0.8,1.7",
        "a=0.8123456&p=0.3123456",
        "convention=power&a=1.1,0.4,0.9&p=2,1.5,0.3",
        "convention=nemo&num_heads=12",
        "convention=nemo&a=0.5,0.7&b=0.3,0.2&p=1.3,0.6",
    ],
)
def test_kernels_are_found_head_by_head(numbers: str, places: str, dtype: str) -> None:
    question = served(f"/relative/kerple?{numbers}&{places}&dtype={dtype}")

    proposals = proposed(question, [kerple])

    assert agreeing(question, proposals[:3], SHARES[dtype])


def test_plain_numbers_come_back_as_they_were() -> None:
    question = served("/relative/kerple?a=0.73,1.9&p=0.3,0.8&query_len=40")

    first = proposed(question, [kerple])[0].call.parameters

    assert first == {"a": (0.73, 1.9), "p": (0.3, 0.8), "query_len": 40}


def test_a_logarithm_is_one_of_a_power_of_1() -> None:
    question = served("/relative/kerple?a=0.73,1.9&p=0.3,0.8&query_len=40")

    calls = agreeing(question, proposed(question, [kerple]), SHARES["float32"])

    assert {call.parameters.get("convention", "log") for call in calls} == {"log", "nemo"}


def test_an_untrained_kernel_is_said_by_its_heads() -> None:
    question = served("/relative/kerple?convention=nemo&num_heads=8&query_len=20")

    calls = [proposal.call.parameters for proposal in proposed(question, [kerple])]

    assert {"convention": "nemo", "num_heads": 8, "query_len": 20} in calls


def test_slopes_are_no_kernel() -> None:
    assert not proposed(served("/relative/alibi?num_heads=8&query_len=9"), [kerple])
    assert not proposed(served("/relative/alibi?num_heads=8&query_len=9&form=symmetric"), [kerple])
