"""An honest engine passes, and broken ones fail what they must, under the name of their mistake.

The engines are written from published formulas, without a look at the mistakes the suite lists.
Which cases a broken engine must fail is found from its formulas in float64.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest

from service.conformance import naming
from service.conformance.judging import Judgement, read_answer
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.wrong import Make, Wrong
from service.conformance.naming import names_of
from service.conformance.questions import Question
from service.conformance.recorded_cases import RecordedCase, cases_in, texts_of
from service.conformance.tolerance import Expectation
from tests.conformance.engines.broken import BROKEN
from tests.conformance.engines.formulas import Array, Unsupported
from tests.conformance.engines.honest import HonestEngine

# What each mistake may be called: its name in the catalogue, or one whose numbers are the same.
NAMES = {
    "other-layout": "layout-swapped layout-mixed",
    "backwards": "inverse",
    "halves-of-the-head": "layout-swapped",
    "tiled-for-pairs": "table-layout-swapped",
    "first-channels": "rotary-offset",
    "input-layout-kept": "layout-mixed",
    "whole-head": "partial-width",
    "exponents-of-the-head": "wrong-denominator",
    "exponents-of-the-part": "partial-width tutorial-slip",
    "fixed-base": "wrong-base",
    # k/d is 2k/(2d), the exponents of a table twice as wide.
    "exponents-halved": "tutorial-slip wrong-denominator",
    "exponents-to-one": "tutorial-slip dynamic-length",
    "rule-ignored": "config-key-ignored",
    "old-key-ignored": "config-key-ignored",
    "linear-stretches": "factor-inverted",
    "linear-on-the-base": "wrong-rule",
    "global-rule-for-local": "rules-by-layer",
    "dynamic-at-once": "wrong-rule",
    "dynamic-one-short": "dynamic-length",
    "ntk-without-exponent": "missing-exponent",
    "llama-switch": "wrong-parameter",
    "llama-by-wavelength": "llama3-band",
    "llama-switch-at-low": "wrong-parameter",
    "llama-factors-exchanged": "wrong-parameter",
    "llama-blend-exchanged": "wrong-rule",
    "llama-coarse-pi": "wrong-rule",
    "llama-factor-fixed": "wrong-parameter",
    "original-length-fixed": "wrong-parameter",
    "yarn-without-attention": "missing-factor",
    "attention-twice": "extra-factor",
    "attention-root": "wrong-factor",
    "attention-one": "missing-factor",
    "attention-on-cosines": "one-sided-factor",
    "mscale-ignored": "mscale-exchanged",
    "mscale-only": "mscale-exchanged",
    "given-attention-ignored": "config-key-ignored",
    "yarn-rounded": "yarn-range-rounded",
    "yarn-inverted": "yarn-betas-exchanged",
    "yarn-betas-fixed": "wrong-parameter",
    "always-long": "short-for-long-factors",
    "always-short": "short-for-long-factors",
    "factors-multiply": "factor-inverted",
    "proportional-stretches": "factor-inverted",
    "xpos-for-keys": "wrong-parameter",
    "from-one": "position-offset",
    "cache-forgotten": "cache-offset",
    "small-table": "positions-stuck another-table",
    "narrow-positions": "narrow-positions",
    "half-positions": "narrow-positions",
    "narrow-frequencies": "narrow-frequencies",
    "narrow-angles": "narrow-angles",
    "degrees": "angles-in-degrees",
    "time-for-all": "sections-exchanged",
    "height-for-all": "sections-exchanged",
    "width-first": "sections-exchanged",
    "sections-reversed": "wrong-parameter",
    "sections-in-blocks": "sections-interleaved",
    "height-for-width": "sections-exchanged",
    "mask-ignored": "padding-counted",
    "no-reset": "positions-reset",
    "opt-without-offset": "position-offset",
    "row-of-the-position": "position-offset",
    "sines-first": "layout-swapped",
    "exponent-of-the-channel": "tutorial-slip",
    "exponent-not-floored": "tutorial-slip",
    "exponent-twice": "tutorial-slip",
    "exponent-of-the-pair": "tutorial-slip",
    "sines-of-timesteps": "wrong-parameter halves-swapped",
    "one-shift": "downscale-shift",
    "whole-timesteps": "other-positions",
    "rows-first": "axes-swapped",
    "column-by-column": "axes-swapped",
    "heads-for-positions": "axes-swapped",
    "one-series-of-slopes": "wrong-parameter",
    "slopes-from-one": "position-offset extra-factor",
    "rewarded-distance": "wrong-sign",
    "t5-backwards": "wrong-sign",
    "t5-both-ways": "config-key-ignored",
    "deberta-backwards": "wrong-sign",
    "kerple-exchanged": "wrong-parameter",
    "kerple-base-two": "extra-factor",
    "yarn-clamped-to-pairs": "wrong-rule",
    "yarn-floor-for-ceiling": "wrong-rule",
    "yarn-both-down": "wrong-rule",
    "yarn-without-turns": "wrong-rule",
    "yarn-in-channels": "wrong-rule",
    "yarn-narrowed": "wrong-rule",
    "llama-band-divided": "wrong-parameter",
    "rest-scaled": "extra-factor",
    "first-offset": "other-positions",
    "small-integers": "positions-reset",
    "stale-row": "positions-stuck",
    "slopes-from-zero": "position-offset extra-factor",
}
# Mistakes that the runner names in no case.
UNNAMED = {
    *("padding-counted", "deberta-rounds-down", "llama-band-halved", "rotated-in-place"),
    *("zero-is-forward", "exact-throughout"),
}
# Mistakes whose wrong numbers are made of every case that shows them.
ALWAYS_NAMED = (
    *("halves-of-the-head", "heads-for-positions", "tiled-for-pairs", "backwards"),
    *("factors-multiply", "proportional-stretches", "yarn-inverted", "always-long"),
    *("llama-switch-at-low", "llama-factors-exchanged", "llama-blend-exchanged"),
    *("llama-by-wavelength", "llama-coarse-pi", "xpos-for-keys", "kerple-exchanged"),
    *("attention-root", "attention-one", "attention-twice", "t5-backwards"),
    *("time-for-all", "height-for-all", "width-first", "sections-reversed", "height-for-width"),
    *("exponent-of-the-channel", "exponent-not-floored", "exponent-twice"),
    *("exponent-of-the-pair", "yarn-clamped-to-pairs", "yarn-floor-for-ceiling", "yarn-both-down"),
    *("yarn-without-turns", "yarn-in-channels", "llama-band-divided", "rest-scaled"),
    *("first-offset", "small-integers"),
)


@cache
def contents() -> Mapping[str, Any]:
    found = (json.loads(each)["cases"] for each in texts_of(None).values())
    return {each["id"]: each for each in chain.from_iterable(found)}


@cache
def cases() -> Mapping[str, RecordedCase]:
    return {each.id: each for each in cases_in(texts_of(None))}


def answers(engine: HonestEngine) -> dict[str, dict[str, Array]]:
    found = {}
    for name, case in contents().items():
        try:
            found[name] = engine.answer(case)
        except Unsupported:
            continue
    return found


def judged(name: str, arrays: Mapping[str, Array], dtype: str) -> Judgement:
    listed = {array: each.tolist() for array, each in arrays.items()}
    message = {"type": "answer", "dtype": dtype, "arrays": listed}
    return Judgement(cases()[name], read_answer(message, cases()[name]))


@cache
def judged_right() -> Mapping[str, Judgement]:
    return {name: judged(name, each, "float32") for name, each in right().items()}


@cache
def right() -> Mapping[str, dict[str, Array]]:
    return answers(HonestEngine())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_honest_engine_passes(dtype: str) -> None:
    judgements = [judged(name, each, dtype) for name, each in answers(HonestEngine(dtype)).items()]
    assert len(judgements) > 100
    assert not [each.case.id for each in judgements if not each.has_passed]


@cache
def judgements_of(broken: str) -> Sequence[Judgement]:
    """Return what is judged of a broken engine: its right answers are judged once for all."""
    found = answers(BROKEN[broken]())
    return [
        judged_right()[name] if _are_equal(each, right()[name]) else judged(name, each, "float32")
        for name, each in found.items()
    ]


def _are_equal(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return all(np.array_equal(each, other[name]) for name, each in one.items())


def failing_of(broken: str) -> set[str]:
    return {each.case.id for each in judgements_of(broken) if not each.has_passed}


def remembered(maker: Make) -> Make:
    """Return a maker that makes its wrong numbers once: all engines are asked the same cases."""
    made: dict[int, tuple[Question, list[Wrong]]] = {}

    def remembering(question: Question, right: Expectation) -> Iterator[Wrong]:
        if id(question) not in made:
            # The question stays, so that no other one gets its id.
            made[id(question)] = question, [*maker(question, right)]
        yield from made[id(question)][1]

    return remembering


@pytest.fixture(scope="module", autouse=True)
def remembering_makers() -> Iterator[None]:
    makers = {name: tuple(map(remembered, each)) for name, each in MAKERS.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naming, "MAKERS", makers)
        yield


def names_by_case(broken: str, *, diagnoses: bool) -> dict[str, str]:
    found = names_of(judgements_of(broken), diagnoses=diagnoses)
    return {case: each.name for case, each in found.items()}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_engine_fails_what_sees_its_mistake_and_nothing_else(name: str) -> None:
    engine, failing = BROKEN[name](), failing_of(name)
    sees = {case: engine.sees(content) for case, content in contents().items()}
    assert failing
    assert {case for case, must in sees.items() if must} <= failing
    assert not {case for case, must in sees.items() if must is False} & failing


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_has_its_own_name_or_none(name: str) -> None:
    names = names_by_case(name, diagnoses=True)
    allowed = {*NAMES.get(name, "").split(), "unexplained"}
    given = set(names.values())
    assert given <= allowed
    assert (given <= {"unexplained"}) == (name in UNNAMED)


@pytest.mark.parametrize("name", ALWAYS_NAMED)
def test_the_numbers_alone_name_a_mistake_in_every_failing_case(name: str) -> None:
    names = {*names_by_case(name, diagnoses=False).values()}
    assert names
    assert names <= {*NAMES[name].split()}


def test_narrow_positions_are_named_of_sequences_axes_and_sinusoids() -> None:
    names = names_by_case("narrow-positions", diagnoses=False)
    cases = ("rope/rotate/11", "rope/mrope/2", "rope/mrope/3", "encoding/sinusoid/1")
    assert {names[case] for case in cases} == {"narrow-positions"}


@pytest.mark.full
def test_the_numbers_alone_name_the_mistake_in_most_failing_cases() -> None:
    names = [each for name in BROKEN for each in names_by_case(name, diagnoses=False).values()]
    named = sum(each != "unexplained" for each in names)
    assert named > 0.8 * len(names)
