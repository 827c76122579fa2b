"""The arithmetics that numbers are computed in, by name and by exactness."""

from service.analysis.identifying.arithmetic import (
    EXACT,
    FLOAT32,
    FLOAT32_STEPS,
    FLOAT64,
    REPEATED,
    narrow_angles,
    narrow_frequencies,
    narrow_positions,
    narrow_throughout,
    plainest,
)


def test_each_arithmetic_ranks_behind_those_that_are_more_exact() -> None:
    ranked = [EXACT, FLOAT64, FLOAT32, REPEATED, FLOAT32_STEPS]
    narrow = [narrow_positions, narrow_frequencies, narrow_angles, narrow_throughout]
    ranks = [each.rank for each in [*ranked, *(make("bfloat16") for make in narrow)]]

    assert ranks == sorted(set(ranks))


def test_a_narrow_arithmetic_says_what_is_rounded_to_which_type() -> None:
    assert narrow_positions("float16").name == "float16 positions"
    assert "float16" in narrow_positions("float16").description


def test_the_most_exact_that_explains_numbers_is_named_first() -> None:
    assert plainest((FLOAT32, EXACT, FLOAT64)) == (EXACT, FLOAT64, FLOAT32)


def test_bounds_that_whatever_is_more_exact_is_within_are_named_only_alone() -> None:
    assert plainest((FLOAT32_STEPS, FLOAT32)) == (FLOAT32,)
    assert plainest((FLOAT32_STEPS,)) == (FLOAT32_STEPS,)
