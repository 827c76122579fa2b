""" """

import numpy as np
import pytest

from service.analysis.families.log_coordinates import propose_dynamic, propose_fire, propose_swin_v2
from tests.analysis.asked_arrays import SHARES, agreeing, proposed, question_of, served


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize(
    "places", ["query_len=8", "query_len=200", "query_len=4&key_len=9", "query_len=1&key_len=21"]
)
@pytest.mark.parametrize("numbers", ["", "&c=0.25", "&threshold=8", "&threshold=100&c=0.37"])
def test_coordinates_are_found_by_rows_and_what_divides_them(
    places: str, numbers: str, dtype: str
) -> None:
    question = served(f"/relative/fire?{places}{numbers}&dtype={dtype}")

    proposals = proposed(question, [propose_fire])

    assert agreeing(question, proposals[:4], SHARES[dtype])


def test_queries_past_the_threshold_are_known_where_they_are() -> None:
    question = served("/relative/fire?query_start=600&query_len=30&key_start=560&key_len=80")

    calls = agreeing(question, proposed(question, [propose_fire]), SHARES["float32"])

    assert calls[0].parameters["query_start"] == 600


def test_learned_numbers_are_measured() -> None:
    question = served("/relative/fire?query_len=64&c=0.1234567&threshold=345.678&dtype=float64")

    assert agreeing(question, proposed(question, [propose_fire]), SHARES["float64"])


def test_other_rows_are_no_coordinates() -> None:
    lengths = np.abs(np.arange(9) - np.arange(9)[:, np.newaxis])

    assert not proposed(question_of(np.sqrt(lengths)), [propose_fire])
    assert not proposed(question_of(lengths / 9), [propose_fire])


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("window", ["8,8", "4,6", "2,2", "24,12", "2,9"])
@pytest.mark.parametrize("axis", ["", "&axis=x", "&axis=y"])
@pytest.mark.parametrize(
    "norm", ["", "&mode=cr", "&pretrained_window_size=6,6", "&pretrained_window_size=8,24"]
)
def test_windows_are_found_by_their_farthest_distances(
    window: str, axis: str, norm: str, dtype: str
) -> None:
    question = served(f"/relative/swin-v2?window_size={window}{norm}{axis}&dtype={dtype}")

    proposals = proposed(question, [propose_swin_v2])

    assert agreeing(question, proposals[:1], SHARES[dtype])


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("count", [2, 7, 300])
@pytest.mark.parametrize("log", ["", "&log_distance=true"])
def test_distances_of_a_sequence_are_found(count: int, log: str, dtype: str) -> None:
    question = served(f"/relative/dynamic?seq_len={count}{log}&dtype={dtype}")

    (proposal,) = proposed(question, [propose_dynamic])

    assert agreeing(question, [proposal], SHARES[dtype])


def test_other_ramps_are_no_distances() -> None:
    assert not proposed(question_of(np.arange(7.0)), [propose_dynamic])
    assert not proposed(question_of(np.arange(-3.0, 3.0)), [propose_dynamic])
    assert not proposed(question_of(np.zeros((7, 5))), [propose_swin_v2])
    assert not proposed(
        question_of(np.add.outer(np.arange(7.0), np.arange(5.0))), [propose_swin_v2]
    )
