"""Mistakes of settings and formulas: the answer to a question with other parameters."""

from collections.abc import Iterator, Mapping

from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation

_USUAL_BASES = (10000.0, 500000.0, 1000000.0)


def _wrong_base(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource.startswith("/rope"):
        yield from answers_to(*(question.changed(rope_theta=base) for base in _USUAL_BASES))


def _config_key_ignored(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource.startswith("/rope"):
        kept = ("head_dim", "rotary_dim", "rope_theta", "layout")
        others = set(question.parameters) - set(kept)
        yield from answers_to(question.changed(*others))


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "wrong-base": (_wrong_base,),
    "config-key-ignored": (_config_key_ignored,),
}
