import numpy as np
import pytest

from service.analysis.question import Question
from service.analysis.sinusoids.operators import propose_operators, propose_similarity
from service.routes.asked import url_of
from tests.analysis.sinusoid_tables import sample_from, sample_of, values_of


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

    found = list(propose_operators(Question({"array": sample})))

    assert any((values_of(proposal) == sample.values).all() for proposal in found)
    assert offset in [proposal.call.parameters["offset"] for proposal in found]


def test_operators_in_a_stack_give_their_offsets() -> None:
    sample = sample_of("relative", d_model=16, offsets="-3:4,100")

    first, *_ = propose_operators(Question({"array": sample}))

    assert url_of(first.call) == "/relative?d_model=16&offsets=-3:4,100"
    assert "8 planes of a sine and a cosine, and nothing else" in first.support[0]


def test_a_matrix_with_something_else_in_it_is_no_operator() -> None:
    matrix = sample_of("relative", d_model=16, offset=3).reals()
    matrix[2, 9] = 0.1

    assert not list(propose_operators(Question({"array": sample_from(matrix)})))
    assert not list(propose_operators(Question({"array": sample_from(np.ones((4, 4)))})))


@pytest.mark.parametrize(
    ("offsets", "base", "dtype"),
    [
        ("0:50", 10000.0, "float64"),
        ("-20:21", 500000.0, "float32"),
        ("-20:21", 10000.0, "bfloat16"),
    ],
)
@pytest.mark.parametrize("d_model", [4, 64, 512])
def test_similarities_give_channels_and_base(
    d_model: int, offsets: str, base: float, dtype: str
) -> None:
    sample = sample_of(
        "relative/similarity", d_model=d_model, offsets=offsets, base=base, dtype=dtype
    )

    found = list(propose_similarity(Question({"array": sample})))

    assert any((values_of(proposal) == sample.values).all() for proposal in found)


def test_numbers_that_are_no_sums_of_cosines_are_no_similarity() -> None:
    assert not list(propose_similarity(Question({"array": sample_from(np.arange(9.0))})))
    assert not list(propose_similarity(Question({"array": sample_from(2.0 ** -np.arange(8.0))})))


def test_numbers_beyond_any_width_are_looked_at_no_further() -> None:
    huge = np.array([1e200, 5e199, 1e199])

    assert not list(propose_similarity(Question({"array": sample_from(huge)})))
