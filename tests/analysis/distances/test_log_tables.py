import numpy as np
import pytest

from service.analysis.distances.log_tables import dynamic, swin_v2
from tests.analysis.asked_arrays import SHARES, agreeing, proposed, question_of, served


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

    proposals = proposed(question, [swin_v2])

    assert agreeing(question, proposals[:1], SHARES[dtype])


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("count", [2, 7, 300])
@pytest.mark.parametrize("log", ["", "&log_distance=true"])
def test_distances_of_a_sequence_are_found(count: int, log: str, dtype: str) -> None:
    question = served(f"/relative/dynamic?seq_len={count}{log}&dtype={dtype}")

    (proposal,) = proposed(question, [dynamic])

    assert agreeing(question, [proposal], SHARES[dtype])


def test_other_ramps_are_no_distances() -> None:
    assert not proposed(question_of(np.arange(7.0)), [dynamic])
    assert not proposed(question_of(np.arange(-3.0, 3.0)), [dynamic])
    assert not proposed(question_of(np.zeros((7, 5))), [swin_v2])
    assert not proposed(question_of(np.add.outer(np.arange(7.0), np.arange(5.0))), [swin_v2])
