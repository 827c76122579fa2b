import numpy as np
import pytest

from service.analysis.sinusoids.conventions import falling
from service.analysis.sinusoids.positions import positions_of, spelled_positions
from service.analysis.sinusoids.series import courses
from service.tables.document import ParameterValue
from tests.analysis.sinusoid_tables import sample_of, view_of


@pytest.mark.parametrize("start", [0, 1, -300, 1000, 2**20])
def test_the_start_of_rows_is_found(start: int) -> None:
    sample = sample_of("encoding", start=start, seq_len=20, d_model=64, dtype="float64")
    view = view_of(sample, "interleaved")

    found = positions_of(view, next(courses(view)), falling(10000.0, 64, 32))

    assert found is not None
    assert found.values.tolist() == list(range(start, start + 20))


@pytest.mark.parametrize("base", [10001.0, 500000.0])
def test_frequencies_of_another_base_place_no_rows(base: float) -> None:
    view = view_of(sample_of("encoding", start=900, seq_len=20, d_model=64), "interleaved")

    assert positions_of(view, next(courses(view)), falling(base, 64, 32)) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0, 1, 2], {"seq_len": 3}),
        ([7, 8, 9], {"seq_len": 3, "start": 7}),
        ([9, 8, 7], {"positions": "9:6:-1"}),
        ([0, 5, 9, 11, 13], {"positions": "0,5,9:14:2"}),
        ([0.5, 2, -1.25], {"positions": "0.5,2,-1.25"}),
    ],
)
def test_positions_are_spelled_shortly(
    values: list[float], said: dict[str, ParameterValue]
) -> None:
    spelled = spelled_positions(np.array(values, dtype=np.float64))

    assert spelled is not None
    sample = sample_of("encoding", d_model=2, **spelled)
    wanted = sample_of("encoding", d_model=2, **said)
    assert (spelled.keys(), sample.values.tolist()) == (said.keys(), wanted.values.tolist())


def test_positions_too_many_to_list_are_not_spelled() -> None:
    assert spelled_positions(np.square(np.arange(10000.0))) is None
