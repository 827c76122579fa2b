import numpy as np
import pytest

from service.analysis.question import Question
from service.tables.dtypes import BFLOAT16, FLOAT16, round_into
from tests.analysis.asked_arrays import agreeing, proposed, question_of, served
from tests.parity.golden import Array, golden_folder, read_cases

# Libraries' own float32 arithmetic, a few operations of it.
FLOAT32_SHARE = 2.0**-18
FAMILIES = {
    "t5_bucket",
    "xt_relative_position_bucket",
    "deberta_bucket",
    "alibi_bloom",
    "alibi_mpt",
    "alibi_slopes_original",
    "xt_alibi",
    "shaw_clipped",
    "swin_v1_index",
    "timm_relative_position_index",
    "swin_v2_log_coords",
    "kerple",
    "sandwich",
    "xt_dynamic_position_bias",
}
# Made of weights or of a mask, which no URL has.
COMPOSED = {"relative.alibi_bloom.dev.02 bias", "xt_dynamic_position_bias bias"}
GOLDEN = {
    f"{case.id} {name}": (array, case.atol.get(name, 0.0))
    for case in read_cases(golden_folder())
    if case.family in FAMILIES
    for name, array in case.outputs.items()
    if f"{case.id} {name}" not in COMPOSED and f"{case.family} {name}" not in COMPOSED
}


@pytest.mark.parametrize(("array", "atol"), GOLDEN.values(), ids=GOLDEN.keys())
def test_what_libraries_computed_is_among_the_first_proposals(array: Array, atol: float) -> None:
    question = question_of(array)

    proposals = proposed(question)

    assert agreeing(question, proposals[:4], FLOAT32_SHARE, atol)


@pytest.mark.parametrize(
    "url",
    [
        "/relative/t5?query_len=40",
        "/relative/deberta?query_len=300",
        "/relative/shaw?query_len=9&max_relative_position=3",
        "/relative/swin?window_size=3,4",
        "/rope/permutation?head_dim=8&num_attention_heads=2",
        "/relative/alibi/slopes?num_heads=12",
        "/relative/alibi?num_heads=12&query_len=6",
        "/relative/kerple?a=1,0.5&p=2,1&query_len=9",
        "/relative/sandwich?num_heads=4&head_dim=64&query_len=9",
        "/relative/fire?query_len=9",
        "/relative/swin-v2?window_size=4,6",
        "/relative/dynamic?seq_len=7&log_distance=true",
    ],
)
def test_every_resource_is_proposed_first_for_its_own_table(url: str) -> None:
    question = served(url)

    proposals = proposed(question)

    assert f"/{proposals[0].call.resource}" == url.partition("?")[0]
    assert agreeing(question, proposals[:1], FLOAT32_SHARE)


@pytest.mark.parametrize("shape", [(7,), (64,), (9, 9), (40, 12), (4, 9, 9), (12, 5, 30)])
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_no_table(shape: tuple[int, ...], seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=shape)

    assert not proposed(question_of(noise))
    assert not proposed(question_of(noise.astype(np.float32)))
    assert not proposed(question_of(np.abs(noise)))


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(16,), (9, 9), (4, 9, 9)])
def test_noise_of_few_bits_is_no_table(dtype: object, shape: tuple[int, ...]) -> None:
    assert dtype in {FLOAT16, BFLOAT16}
    elements = np.empty(shape, dtype="<f2" if dtype is FLOAT16 else "<u2")
    of = FLOAT16 if dtype is FLOAT16 else BFLOAT16
    round_into(np.random.default_rng(0).normal(size=shape), elements, of)

    assert not proposed(question_of(elements, of))


@pytest.mark.parametrize("shape", [(12,), (9, 9), (40, 12)])
def test_random_integers_are_no_table(shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).integers(0, 32, size=shape)

    assert not proposed(question_of(numbers))


def test_learned_biases_are_no_table() -> None:
    buckets = served("/relative/t5?query_len=40").sample.integers()
    assert buckets is not None
    weight = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)

    assert not proposed(question_of(np.moveaxis(weight[buckets], 2, 0).copy()))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, np.nan, np.inf])
@pytest.mark.parametrize("shape", [(1,), (2,), (1, 5), (4, 4), (2, 3, 3), (0,)])
def test_constant_and_tiny_arrays_raise_nothing(value: float, shape: tuple[int, ...]) -> None:
    question = question_of(np.full(shape, value))

    assert not agreeing(question, [], 0)
    assert len(proposed(question)) <= 4


def test_a_pair_of_tables_is_none_of_these() -> None:
    sample = served("/relative/t5?query_len=40").sample

    assert not proposed(Question({"cos": sample, "sin": sample}))
