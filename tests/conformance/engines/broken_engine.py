"""A broken engine, and how far its mistake moves the numbers of a case.

That is found from the formulas in float64 and the tolerance of the case, without the runner's code.
"""

import math
from typing import Any

import numpy as np

from tests.conformance.engines.formulas import Array, Given, Unsupported
from tests.conformance.engines.honest import HonestEngine


class BrokenEngine(HonestEngine):
    """An engine with a mistake.

    Attributes:
        sentence: what is wrong.
    """

    sentence = ""

    def far(self, case: Given) -> float | None:
        """Return how many tolerances the mistake moves a number of a case; None if not asked."""
        try:
            right = HonestEngine("float64").answer(case)
            wrong = type(self)("float64").answer(case)
        except Unsupported:
            return None
        allowed = _allowed(case, self.dtype)
        return max(_distance(each, wrong[name], allowed) for name, each in right.items())

    def sees(self, case: Given) -> bool | None:
        """Whether a case must fail; None where it is so near that it may."""
        far = self.far(case)
        return False if far is None or far < 0.5 else True if far > 2 else None


def _distance(right: Array, wrong: Array, allowed: Any) -> float:
    if right.shape != wrong.shape:
        return math.inf
    apart = np.abs(right - wrong)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(apart == 0, 0, apart / allowed(right))
    return float(np.nan_to_num(shares, nan=math.inf).max())


def _allowed(case: Given, dtype: str) -> Any:
    """Return the tolerance of a number of a case, as the documentation has it."""
    tolerance = case["tolerance"]
    if "exact" in tolerance:
        return np.zeros_like
    unit = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    narrow = 0.0 if dtype == "float32" else unit
    steps = 2 if case["expected"].get("attention_factor", 1.0) == 1 else 4
    products = 3 * narrow if case["kind"] == "rotate" else 0.0
    absolute = np.array(tolerance["angle"]) + products * np.array(tolerance["scale"])
    least = {"float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134}[dtype]
    return lambda want: absolute + np.abs(want) * (steps * 2.0**-24 + narrow) + least
