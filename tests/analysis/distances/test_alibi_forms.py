import numpy as np
import pytest

from service.analysis.distances.alibi_forms import Form, Multiples, forms


def of_numbers(numbers: np.ndarray, hidden: np.ndarray | None = None) -> list[Form]:
    is_hidden = np.zeros(numbers.shape, dtype=np.bool_) if hidden is None else hidden
    return list(forms(Multiples(numbers.astype(np.float64), is_hidden, 2.0**-22)))


def distances(queries: list[int], keys: list[int]) -> np.ndarray:
    return np.subtract.outer(keys, queries).T


def test_signed_distances_are_linear() -> None:
    (form,) = of_numbers(distances([3, 4, 5], list(range(8))))

    assert form.parameters == {"query_start": 3, "query_len": 3, "key_len": 8}


def test_lengths_below_zero_are_symmetric() -> None:
    (form,) = of_numbers(-np.abs(distances([0, 1, 2], list(range(3)))))

    assert form.parameters == {"form": "symmetric", "query_len": 3}


@pytest.mark.parametrize("form", ["linear", "symmetric"])
def test_queries_and_keys_with_gaps_are_listed(form: str) -> None:
    signed = distances([3, 7], [0, 1, 5, 7, 20])

    (found,) = of_numbers(signed if form == "linear" else -np.abs(signed))

    assert found.parameters.get("form", "linear") == form
    assert found.parameters["query_positions"] == "3,7"
    assert found.parameters["key_positions"] == "0,1,5,7,20"


def test_hidden_keys_leave_both_forms() -> None:
    signed = distances(list(range(5)), list(range(5)))

    found = of_numbers(np.where(signed > 0, 0, signed), signed > 0)

    assert [form.parameters for form in found] == [
        {"masked": True, "query_len": 5},
        {"form": "symmetric", "masked": True, "query_len": 5},
    ]


def test_keys_hidden_elsewhere_are_no_mask() -> None:
    signed = distances(list(range(5)), list(range(5)))
    hidden = signed > 0
    hidden[4, 0] = True

    assert not of_numbers(np.where(hidden, 0, signed), hidden)


def test_one_row_up_to_0_ends_with_the_last_key() -> None:
    found = of_numbers(np.arange(-4, 1)[np.newaxis])

    assert [form.parameters for form in found] == [
        {"form": "last-key", "key_len": 5},
        {"query_start": 4, "query_len": 1, "key_len": 5},
        {"form": "symmetric", "query_start": 4, "query_len": 1, "key_len": 5},
    ]


def test_one_row_from_0_on_numbers_the_keys() -> None:
    found = of_numbers(np.arange(5)[np.newaxis])

    assert found[0].parameters == {"form": "key", "key_len": 5}


def test_numbers_far_from_integers_are_of_no_form() -> None:
    assert not of_numbers(np.random.default_rng(0).normal(size=(4, 4)))
