import pytest

from service.analysis.question import Question
from service.analysis.sinusoids.frequencies import propose_frequencies
from service.tables.document import ParameterValue
from tests.analysis.sinusoid_tables import sample_from, sample_of


@pytest.mark.parametrize("part", ["frequency", "wavelength"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"d_model": 64},
        {"d_model": 4, "base": 100.0},
        {"d_model": 64, "convention": "fairseq"},
        {"d_model": 32, "convention": "mlx", "min_freq": 0.003, "full_turns": True},
        {
            "d_model": 32,
            "convention": "tensor2tensor",
            "min_timescale": 2.0,
            "max_timescale": 500.0,
        },
        {"d_model": 65, "convention": "perceiver", "max_resolution": 224},
    ],
)
def test_a_list_is_named_by_what_makes_it(part: str, parameters: dict[str, ParameterValue]) -> None:
    sample = sample_of("encoding/frequencies", **parameters, part=part)

    found = [dict(each.call.parameters) for each in propose_frequencies(Question({"a": sample}))]

    assert {**parameters, "part": part} in found


def test_numbers_that_are_no_series_are_no_frequencies() -> None:
    numbers = sample_of("encoding/frequencies", d_model=32, part="frequency").reals()
    numbers[5] *= 1.01

    assert not list(propose_frequencies(Question({"a": sample_from(numbers)})))
    assert not list(propose_frequencies(Question({"a": sample_from(-numbers)})))


def test_even_widths_of_all_conventions_come_before_odd_ones() -> None:
    sample = sample_of("encoding/frequencies", d_model=64, convention="whisper", part="frequency")

    found = [each.call.parameters for each in propose_frequencies(Question({"a": sample}))]
    widths = [each["d_model"] for each in found]

    assert widths == sorted(widths)
    assert "whisper" in {each.get("convention") for each in found if each["d_model"] == 64}
