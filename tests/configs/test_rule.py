"""Which frequency rule it is."""

import pytest

from service.configs.resolve import resolve
from service.errors import InvalidBody
from tests.configs.settings import llama, origin_of, value_of

YARN = {"factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("said", "rope_type"),
    [
        ({"type": "mrope"}, "default"),
        ({"rope_type": None}, "default"),
        ({"type": "linear", "factor": 2}, "linear"),
        ({"type": "yarn", **YARN}, "yarn"),
        ({"type": "deepseek_yarn", **YARN}, "yarn"),
        ({"rope_type": "deepseek_llama_scaling", **YARN}, "yarn"),
        ({"type": "telechat3-yarn", **YARN}, "yarn"),
        ({"type": "xdrope", "alpha": 1000}, "dynamic"),
        ({"type": "linear", "rope_type": "dynamic", "factor": 2}, "dynamic"),
    ],
)
def test_every_name_of_a_rule(said: dict[str, object], rope_type: str) -> None:
    assert value_of(llama(rope_scaling=said), "rope_type") == rope_type


@pytest.mark.parametrize("name", ["su", "yarn", "longrope"])
def test_lists_of_factors_are_longrope_s_whatever_phi_3_calls_it(name: str) -> None:
    lists = {"short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
    config = {"model_type": "phi3", "head_dim": 4, "rope_scaling": {"type": name, **lists}}

    assert value_of(config, "rope_type") == "longrope"
    assert origin_of(config, "rope_type") == "alias /rope_scaling/type"


def test_an_unknown_rule_is_a_problem_that_names_the_nearest() -> None:
    with pytest.raises(InvalidBody, match="did you mean yarn") as raised:
        resolve(llama(rope_scaling={"type": "yran", "factor": 4.0}))
    assert raised.value.faults[0].where == "/rope_scaling/type"


def test_what_is_nothing_like_a_rule_is_told_which_there_are() -> None:
    with pytest.raises(InvalidBody, match="there are default, linear"):
        resolve(llama(rope_scaling={"type": "???"}))


def test_a_misspelled_key_that_a_rule_needs_is_pointed_out() -> None:
    with pytest.raises(InvalidBody, match=r"factor is required for linear; is it facter\?"):
        resolve(llama(rope_scaling={"type": "linear", "facter": 4.0}))
