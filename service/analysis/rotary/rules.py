"""From frequencies to the rotary rules that give them, with their parameters."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from service.analysis.rotary.rules_blended import blended_rules
from service.analysis.rotary.rules_even import even_rules
from service.analysis.rotary.rules_listed import given_rule, listed_rules
from service.analysis.rotary.rules_measured import Found, Measured

_MOST = 8

# What frequencies may be off beside what was measured: nothing; a few units of the last place of
# float32; half a unit of the last place of float16, and of bfloat16.
_ARITHMETICS = (0.0, 2.0**-21, 2.0**-11, 2.0**-8)
_NARROW = 2.0**-12


def find_rules(measured: Measured) -> Iterator[Found]:
    """Find the rules that give frequencies and a scale within their errors, the plainest first.

    A rule with fewer numbers of its own comes before one with more: a series, then a blend of two,
    then a list of factors, which is looked for only where frequencies rounded to float32 are
    neither; the frequencies themselves come last.
    """
    for arithmetic in _ARITHMETICS:
        error = measured.error + np.abs(measured.omega) * arithmetic
        rounded = replace(measured, error=error)
        for kind in (even_rules, blended_rules):
            found = list(islice(_holding(rounded, kind(rounded)), _MOST))
            yield from found
            if found and arithmetic < _NARROW:
                return
            if found:
                break
        if found:
            break
    yield from listed_rules(measured)
    yield from given_rule(measured)


def _holding(measured: Measured, found: Iterator[Found]) -> Iterator[Found]:
    return (each for each in found if measured.agrees(each.rule))
