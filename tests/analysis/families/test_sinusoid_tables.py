"""Absolute encodings, timesteps, operators and similarities."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Proposal, Sample
from service.analysis.families.bands import propose_bands
from service.analysis.families.shift_operators import propose_operators, propose_similarity
from service.analysis.families.sinusoid_tables import propose_encoding_frequencies
from service.analysis.identification.search import identify, propose_rows
from service.encodings.absolute.conventions import CONVENTIONS
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue
from service.routes.table_urls import tables, url_of
from tests.analysis.samples import (
    agreeing,
    input_from,
    nearest,
    sample_from,
    sample_of,
    values_of,
)
from tests.parity.golden import Array, Case, golden_folder, read_cases


def proposals_of(sample: Sample, d_model: int | None = None) -> list[Proposal]:
    return encodings_of(input_from(sample, d_model=d_model))


def encodings_of(request: IdentifyInput) -> list[Proposal]:
    return [each for each in propose_rows(request) if each.request.resource != "rope"]


LIBRARY_FAMILIES = {
    "keras_hub_sine",
    "positional_encodings_1d",
    "diffusers_timestep",
    "diffusers_sincos_1d",
    "hf_fairseq_sinusoid",
    "hf_marian_sinusoid",
    "hf_xlm_sinusoid",
    "hf_whisper_sinusoid",
    "t2t_timing_signal_1d",
    "xlnet_relative",
    "transformer_xl",
    "conformer_relpos",
}
LIBRARY_CASES = [
    (case, name)
    for case in read_cases(golden_folder())
    if case.family in LIBRARY_FAMILIES
    for name in sorted(case.outputs.keys() & {"out", "weights"})
]


def single_table(case: Case, name: str) -> Array:
    """Return one of the equal tables of a batch, or one for each direction."""
    array = case.outputs[name]
    if case.family == "xlnet_relative":
        return array[:, ::2] if case.params["bi_data"] else array[:, :1]
    return array[:1] if array.ndim == 3 else array


@pytest.mark.parametrize(
    ("case", "name"), LIBRARY_CASES, ids=lambda value: getattr(value, "id", value)
)
def test_tables_of_libraries_are_among_the_first_proposals(case: Case, name: str) -> None:
    request = input_from(single_table(case, name))

    assert nearest(lambda request: iter(encodings_of(request)), request) <= case.atol[name]


DTYPES = ("float64", "float32", "float16", "bfloat16")


@pytest.mark.parametrize(
    ("parameters", "url"),
    [
        ({"seq_len": 4, "d_model": 4, "base": 100.0}, "/encoding?seq_len=4&d_model=4&base=100"),
        ({"seq_len": 50, "d_model": 512}, "/encoding?seq_len=50&d_model=512"),
        (
            {"positions": "0:60:2", "d_model": 32, "dtype": "bfloat16"},
            "/encoding?positions=0:59:2&d_model=32&dtype=bfloat16",
        ),
        (
            {"positions": "0.5,1.75,300", "d_model": 32},
            "/encoding?positions=0.5,1.75,300&d_model=32",
        ),
        (
            {"start": 2**20, "seq_len": 8, "d_model": 64, "dtype": "float64"},
            "/encoding?seq_len=8&start=1048576&d_model=64&dtype=float64",
        ),
        (
            {"seq_len": 8, "d_model": 16, "convention": "fairseq", "padding_idx": 3},
            "/encoding?seq_len=8&d_model=16&convention=fairseq&padding_idx=3",
        ),
    ],
)
def test_the_plainest_request_comes_first(parameters: dict[str, ParameterValue], url: str) -> None:
    request = input_from(sample_of("encoding", **parameters))

    assert url_of(agreeing(request, encodings_of(request))[0]) == url


def test_a_known_d_model_chooses_between_widths() -> None:
    sample = sample_of("encoding", seq_len=9, d_model=15, convention="tf-models", base=100.0)

    urls = [url_of(proposal.request) for proposal in proposals_of(sample, d_model=15)]

    assert "/encoding?seq_len=9&d_model=15&convention=tf-models&base=100" in urls


@pytest.mark.parametrize("d_model", [8, 64, 512])
def test_the_exponent_error_of_tutorials_has_no_proposal(d_model: int) -> None:
    channel = np.arange(d_model)
    exponent = (channel - channel % 2 + channel % 2 * 1.0) / d_model
    angles = np.arange(50.0)[:, np.newaxis] * 10000.0**-exponent
    wrong = np.where(channel % 2, np.cos(angles), np.sin(angles))

    assert proposals_of(sample_from(wrong)) == []


def test_noise_and_constants_have_no_proposal() -> None:
    noise = np.random.default_rng(3).normal(size=(32, 16))

    assert proposals_of(sample_from(noise)) == []
    assert proposals_of(sample_from(np.ones((8, 8)))) == []
    assert proposals_of(sample_from(np.zeros((8, 8)))) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in CONVENTIONS if name != "perceiver"])
def test_four_channels_are_enough_at_known_positions(name: str, dtype: str) -> None:
    sample = sample_of(
        "encoding", convention=name, dtype=dtype, d_model=4, positions="3,4,5,9,20:60:3,100"
    )
    positions = np.array([3.0, 4, 5, 9, *range(20, 60, 3), 100])

    found = encodings_of(input_from(sample, positions=positions))

    assert any((values_of(proposal) == sample.values).all() for proposal in list(found)[:8])


@pytest.mark.parametrize("row", [0, 1, 20, 39])
@pytest.mark.parametrize("start", [0, 7, 100000])
def test_the_encoding_is_nearest_with_one_wrong_row(start: int, row: int) -> None:
    sample = sample_of("encoding", d_model=64, seq_len=40, start=start)
    values = sample.reals().copy()
    values[row] = np.linspace(-0.9, 0.7, 64)

    nearest = identify(input_from(values.astype(np.float32)), tables).nearest

    assert nearest is not None
    assert (values_of(nearest.proposal) == sample.values).all()


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_ascending_rows_have_no_relative_proposal(layout: str) -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16, layout=layout)

    found = [url_of(each.request) for each in encodings_of(input_from(sample))]

    assert not any("relative" in url for url in found)


def test_operators_in_a_stack_give_their_offsets() -> None:
    sample = sample_of("relative", d_model=16, offsets="-3:4,100")

    first, *_ = propose_operators(input_from(sample))

    assert url_of(first.request) == "/relative?d_model=16&offsets=-3:4,100"
    assert "8 (sine, cosine) channel pairs" in first.support[0]


def test_matrices_with_other_numbers_are_no_operators() -> None:
    changed = sample_of("relative", d_model=16, offset=3).reals()
    changed[2, 9] = 0.1
    with_zeros = np.zeros((4, 4, 4))
    with_zeros[1] = np.eye(4)

    for matrices in (changed, np.ones((4, 4)), with_zeros):
        assert not list(propose_operators(input_from(matrices)))


@pytest.mark.parametrize(
    "numbers", [np.arange(9.0), 2.0 ** -np.arange(8.0), np.array([1e200, 5e199, 1e199])]
)
def test_numbers_that_are_no_sums_of_cosines_are_no_similarity(numbers: Float64s) -> None:
    assert not list(propose_similarity(input_from(numbers)))


def test_known_timesteps_give_the_scale() -> None:
    sample = sample_of("encoding/timesteps", timesteps="0.001,0.25,1", scale=1000.0, d_model=24)
    times = np.array([0.001, 0.25, 1])

    first = next(
        each
        for each in encodings_of(input_from(sample, positions=times))
        if "scale" in each.request.parameters and "timesteps" in each.request.resource
    )

    assert (
        url_of(first.request) == "/encoding/timesteps?timesteps=0.001,0.25,1&scale=1000&d_model=24"
    )
    assert values_of(first) == pytest.approx(sample.reals(), abs=0)


def test_interleaved_sines_and_cosines_are_no_timesteps() -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16)

    found = [each.request.resource for each in encodings_of(input_from(sample))]

    assert "encoding/timesteps" not in found


def test_numbers_that_are_no_series_are_no_frequencies() -> None:
    numbers = sample_of("encoding/frequencies", d_model=32, part="frequency").reals()
    numbers[5] *= 1.01

    assert not list(propose_encoding_frequencies(input_from(numbers)))
    assert not list(propose_encoding_frequencies(input_from(-numbers)))


def test_even_widths_of_all_conventions_come_before_odd_ones() -> None:
    sample = sample_of("encoding/frequencies", d_model=64, convention="whisper", part="frequency")

    found = [each.request.parameters for each in propose_encoding_frequencies(input_from(sample))]
    widths = [each["d_model"] for each in found]

    assert widths == sorted(widths, key=lambda width: int(str(width)) % 2)
    assert "whisper" in {each.get("convention") for each in found if each["d_model"] == 64}


def test_sinusoids_of_positions_are_no_bands() -> None:
    sample = sample_of("encoding", seq_len=50, d_model=32, layout="concatenated")

    assert not list(propose_bands(input_from(sample)))


@pytest.mark.parametrize("resolution", [8, 224, 512])
def test_usual_resolutions_with_equal_tables_are_all_proposed(resolution: int) -> None:
    sample = sample_of(
        "encoding", seq_len=4, d_model=15, convention="perceiver", max_resolution=resolution
    )

    found = [each.request.parameters for each in propose_bands(input_from(sample))]

    assert [each["max_resolution"] for each in found] == [8, 224, 512]
