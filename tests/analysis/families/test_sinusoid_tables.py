"""Absolute encodings, timesteps, operators and similarities."""

import numpy as np
import pytest

from service.analysis.array import AngleModel, IdentifyInput, Proposal, Sample
from service.analysis.families.sinusoid_tables import (
    propose_operators,
    propose_relative,
    propose_similarity,
    propose_sinusoids,
    propose_timesteps,
)
from service.encodings.absolute.conventions import CONVENTIONS
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue
from service.routes.table_urls import url_of
from tests.analysis.samples import agreeing, input_from, sample_from, sample_of, values_of
from tests.parity.golden import Array, Case, golden_folder, read_cases


def propose(sample: Sample, d_model: int | None = None) -> list[Proposal]:
    return list(propose_sinusoids(input_from(sample, d_model=d_model)))


def first_equal_url(sample: Sample) -> str:
    request = input_from(sample)
    return next(url_of(each) for each in agreeing(request, propose_sinusoids(request)))


FAMILIES = {
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
CASES = [
    (case, name)
    for case in read_cases(golden_folder())
    if case.family in FAMILIES
    for name in sorted(case.outputs.keys() & {"out", "weights"})
]


def one_of_batch(case: Case, name: str) -> Array:
    """Take one of the equal parts of a batch, or a part for each direction."""
    array = case.outputs[name]
    if case.family == "xlnet_relative":
        return array[:, ::2] if case.params["bi_data"] else array[:, :1]
    return array[:1] if array.ndim == 3 else array


@pytest.mark.parametrize(("case", "name"), CASES, ids=lambda value: getattr(value, "id", value))
def test_tables_of_libraries_are_among_what_is_proposed_first(case: Case, name: str) -> None:
    sample = sample_from(one_of_batch(case, name))

    missed = [
        np.abs(values_of(proposal).reshape(sample.values.shape) - sample.values).max()
        for proposal in propose(sample)[:4]
    ]

    assert min(missed) <= case.atol[name]


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
    assert first_equal_url(sample_of("encoding", **parameters)) == url


def test_conventions_with_equal_numbers_are_all_proposed() -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16, layout="concatenated")

    conventions = {
        proposal.request.parameters.get("convention", "vaswani")
        for proposal in propose(sample)
        if proposal.request.resource == "encoding"
    }

    assert conventions >= {"vaswani", "marian", "mae", "diffusers", "transformer-xl"}


def test_a_transposed_table_is_recognised() -> None:
    turned = sample_from(sample_of("encoding", seq_len=20, d_model=6).reals().T)

    first = propose(turned)[0]

    assert (first.is_transposed, first.request.parameters["d_model"]) == (True, 6)
    assert values_of(first) == pytest.approx(turned.reals(), abs=1e-6)


@pytest.mark.parametrize("name", ["vaswani", "m2m100", "mlx", "tensor2tensor"])
def test_the_angle_model_gives_the_encoding(name: str) -> None:
    sample = sample_of("encoding", seq_len=9, d_model=8, convention=name, dtype="float64")

    first = propose(sample)[0]

    assert first.angles is not None
    assert evaluated(first.angles) == pytest.approx(sample.reals(), abs=1e-14)


def evaluated(turning: AngleModel) -> Float64s:
    (channels,) = turning.channels.values()
    angles = turning.coordinates[:, list(turning.axis)] * turning.omega
    frequency, is_sine = channels.indices()
    both = np.where(is_sine, np.sin(angles[:, frequency]), np.cos(angles[:, frequency]))
    return turning.scale * both


def test_a_known_d_model_chooses_between_widths() -> None:
    sample = sample_of("encoding", seq_len=9, d_model=15, convention="tf-models", base=100.0)

    urls = [url_of(proposal.request) for proposal in propose(sample, d_model=15)]

    assert "/encoding?seq_len=9&d_model=15&convention=tf-models&base=100" in urls


@pytest.mark.parametrize("d_model", [8, 64, 512])
def test_the_exponent_error_of_tutorials_has_no_proposal(d_model: int) -> None:
    channel = np.arange(d_model)
    exponent = (channel - channel % 2 + channel % 2 * 1.0) / d_model
    angles = np.arange(50.0)[:, np.newaxis] * 10000.0**-exponent
    slipped = np.where(channel % 2, np.cos(angles), np.sin(angles))

    assert propose(sample_from(slipped)) == []


def test_noise_and_constants_have_no_proposal() -> None:
    noise = np.random.default_rng(3).normal(size=(32, 16))

    assert propose(sample_from(noise)) == []
    assert propose(sample_from(np.ones((8, 8)))) == []
    assert propose(sample_from(np.zeros((8, 8)))) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in CONVENTIONS if name != "perceiver"])
def test_four_channels_are_enough_at_known_positions(name: str, dtype: str) -> None:
    sample = sample_of(
        "encoding", convention=name, dtype=dtype, d_model=4, positions="3,4,5,9,20:60:3,100"
    )
    told = np.array([3.0, 4, 5, 9, *range(20, 60, 3), 100])

    found = propose_sinusoids(IdentifyInput({"array": sample}, positions=told))

    assert any((values_of(proposal) == sample.values).all() for proposal in list(found)[:8])


@pytest.mark.parametrize("row", [0, 1, 20, 39])
@pytest.mark.parametrize("start", [0, 7, 100000])
def test_the_encoding_is_proposed_with_one_wrong_row(start: int, row: int) -> None:
    sample = sample_of("encoding", d_model=64, seq_len=40, start=start)
    values = sample.reals().copy()
    values[row] = np.linspace(-0.9, 0.7, 64)

    found = propose(sample_from(values.astype(np.float32)))[:2]

    assert any((values_of(proposal) == sample.values).all() for proposal in found)


@pytest.mark.parametrize(
    ("resource", "parameters"),
    [
        ("transformer-xl", {"d_model": 16, "key_len": 12}),
        ("transformer-xl", {"d_model": 10, "key_len": 300, "clamp_len": 200}),
        ("transformer-xl", {"d_model": 15, "key_len": 40, "base": 100.0}),
        ("xlnet", {"d_model": 16, "key_len": 8, "query_len": 5}),
        ("xlnet", {"d_model": 12, "key_len": 7, "attn_type": "uni"}),
        ("xlnet", {"d_model": 8, "key_len": 9, "query_len": 3, "clamp_len": 2}),
        ("xlnet", {"d_model": 8, "key_len": 9, "query_len": 3, "bi_data": True}),
        ("conformer", {"d_model": 16, "seq_len": 7}),
        ("conformer", {"d_model": 64, "seq_len": 200, "dtype": "float64"}),
    ],
)
def test_descending_rows_give_the_relative_resource_and_lengths(
    resource: str, parameters: dict[str, ParameterValue]
) -> None:
    sample = sample_of(f"relative/{resource}", **parameters)

    found = list(propose_relative(IdentifyInput({"array": sample})))

    calls = [(proposal.request.resource, dict(proposal.request.parameters)) for proposal in found]
    assert (f"relative/{resource}", parameters) in calls
    assert "rows descend" in " ".join(found[0].support)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_ascending_rows_have_no_relative_proposal(layout: str) -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16, layout=layout)

    found = propose_relative(IdentifyInput({"array": sample}))

    assert [url_of(proposal.request) for proposal in found] == []


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize(
    ("d_model", "offset", "base"),
    [(4, 1, 100.0), (64, 3, 10000.0), (64, -17, 500.0), (2, 2, 10000.0), (8, 0, 10000.0)],
)
def test_an_operator_gives_its_offset(
    d_model: int, offset: int, base: float, layout: str, dtype: str
) -> None:
    sample = sample_of(
        "relative", d_model=d_model, offset=offset, base=base, layout=layout, dtype=dtype
    )

    found = list(propose_operators(IdentifyInput({"array": sample})))

    assert any((values_of(proposal) == sample.values).all() for proposal in found)
    assert offset in [proposal.request.parameters["offset"] for proposal in found]


def test_operators_in_a_stack_give_their_offsets() -> None:
    sample = sample_of("relative", d_model=16, offsets="-3:4,100")

    first, *_ = propose_operators(IdentifyInput({"array": sample}))

    assert url_of(first.request) == "/relative?d_model=16&offsets=-3:4,100"
    assert "8 planes of a sine and a cosine, and nothing else" in first.support[0]


def test_a_matrix_with_another_number_is_no_operator() -> None:
    matrix = sample_of("relative", d_model=16, offset=3).reals()
    matrix[2, 9] = 0.1

    assert not list(propose_operators(IdentifyInput({"array": sample_from(matrix)})))
    assert not list(propose_operators(IdentifyInput({"array": sample_from(np.ones((4, 4)))})))


def test_a_stack_with_matrices_of_zeros_has_no_offsets() -> None:
    stack = np.zeros((4, 4, 4))
    stack[1] = np.eye(4)

    assert not list(propose_operators(IdentifyInput({"array": sample_from(stack)})))


def test_numbers_that_are_no_sums_of_cosines_are_no_similarity() -> None:
    assert not list(propose_similarity(IdentifyInput({"array": sample_from(np.arange(9.0))})))
    assert not list(
        propose_similarity(IdentifyInput({"array": sample_from(2.0 ** -np.arange(8.0))}))
    )


def test_sums_beyond_any_width_are_no_similarity() -> None:
    huge = np.array([1e200, 5e199, 1e199])

    assert not list(propose_similarity(IdentifyInput({"array": sample_from(huge)})))


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
def test_timesteps_follow_from_angles(parameters: dict[str, ParameterValue]) -> None:
    sample = sample_of("encoding/timesteps", **parameters)

    found = list(propose_timesteps(IdentifyInput({"array": sample})))

    assert parameters in [dict(proposal.request.parameters) for proposal in found]
    assert "only the products" in " ".join(found[0].support)


def test_known_timesteps_give_the_scale() -> None:
    sample = sample_of("encoding/timesteps", timesteps="0.001,0.25,1", scale=1000.0, d_model=24)
    times = np.array([0.001, 0.25, 1])

    first, *_ = propose_timesteps(IdentifyInput({"array": sample}, positions=times))

    assert (
        url_of(first.request) == "/encoding/timesteps?timesteps=0.001,0.25,1&scale=1000&d_model=24"
    )
    assert values_of(first) == pytest.approx(sample.reals(), abs=0)


def test_sines_between_cosines_are_no_timesteps() -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16)

    assert not list(propose_timesteps(IdentifyInput({"array": sample})))
