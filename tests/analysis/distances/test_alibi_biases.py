import numpy as np
import pytest

from service.analysis.distances.alibi_biases import alibi
from service.tables.dtypes import REAL_DTYPES, largest
from tests.analysis.asked_arrays import agreeing, proposed, question_of, served

SHARES = {"float32": 2.0**-22, "float64": 2.0**-50, "float16": 2.0**-10, "bfloat16": 2.0**-7}
PLACES = [
    "query_len=5",
    "query_len=64",
    "query_len=4&key_len=9",
    "query_len=3&query_start=6&key_len=9",
    "query_len=1&query_start=20&key_len=21",
    "query_len=5&key_start=30&key_len=8",
    "query_positions=3,7,19&key_len=40",
    "query_positions=3,7&key_positions=0,1,5,7,20",
    "query_len=40&masked=true",
    "query_len=40&head=1",
    "query_len=40&head=1&masked=true",
    "query_len=4&total_heads=40",
]


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("heads", ["2", "8", "12", "32&alibi_bias_max=16"])
@pytest.mark.parametrize("form", ["convention=original", "convention=paper", "form=symmetric"])
@pytest.mark.parametrize("places", PLACES)
def test_biases_of_queries_and_keys_are_found(
    dtype: str, heads: str, form: str, places: str
) -> None:
    question = served(f"/relative/alibi?num_heads={heads}&{form}&{places}&dtype={dtype}")

    proposals = proposed(question, [alibi])

    assert agreeing(question, proposals[:4], SHARES[dtype])


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("convention", ["bloom", "mpt"])
@pytest.mark.parametrize("keys", ["key_len=5", "key_len=300", "key_len=40&head=1"])
def test_biases_of_keys_are_found(dtype: str, convention: str, keys: str) -> None:
    url = f"/relative/alibi?num_heads=12&convention={convention}&{keys}&dtype={dtype}"
    question = served(url)

    proposals = proposed(question, [alibi])

    form = {"bloom": "key", "mpt": "last-key"}[convention]
    assert proposals[0].call.parameters["form"] == form
    assert agreeing(question, proposals[:1], SHARES[dtype])


def test_the_last_row_of_a_decoder_is_of_every_form_that_gives_it() -> None:
    question = served("/relative/alibi?num_heads=8&query_start=20&query_len=1&key_len=21")

    calls = agreeing(question, proposed(question, [alibi]), 0)

    forms = {call.parameters.get("form", "linear") for call in calls}
    assert forms == {"linear", "symmetric", "last-key"}


def test_the_least_number_of_the_type_hides_keys_as_well() -> None:
    values = served("/relative/alibi?num_heads=8&query_len=6&masked=true").sample.reals()
    least = -largest(REAL_DTYPES["float32"])
    question = question_of(np.where(np.isinf(values), least, values).astype(np.float32))

    assert proposed(question, [alibi])[0].call.parameters["masked"] is True


def test_with_one_wrong_row_the_others_say_what_is_nearest() -> None:
    values = served("/relative/alibi?num_heads=8&query_len=30").sample.reals().copy()
    values[:, 17] = np.arange(30)[::-1]
    question = question_of(values)

    proposals = proposed(question, [alibi])

    assert proposals[0].call.parameters == {"num_heads": 8, "query_len": 30, "dtype": "float64"}
    assert not agreeing(question, proposals, 0)


def test_a_ramp_of_another_slope_is_no_bias() -> None:
    ramp = 0.3 * np.arange(12)

    assert not proposed(question_of(ramp), [alibi])
    assert not proposed(question_of(np.stack([ramp, 2 * ramp, 5 * ramp])), [alibi])
