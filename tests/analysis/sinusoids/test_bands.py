import pytest

from service.analysis.question import Question
from service.analysis.sinusoids.bands import propose_bands
from tests.analysis.sinusoid_tables import sample_of, values_of


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "resolution"), [(12, 64), (50, 50), (200, 224), (300, 101)])
@pytest.mark.parametrize(
    ("concat_pos", "sine_only", "d_model"),
    [(True, False, 33), (False, False, 32), (False, True, 7), (True, True, 8)],
)
def test_bands_are_found_by_the_last_of_them(
    rows: int, resolution: int, dtype: str, d_model: int, *, concat_pos: bool, sine_only: bool
) -> None:
    sample = sample_of(
        "encoding",
        seq_len=rows,
        d_model=d_model,
        convention="perceiver",
        max_resolution=resolution,
        concat_pos=concat_pos,
        sine_only=sine_only,
        dtype=dtype,
    )

    found = list(propose_bands(Question({"array": sample})))

    assert any((values_of(proposal) == sample.reals()).all() for proposal in found)


def test_sinusoids_of_positions_are_no_bands() -> None:
    sample = sample_of("encoding", seq_len=50, d_model=32, layout="concatenated")

    assert not list(propose_bands(Question({"array": sample})))


@pytest.mark.parametrize("resolution", [8, 224, 512])
def test_usual_resolutions_of_the_same_numbers_are_all_named(resolution: int) -> None:
    sample = sample_of(
        "encoding", seq_len=4, d_model=15, convention="perceiver", max_resolution=resolution
    )

    found = [each.call.parameters for each in propose_bands(Question({"array": sample}))]

    assert [each["max_resolution"] for each in found] == [8, 224, 512]
