"""The catalogue of known mistakes: what each is called, how it shows, what to do about it.

What each mistake is, in one sentence without numbers: the list that documentation gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from service.analysis.array import TableRequest

Verdict: TypeAlias = Literal["equal", "diagnosed", "none"]

MOST_MISTAKES = 3
"""Of more together anything could be made: a list explains only while it is short."""


@dataclass(frozen=True)
class Wording:
    """Say what a mistake is, and what to do about it; values stand in braces.

    Attributes:
        sentence: what it is, and how it shows.
        correction: what to do.
    """

    sentence: str
    correction: str


CATALOGUE: Mapping[str, Wording] = MappingProxyType(
    {
        "layout-swapped": Wording(
            "Channels lie {have}, and should lie {want}: every number is there, in another place.",
            "Ask for {want}, or permute the channels; weights must be permuted the same way.",
        ),
        "halves-swapped": Wording(
            "The two halves of the channels have changed places, as in cosines before sines for "
            "sines before cosines.",
            "Join the halves in the other order.",
        ),
        "sine-sign": Wording(
            "The sines have the other sign, which turns the other way: the inverse. "
            "Position 0 does not show it.",
            "Take the minus out of the sines, or put it where it is missing.",
        ),
        "inverse": Wording(
            "The rotation goes the other way: by minus the angle, which undoes it.",
            "Turn by the angle itself.",
        ),
        "rotated-twice": Wording(
            "Every angle is twice what it should be: the rotation was done two times.",
            "Rotate once: look for a second place that rotates, or a kernel that does it too.",
        ),
        "not-rotated": Wording(
            "Nothing is rotated: the numbers are those of position 0 everywhere.",
            "Rotate, by the position of each row.",
        ),
        "missing-factor": Wording(
            "Every number is {ratio} of what it should be: a factor of {factor} is missing.",
            "Multiply by {factor}: an attention factor, or the square root of the width.",
        ),
        "extra-factor": Wording(
            "Every number is {factor} times what it should be.",
            "Leave the factor of {factor} out, or apply it once.",
        ),
        "wrong-factor": Wording(
            "Every number is {factor} times what it should be, which is no factor in common use.",
            "Divide by {factor}.",
        ),
        "wrong-base": Wording(
            "The base is {have}, and should be {want}; position 0 does not show it.",
            "Use the base {want}: a config names it rope_theta, rope_base or rotary_emb_base.",
        ),
        "tutorial-slip": Wording(
            "The frequencies of the cosines are those of exponent (i + 1)/d in place of i/d.",
            "Give the sine and the cosine of a pair the same frequency, base^(-2k/d).",
        ),
        "linear-factor": Wording(
            "Every frequency is {ratio} of what it should be: positions are {how} by {factor}.",
            "Count positions as they should be: look for a factor that is applied twice or never.",
        ),
        "config-key-ignored": Wording(
            "The frequencies are those without {keys}: the rule {rule} was not applied.",
            "Apply the rule {rule}, with {keys}.",
        ),
        "wrong-rule": Wording(
            "It follows another rule than it should: {have}, and should be {want}.",
            "Compute frequencies and channels as {want} does.",
        ),
        "another-table": Wording(
            "It is another table: {have}, and should be {want}.",
            "Make {want}.",
        ),
        "short-for-long-factors": Wording(
            "The frequencies are divided by {have}, and should be by {want}.",
            "Use {want} at this context length.",
        ),
        "partial-width": Wording(
            "{have} channels turn, and {want} should: rotary_dim is another.",
            "Set rotary_dim to {want}.",
        ),
        "truncated": Wording(
            "It ends at {have} {axis} and should have {want}; what is beyond is {beyond}.",
            "Make {want} {axis}.",
        ),
        "longer": Wording(
            "It goes on to {have} {axis}, and should have {want}.",
            "Keep the first {want} {axis}.",
        ),
        "position-offset": Wording(
            "Row s holds what belongs to position s + ({rows}): positions are off by {rows}.",
            "Subtract {rows} from the positions that are used.",
        ),
        "other-positions": Wording(
            "Rows are those of the positions {have}, and should be of {want}.",
            "Compute each row at its own position: look for what shuffles, repeats or skips rows.",
        ),
        "positions-reversed": Wording(
            "The rows are in reverse order: the last position comes first.",
            "Count positions upwards.",
        ),
        "rounded-decimals": Wording(
            "Numbers were rounded to {decimals} decimals, as where they are printed and read.",
            "Send or keep them with all their digits: 9 for float32, 17 for float64.",
        ),
        "narrow-positions": Wording(
            "Positions were counted in {dtype}, which holds every integer up to {exact} only: they "
            "are rounded beyond.",
            "Keep positions in float32 or as integers until angles are made.",
        ),
        "narrow-frequencies": Wording(
            "Frequencies were held in {dtype}: angles go wrong in proportion to the position.",
            "Keep inv_freq in float32 or better; a model's .half() or .to() must not touch it.",
        ),
        "narrow-angles": Wording(
            "Angles were computed in {dtype}: what is large is rounded to whole steps.",
            "Compute angles in float32 or better, and round sines and cosines last.",
        ),
        "axes-swapped": Wording(
            "The axes {first} and {second} have changed places.",
            "Count {first} first; a square input hides the difference.",
        ),
        "transposed": Wording(
            "Rows and columns are exchanged: the axes come in the order {order}.",
            "Transpose it back.",
        ),
    }
)


@dataclass(frozen=True)
class Mistake:
    """One thing that somebody did.

    Attributes:
        name: what it is called in the catalogue.
        values: the numbers and names that go with it, of JSON types.
        wording: what is said of it, where the catalogue has no such name.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    wording: Wording | None = None

    @property
    def sentence(self) -> str:
        """Say what it is and how it shows."""
        return self._said.sentence.format(**self._spelled)

    @property
    def correction(self) -> str:
        """Say what to do about it."""
        return self._said.correction.format(**self._spelled)

    @property
    def _said(self) -> Wording:
        return self.wording or CATALOGUE[self.name]

    @property
    def _spelled(self) -> dict[str, Any]:
        return {
            name: f"{value:.6g}" if isinstance(value, float) else value
            for name, value in self.values.items()
        }


@dataclass(frozen=True)
class Leaving:
    """The first element that is not explained.

    Attributes:
        array: the name of the array that it is in.
        index: where in that array, as it was sent.
        have: what is there.
        want: what would be there by the best explanation.
        allowed: how far they may be apart.
        position: that of its row, where rows have one.
    """

    array: str
    index: tuple[int, ...]
    have: float
    want: float
    allowed: float
    position: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What was done to get one thing in place of another.

    Attributes:
        verdict: ``equal`` where there is no mistake, ``diagnosed`` where the mistakes explain every
            element, ``none`` where no list of known mistakes does.
        mistakes: the shortest list that explains it, or the nearest for ``none``.
        residual: how far elements are from what the mistakes make of what is wanted, at most.
        elements: how many were compared.
        allowed: how far an element may be from it at most.
        leaves_at: for ``none``, the first element that the nearest list does not explain.
        correct: the table that it should be, where that is known.
        yours: the table that it is, where there is such a one.
    """

    verdict: Verdict
    mistakes: tuple[Mistake, ...] = ()
    residual: float = 0.0
    elements: int = 0
    allowed: float = 0.0
    leaves_at: Leaving | None = None
    correct: TableRequest | None = None
    yours: TableRequest | None = None

    @property
    def is_explained(self) -> bool:
        """Tell whether every element is explained."""
        return self.verdict != "none"


MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "layout-swapped": "Channels lie half for interleaved, or interleaved for half.",
        "layout-mixed": "Pairs of channels are read in one layout and written in the other.",
        "table-layout-swapped": "Cosines and sines lie in one layout, and pairs in the other.",
        "halves-swapped": "The two halves of the channels have changed places.",
        "sine-sign": "Sines have the other sign, all of them or those of one half.",
        "inverse": "The rotation goes the other way.",
        "rotated-twice": "Every angle is twice what it should be.",
        "not-rotated": "Nothing is rotated: every row is as at position 0.",
        "missing-factor": "Numbers are too small by a factor, such as an attention factor.",
        "extra-factor": "Numbers are too large by a factor, such as one that is applied twice.",
        "wrong-factor": "Numbers are multiplied by a factor that is not in use anywhere.",
        "one-sided-factor": "A factor multiplies cosines or sines and not both.",
        "wrong-base": "Frequencies are powers of another base.",
        "tutorial-slip": "Exponents are those of a slip in tutorials, such as (i + 1)/d for i/d.",
        "linear-factor": "Every frequency, or every position, is multiplied by one factor.",
        "config-key-ignored": "A setting was not applied, as frequencies without their scaling.",
        "wrong-rule": "Frequencies or channels follow another rule.",
        "another-table": "It is another table.",
        "short-for-long-factors": "The short list of factors is used for the long, or the reverse.",
        "partial-width": "More or fewer channels turn than should: rotary_dim is another.",
        "rotary-offset": "The channels that turn begin elsewhere in the head.",
        "rest-zeroed": "Channels that should pass through are zero.",
        "truncated": "Rows or channels beyond some length are missing, zero or not rotated.",
        "longer": "There are more rows or channels than should be.",
        "position-offset": "Positions are off by a whole number.",
        "positions-reversed": "Rows are in reverse order.",
        "positions-stuck": "Every row has the position of the same one.",
        "other-positions": "Rows are those of other positions, as of shuffled or repeated ones.",
        "rounded-decimals": "Numbers were rounded to a few decimals.",
        "narrow-positions": "Positions were rounded to bfloat16 or float16.",
        "narrow-frequencies": "Frequencies were rounded to bfloat16 or float16.",
        "narrow-angles": "Angles were rounded to bfloat16 or float16.",
        "narrow-tables": "Cosines and sines were rounded to a narrower type than the array.",
        "axes-swapped": "Two axes have changed places, as height and width, or heads and rows.",
        "transposed": "Rows and columns are exchanged.",
    }
)
"""What each mistake is, by its name."""
