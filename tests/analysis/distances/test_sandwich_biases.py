import pytest

from service.analysis.distances.sandwich_biases import sandwich
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
    ],
)
@pytest.mark.parametrize(
    "sizes",
    [
        "num_heads=4&head_dim=16",
        "num_heads=12&head_dim=64",
        "num_heads=12&head_dim=96",
        "num_heads=8&head_dim=128",
        "num_heads=8&head_dim=64&head=2",
    ],
)
def test_frequencies_are_counted_by_near_distances(sizes: str, places: str, dtype: str) -> None:
    question = served(f"/relative/sandwich?{sizes}&{places}&dtype={dtype}")

    proposals = proposed(question, [sandwich])

    assert agreeing(question, proposals[:4], SHARES[dtype])


def test_another_base_is_found_with_a_usual_number_of_channels() -> None:
    question = served("/relative/sandwich?num_heads=4&head_dim=64&base=500000&query_len=40")

    calls = agreeing(question, proposed(question, [sandwich]), SHARES["float32"])

    assert calls[0].parameters["base"] == 500000
    assert calls[0].parameters["head_dim"] == 64


def test_the_usual_base_is_taken_where_it_will_do() -> None:
    # 10^8 and twice as many channels: the same first frequencies, and more that are nearly 0.
    question = served("/relative/sandwich?num_heads=4&head_dim=16&query_len=6")

    calls = [proposal.call.parameters for proposal in proposed(question, [sandwich])]

    assert calls[0] == {"num_heads": 4, "head_dim": 16, "query_len": 6}
    assert 1e8 not in {call.get("base") for call in calls}


@pytest.mark.parametrize(
    "url",
    ["/relative/alibi?num_heads=8&query_len=9", "/relative/kerple?a=1,1&p=1,0.5&query_len=9"],
)
def test_other_kernels_are_no_sums_of_sines(url: str) -> None:
    assert not proposed(served(url), [sandwich])
