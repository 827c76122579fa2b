import numpy as np
import pytest

from service.analysis.sample import Sample
from service.analysis.sinusoids.rows import rows_of, seen, views
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.sinusoid_tables import sample_from, sample_of, view_of


@pytest.mark.parametrize(
    ("name", "grain"),
    [("float64", FLOAT64), ("float32", FLOAT32), ("float16", FLOAT16), ("bfloat16", BFLOAT16)],
)
def test_numbers_of_a_narrow_type_are_known_after_they_were_widened(
    name: str, grain: DType
) -> None:
    narrow = sample_of("encoding", seq_len=8, d_model=16, dtype=name)

    rows = next(rows_of(sample_from(narrow.reals())))

    assert rows.grain is grain


def test_the_scale_of_rows_is_the_root_of_their_squares() -> None:
    view = view_of(sample_of("encoding", seq_len=8, d_model=32, convention="mlx"))

    assert view.scale == pytest.approx(0.25, rel=1e-6)
    assert "cos² + sin² is 0.0625" in view.evenness


def test_a_row_of_zeros_is_left_out_of_the_others() -> None:
    sample = sample_of("encoding", seq_len=5, d_model=7, convention="fairseq")

    view = view_of(sample)

    assert view.kept.tolist() == [0, 2, 3, 4]
    assert (view.pairs, view.channels.zeros) == (3, 1)


def test_errors_of_angles_bound_what_rounding_does_to_them() -> None:
    exact = sample_of("encoding", seq_len=40, d_model=16, dtype="float64")
    narrow = sample_of("encoding", seq_len=40, d_model=16, dtype="bfloat16")
    every = slice(None)

    turns, _ = view_of(exact, "interleaved").part(every)
    rounded, errors = view_of(narrow, "interleaved").part(every)

    assert (np.abs(np.angle(rounded / turns)) <= errors).all()
    assert errors.max() < 2.0**-6


def test_noise_and_arrays_of_other_ranks_are_read_in_no_layout() -> None:
    noise = np.random.default_rng(7).normal(size=(16, 16))

    assert not list(seen(sample_from(noise)))
    assert not list(rows_of(sample_from(noise.reshape(4, 8, 8))))
    assert not list(rows_of(Sample(np.full(4, np.nan), FLOAT64, (4,))))


def test_columns_are_rows_as_well() -> None:
    turned = sample_of("encoding", seq_len=20, d_model=6).reals().T

    assert [rows.is_transposed for rows in rows_of(sample_from(turned)) if list(views(rows))] == [
        True
    ]
