import numpy as np
import pytest

from service.analysis.question import Question
from service.analysis.sinusoids.timesteps import propose_timesteps
from service.routes.asked import url_of
from service.tables.document import ParameterValue
from tests.analysis.sinusoid_tables import sample_of, values_of

TIMES = "0,1,2.5,250,999"


@pytest.mark.parametrize(
    "parameters",
    [
        {"timesteps": TIMES, "d_model": 32},
        {"timesteps": TIMES, "d_model": 32, "flip_sin_to_cos": True, "downscale_freq_shift": 0.0},
        {"timesteps": "3,7.25,42", "d_model": 15, "max_period": 1000.0},
        {"timesteps": TIMES, "d_model": 32, "downscale_freq_shift": 0.5},
        {"num_timesteps": 1000, "d_model": 64},
    ],
)
def test_timesteps_are_read_off_their_angles(parameters: dict[str, ParameterValue]) -> None:
    sample = sample_of("encoding/timesteps", **parameters)

    found = list(propose_timesteps(Question({"array": sample})))

    assert parameters in [dict(proposal.call.parameters) for proposal in found]
    assert "their products alone" in " ".join(found[0].support)


def test_times_that_are_known_give_the_scale() -> None:
    sample = sample_of("encoding/timesteps", timesteps="0.001,0.25,1", scale=1000.0, d_model=24)
    times = np.array([0.001, 0.25, 1])

    first, *_ = propose_timesteps(Question({"array": sample}, positions=times))

    assert url_of(first.call) == "/encoding/timesteps?timesteps=0.001,0.25,1&scale=1000&d_model=24"
    assert values_of(first) == pytest.approx(sample.reals(), abs=0)


def test_sines_between_cosines_are_no_timesteps() -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16)

    assert not list(propose_timesteps(Question({"array": sample})))
