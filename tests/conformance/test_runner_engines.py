"""An honest engine passes, and broken ones fail what they must, under the name of their mistake.

The engines are written from published formulas, without a look at the mistakes the suite lists.
Which cases a broken engine must fail is found from its formulas in float64.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest

from service.conformance import naming, suite
from service.conformance.judging import Judgement, read_answer
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.wrong import Make, Wrong
from service.conformance.named import Named
from service.conformance.naming import names_of
from service.conformance.questions import NOT_MADE, Question
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
    "sines-for-cosines": "halves-swapped",
    "query-at-zero": "cache-offset",
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
    *("first-offset", "small-integers", "query-at-zero"),
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


def diagnosed(
    broken: str, file: str, monkeypatch: pytest.MonkeyPatch, *, most: int = 5
) -> dict[str, Named]:
    """Return the names of a file that /diagnose alone gives."""
    monkeypatch.setattr(naming, "MAKERS", {})
    monkeypatch.setattr(naming, "_MOST_DIAGNOSED", most)
    judgements = [each for each in judgements_of(broken) if each.case.file == file]
    return names_of(judgements, diagnoses=True)


def test_two_settings_at_once_are_never_named_from_one_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (named,) = diagnosed("yarn-clamped-to-pairs", "rope/yarn", monkeypatch).values()
    assert (named.name, named.by, named.values) == ("unexplained", "", {})
    told = "What would explain this case alone is not named: one case is too few to tell."
    assert named.sentence == told


@pytest.mark.parametrize("broken", ["yarn-both-down", "yarn-floor-for-ceiling", "yarn-in-channels"])
def test_settings_that_contradict_each_other_are_not_named(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = diagnosed(broken, "rope/yarn", monkeypatch)
    assert {each.name for each in named.values()} == {"unexplained"}
    assert "other cases of this file contradict it." in named["rope/yarn/1"].sentence
    told = "; /diagnose was asked about 2 cases of this file, and not about this one."
    assert any(each.sentence.endswith(told) for each in named.values())


def test_a_setting_that_passing_cases_do_not_have_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Half of both limits is twice the original length.
    named = diagnosed("yarn-betas-fixed", "rope/yarn", monkeypatch).values()
    assert {each.name for each in named} == {"unexplained"}
    told = "other cases of this file contradict it."
    assert all(each.sentence.endswith(told) for each in named)


def test_the_name_of_one_case_explains_others_that_diagnose_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = diagnosed("fixed-base", "rope/yarn", monkeypatch, most=1)
    assert len(named) > 3
    assert {(each.name, each.by) for each in named.values()} == {("wrong-base", "diagnosis")}
    told = "The base of the frequencies is another one: rope_theta=10000 for 150000."
    assert named["rope/yarn/2"].sentence == told


def test_a_case_that_diagnose_is_not_asked_about_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    named = diagnosed("stale-row", "rope/dynamic", monkeypatch, most=2)
    names = [(each.name, each.by) for each in named.values()]
    assert sorted(names) == [("other-positions", "diagnosis")] * 2 + [("unexplained", "")] * 2
    told = "No mistake that the suite makes has these numbers; /diagnose was "
    (rest,) = {each.sentence for each in named.values() if not each.by}
    assert rest == f"{told}asked about 2 cases of this file, and not about this one."
    monkeypatch.setattr(naming, "MAKERS", {})
    named = names_of(judgements_of("first-offset"), diagnoses=False)
    assert named["rope/rotate/11"].sentence == f"{told}not asked."


@pytest.mark.parametrize(
    ("broken", "file"), [("yarn-both-down", "rope/rotate"), ("fixed-base", "rope/proportional")]
)
def test_a_diagnosis_of_frequencies_beyond_a_type_or_of_none_warns_of_nothing(
    broken: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = diagnosed(broken, file, monkeypatch)
    assert {each.name for each in named.values()} <= {"wrong-rule", "wrong-base"}


SAID = {
    ("fixed-base", "rope/default/3"): "rope_theta=10000 for 500000.",
    ("rule-ignored", "rope/linear/1"): "without rope_type=linear.",
    ("stale-row", "rope/yarn/1"): "positions=32769 for 131071.",
    ("first-offset", "rope/rotate/11"): "seqlen_offsets=5,5 for 5,300.",
    ("cache-forgotten", "rope/default/5"): "positions=0,1,2,3,… for 4094,4095,4096,4097,….",
    ("whole-head", "rope/rotate/3"): "without rotary_dim=20.",
    ("other-layout", "rope/rotate/1"): "layout=interleaved for half.",
    ("yarn-both-down", "rope/yarn/1"): "the ends of YaRN's ramp are rounded another way.",
    ("slopes-from-zero", "relative/alibi/4"): "the heads of slopes count from 0.",
    # Exponents are wrong, though another base has the same numbers.
    ("exponents-halved", "rope/default/3"): "or use log10 for ln.",
    # Half of both limits is twice the original length, which other cases do not have.
    ("yarn-betas-fixed", "rope/yarn/7"): "or two settings are exchanged.",
    # A coincidence: the ramp is as wrong in another case, and not by rounding.
    ("yarn-narrowed", "rope/rotate/17"): "known or not.",
}


@pytest.mark.parametrize(("broken", "case"), SAID)
def test_a_name_says_what_differs_from_the_right_question(broken: str, case: str) -> None:
    named = names_of(judgements_of(broken), diagnoses=False)[case]
    assert named.by == "numbers"
    assert named.sentence.endswith(SAID[broken, case])


@pytest.mark.full
def test_what_agrees_at_position_0_does() -> None:
    """Effects are true of all cases that a mistake is made of."""
    apart: dict[str, float] = {}
    for case in cases().values():
        positions, right = case.question.positions or (), case.expected
        rows = [row for row, position in enumerate(positions) if position == 0]
        for name in MAKERS if rows and right.shape[-2:-1] == (len(positions),) else ():
            effect = suite.about(name)["effect"].lower()
            if "position 0 agrees" not in effect or "unless" in effect:
                continue
            for maker in MAKERS[name]:
                with suppress(*NOT_MADE):
                    for wrong in maker(case.question, right):
                        far = right.distances(wrong.expectation.arrays)[..., rows, :].max()
                        apart[name] = max(apart.get(name, 0.0), float(far))
    assert len(apart) > 5
    assert {name for name, far in apart.items() if far > 1} == set()


@pytest.mark.full
def test_the_numbers_alone_name_the_mistake_in_most_failing_cases() -> None:
    names = [each for name in BROKEN for each in names_by_case(name, diagnoses=False).values()]
    named = sum(each != "unexplained" for each in names)
    assert named > 0.8 * len(names)
