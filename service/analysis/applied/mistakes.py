"""What is known to go wrong in the channels of an application, and how that is worded."""

from collections.abc import Iterator
from dataclasses import replace

from service.analysis.applied.evidence import Application
from service.analysis.applied.wiring import LAYOUTS, Form
from service.analysis.mistakes.catalogue import Mistake, Wording

_PAIRS = {"half": "(k, k + r/2)", "interleaved": "(2k, 2k + 1)"}
_SWAPPED = Wording(
    "Channels were paired as {have}, {have_pairs}, and should be as {want}, {want_pairs}.",
    "Rotate with the layout {want}, or permute the rows of the weights of queries and keys.",
)
_MIXED = Wording(
    "Pairs were read as {read} and written as {written}: channels come out in another order. "
    "Scores of queries and keys that were both turned so are right.",
    "Write the pairs where they should be, or permute the channels of the result.",
)
_SIGNS: dict[Form, str] = {
    "no-minus": "no sine has a minus: rotate_half gives (x2, x1) for (-x2, x1)",
    "both-minus": "both sines have a minus: rotate_half gives (-x2, -x1) for (-x2, x1)",
}
_SIGN = Wording(
    "It is not a rotation: {how}. Position 0 does not show it.",
    "Let rotate_half give (-x2, x1): a minus on the first channel of each pair only.",
)
_ORDERS: dict[Form, str] = {
    "own-minus-last": "rotate_half gives (x1, -x2)",
    "own-minus-first": "rotate_half gives (-x1, x2)",
}
_HALVES = Wording(
    "Halves have changed places: {how}.",
    "Join the halves in the other order.",
)
_TILED = Wording(
    "Cosines and sines lie along the channels as for {have} pairs, but pairs are {want}: channels "
    "of a pair turn by different angles.",
    "Lay cosines and sines out as {want} pairs need them.",
)
_ONE_SIDED = Wording(
    "The factor multiplies the {have} and not the {want}.",
    "Multiply cosines and sines alike.",
)
_REST = Wording(
    "Channels that do not turn are zero in place of what they were.",
    "Let the channels beyond rotary_dim pass through.",
)
_TWICE = Wording(
    "The factor multiplies cosines and sines twice.",
    "Multiply by it once.",
)


def channel_mistakes(application: Application) -> Iterator[Application]:
    """Make each mistake that connects channels otherwise."""
    yield from _layouts(application)
    wiring = application.wiring
    for form, how in _SIGNS.items():
        mistake = Mistake("sine-sign", {"how": how}, _SIGN)
        yield application.having("form", mistake, wiring=replace(wiring, form=form))
    for form, how in _ORDERS.items():
        mistake = Mistake("halves-swapped", {"how": f"{how} for (-x2, x1)"}, _HALVES)
        yield application.having("form", mistake, wiring=replace(wiring, form=form))
    mistake = Mistake("halves-swapped", {"how": "the result is (y2, y1) for (y1, y2)"}, _HALVES)
    yield application.having("order", mistake, wiring=replace(wiring, is_exchanged=True))
    if wiring.read == wiring.written and wiring.count > 1:
        other = LAYOUTS[wiring.written == LAYOUTS[0]]
        mistake = Mistake("table-layout-swapped", {"have": other, "want": wiring.written}, _TILED)
        tiled = replace(wiring, is_tiled_otherwise=True)
        yield application.having("tiling", mistake, wiring=tiled)
    if wiring.width < wiring.head_dim:
        mistake = Mistake("rest-zeroed", {}, _REST)
        yield application.having("rest", mistake, wiring=replace(wiring, is_rest_zero=True))


def _layouts(application: Application) -> Iterator[Application]:
    wiring = application.wiring
    if wiring.count < 2:
        return
    for read in LAYOUTS:
        for written in LAYOUTS:
            if (read, written) == (wiring.read, wiring.written):
                continue
            if read == written and wiring.read == wiring.written:
                values = {
                    "have": read,
                    "want": wiring.read,
                    "have_pairs": _PAIRS[read],
                    "want_pairs": _PAIRS[wiring.read],
                }
                mistake = Mistake("layout-swapped", values, _SWAPPED)
            else:
                values = {"read": read, "written": written}
                mistake = Mistake("layout-mixed", values, _MIXED)
            changed = replace(wiring, read=read, written=written)
            yield application.having("layout", mistake, wiring=changed)


def angle_mistakes(application: Application) -> Iterator[Application]:
    """Make each mistake that does something else with the angles that are wanted."""
    spin = application.spin
    yield application.having("direction", Mistake("inverse"), spin=replace(spin, is_inverse=True))
    twice = replace(spin, times=2, powers=(2, 2))
    yield application.having("times", Mistake("rotated-twice"), spin=twice)
    none = replace(spin, times=0, powers=(0, 0))
    yield application.having("times", Mistake("not-rotated"), spin=none)
    exchanged = Mistake("halves-swapped", {"how": "sines stand for cosines and cosines for sines"})
    exchanged = replace(exchanged, wording=_HALVES)
    yield application.having("exchange", exchanged, spin=replace(spin, is_exchanged=True))


def size_mistakes(application: Application, factor: float | None) -> Iterator[Application]:
    """Make each mistake with the factor that is wanted; None where it is another for each angle."""
    spin, values = application.spin, {} if factor is None else {"factor": factor}
    if factor == 1.0:
        return
    missing = Mistake("missing-factor", {**values, "ratio": 1 / factor if factor else "a share"})
    if factor is None:
        missing = Mistake("missing-factor", {}, _NO_XPOS)
    yield application.having("size", missing, spin=replace(spin, powers=(0, 0)))
    twice = Mistake("extra-factor", values, _TWICE)
    yield application.having("size", twice, spin=replace(spin, powers=(2, 2)))
    for powers, have, want in (((1, 0), "cosines", "sines"), ((0, 1), "sines", "cosines")):
        mistake = Mistake("one-sided-factor", {**values, "have": have, "want": want}, _ONE_SIDED)
        yield application.having("size", mistake, spin=replace(spin, powers=powers))


_NO_XPOS = Wording(
    "What grows or decays with the position in cosines and sines is missing.",
    "Multiply by it: xPos scales queries by it and divides keys by it.",
)
