"""FIRE, Swin V2 and dynamic coordinates."""

import numpy as np

from service.analysis.families.log_coordinates import propose_dynamic, propose_fire, propose_swin_v2
from tests.analysis.samples import agreeing, input_from, input_of, proposed


def test_fire_queries_past_the_threshold_keep_their_positions() -> None:
    request = input_of("/relative/fire?query_start=600&query_len=30&key_start=560&key_len=80")

    requests = agreeing(request, proposed(request, [propose_fire]), 2.0**-21)

    assert requests[0].parameters["query_start"] == 600


def test_fire_numbers_of_many_digits_are_measured() -> None:
    request = input_of("/relative/fire?query_len=64&c=0.1234567&threshold=345.678&dtype=float64")

    assert agreeing(request, proposed(request, [propose_fire]), 2.0**-48)


def test_other_rows_have_no_fire_proposal() -> None:
    lengths = np.abs(np.arange(9) - np.arange(9)[:, np.newaxis])

    assert not proposed(input_from(np.sqrt(lengths)), [propose_fire])
    assert not proposed(input_from(lengths / 9), [propose_fire])


def test_other_ramps_have_no_coordinate_proposals() -> None:
    assert not proposed(input_from(np.arange(7.0)), [propose_dynamic])
    assert not proposed(input_from(np.arange(-3.0, 3.0)), [propose_dynamic])
    assert not proposed(input_from(np.zeros((7, 5))), [propose_swin_v2])
    assert not proposed(input_from(np.add.outer(np.arange(7.0), np.arange(5.0))), [propose_swin_v2])
