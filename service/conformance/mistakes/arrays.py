"""Mistakes that rearrange or change right numbers: signs, halves, rows, shapes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from service.conformance.mistakes.wrong import Maker, Wrong
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation


def _sine_sign(_: Question, right: Expectation) -> Iterator[Wrong]:
    if "sin" in right.arrays:
        yield Wrong(replace(right, arrays={**right.arrays, "sin": -right.arrays["sin"]}))


def _halves_swapped(_: Question, right: Expectation) -> Iterator[Wrong]:
    if "sin" in right.arrays:
        swapped = {"cos": right.arrays["sin"], "sin": right.arrays["cos"]}
        yield Wrong(replace(right, arrays=swapped))


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "sine-sign": (_sine_sign,),
    "halves-swapped": (_halves_swapped,),
}
