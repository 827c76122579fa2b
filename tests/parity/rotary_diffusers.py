"""Rotary tables of diffusers along one axis."""

from tests.parity.asking import Answers
from tests.parity.golden import Arrays, Case
from tests.parity.params import Params
from tests.parity.positions import fractional


def table_1d(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_1d_rotary_pos_embed``."""
    params = Params(case.params)
    params.ignore("pos", "freqs_dtype")
    dim, theta = params.require("dim"), params.take("theta", 10000.0)
    is_real, is_repeated = (
        params.take("use_real", False),
        params.take("repeat_interleave_real", True),
    )
    factor = params.take("linear_factor", 1.0)
    query = fractional(case.inputs["positions"], factor, dim // 2)
    query |= {"head_dim": dim, "rope_theta": theta * params.take("ntk_factor", 1.0)}
    params.finish()
    if not is_real:
        return {"out": answers.tables("/rope", query | {"pack": "complex"})["rope"]}
    pack = "diffusers" if is_repeated else "stable_audio"
    return answers.tables("/rope", query | {"pack": pack})
