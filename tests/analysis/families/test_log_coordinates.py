"""FIRE, Swin V2 and dynamic coordinates."""

import numpy as np
import pytest

from service.analysis.array import ProposalFamily
from service.analysis.families.log_coordinates import propose_dynamic, propose_fire, propose_swin_v2
from tests.analysis.samples import agreeing, input_from, input_of, proposed


def test_fire_queries_after_the_threshold_have_absolute_positions() -> None:
    request = input_of("/relative/fire?query_start=600&query_len=30&key_start=560&key_len=80")

    requests = agreeing(request, proposed(request, [propose_fire]), 2.0**-21)

    assert requests[0].parameters["query_start"] == 600


def test_fire_parameters_of_many_digits_are_measured() -> None:
    request = input_of("/relative/fire?query_len=64&c=0.1234567&threshold=345.678&dtype=float64")

    assert agreeing(request, proposed(request, [propose_fire]), 2.0**-48)


LENGTHS = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))


@pytest.mark.parametrize(
    ("values", "family"),
    [
        (np.sqrt(LENGTHS), propose_fire),
        (LENGTHS / 9, propose_fire),
        (np.arange(7.0), propose_dynamic),
        (np.arange(-3.0, 3.0), propose_dynamic),
        (np.zeros((7, 5)), propose_swin_v2),
        (np.add.outer(np.arange(7.0), np.arange(5.0)), propose_swin_v2),
    ],
)
def test_other_arrays_have_no_proposals(values: np.ndarray, family: ProposalFamily) -> None:
    assert not proposed(input_from(values), [family])
