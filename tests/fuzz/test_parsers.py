"""Every harness on its seeds, on built inputs and on random bytes."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import (
    accept,
    conditional,
    gguf,
    json_text,
    npy,
    positions,
    query,
    ranges,
    raw,
    safetensors_file,
)
from tests.fuzz.driver import PARSERS
from tests.fuzz.harness import Harness, as_sent

pytestmark = pytest.mark.full

HARNESSES = {
    module.__name__.rpartition(".")[2]: module.HARNESS
    for module in (
        npy,
        safetensors_file,
        json_text,
        raw,
        ranges,
        conditional,
        accept,
        query,
        positions,
        gguf,
    )
}
each = pytest.mark.parametrize("harness", HARNESSES.values(), ids=HARNESSES.keys())
_BUILT = 400


def built() -> Iterator[bytes]:
    """Yield a fixed series of inputs from which a harness builds others."""
    chance = random.Random(20_240_817)
    return (b"\1" + chance.randbytes(400) for _ in range(_BUILT))


def test_every_parser_has_a_harness() -> None:
    assert tuple(HARNESSES) == PARSERS


@each
def test_seeds_keep_the_promises_and_some_are_accepted(harness: Harness) -> None:
    taken = [harness.run(as_sent(seed)) for seed in harness.seeds]

    assert any(taken)
    assert not all(taken)


@each
def test_built_inputs_are_partly_accepted(harness: Harness) -> None:
    taken = [harness.run(data) for data in built()]

    assert 0.15 < sum(taken) / _BUILT < 0.95


@each
@given(data=st.data())
def test_any_bytes_are_parsed_or_refused(harness: Harness, data: st.DataObject) -> None:
    harness.run(data.draw(st.binary(max_size=300)))


@each
@given(data=st.data())
def test_damaged_seeds_are_parsed_or_refused(harness: Harness, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(harness.seeds))
    place = data.draw(st.integers(0, len(seed)))
    lost = data.draw(st.integers(0, 8))
    put = data.draw(st.binary(max_size=8))

    harness.check(seed[:place] + put + seed[place + lost :])
