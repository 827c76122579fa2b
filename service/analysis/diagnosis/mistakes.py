"""Known mistakes: one entry each, with the sentence and the correction that a diagnosis reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from service.analysis.array import FirstMismatch, TableRequest
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType

DiagnosisVerdict: TypeAlias = Literal["equal", "diagnosed", "none"]


def reason_of_equality(narrow: DType | None, *, has_angle_errors: bool) -> str | None:
    """Return why numbers differ by more than the rounding of their dtype; None if they do not.

    Args:
        narrow: the dtype of the arithmetic if it is narrower than that of the array, else None.
        has_angle_errors: whether numbers differ by more than rounding to ``narrow``, or in float32.
    """
    reasons = []
    if narrow in {BFLOAT16, FLOAT16}:
        reasons.append(f"every number is rounded to {narrow.name}")
    if has_angle_errors:
        reasons.append("within the error of float32 angles")
    elif narrow is FLOAT32:
        reasons.append("within the error of float32 arithmetic")
    return ", ".join(reasons) or None


FACTOR_MISTAKES = {"extra-factor", "missing-factor", "wrong-factor"}
"""The mistakes of a table whose numbers are all multiplied by one factor."""

MOST_MISTAKES = 3
"""A longer list of mistakes could explain anything."""


class KnownMistake(NamedTuple):
    """The public text of a mistake; names of values stand in braces."""

    sentence: str
    correction: str


CATALOGUE: Mapping[str, KnownMistake] = {
    "layout-swapped": KnownMistake(
        'The channel order is "{have}" but should be "{want}"; the values themselves are right.',
        'Request the order "{want}", or permute the channels of the table. Only where the model '
        'is to keep the order "{have}", permute its weights instead; never both.',
    ),
    "layout-swapped/rotation": KnownMistake(
        'Channels are paired as "{have}", {have_pairs}, but should be paired as "{want}", '
        "{want_pairs}.",
        'Rotate with the layout "{want}", or permute the rows of the query and key weights; never '
        "both.",
    ),
    "layout-mixed": KnownMistake(
        'Pairs are read as "{read}" and written as "{written}", so channels come out in another '
        "order; scores of queries and keys that both have it are still right.",
        "Write the pairs where the expected layout has them, or permute the channels of the "
        "result.",
    ),
    "table-layout-swapped": KnownMistake(
        "Cosines and sines are laid out for {have} pairs but the pairs are {want}, so the two "
        "channels of a pair rotate by different angles.",
        "Lay out cosines and sines for {want} pairs.",
    ),
    "halves-swapped": KnownMistake(
        "The two halves of the channels are swapped, for example cosines before sines.",
        "Join the halves in the other order.",
    ),
    "halves-swapped/rotation": KnownMistake(
        "The two halves of the channels are swapped: {how}.",
        "Join the halves in the other order.",
    ),
    "sine-sign": KnownMistake(
        "The sines have the wrong sign, which rotates the other way; position 0 does not show it.",
        "Remove the extra minus sign from the sines, or add the missing one.",
    ),
    "sine-sign/rotation": KnownMistake(
        "This is not a rotation: {how}. Position 0 does not show it.",
        "Return (-x2, x1) from rotate_half: only the first channel of each pair gets a minus sign.",
    ),
    "inverse": KnownMistake(
        "The rotation is by minus the angle, which is the inverse.",
        "Rotate by the angle itself.",
    ),
    "rotated-twice": KnownMistake(
        "Every angle is twice what it should be: the rotation is applied two times.",
        "Rotate once: look for a second call, or for a kernel that rotates as well.",
    ),
    "not-rotated": KnownMistake(
        "Nothing is rotated: every row has the values of position 0.",
        "Rotate each row by its own position.",
    ),
    "missing-factor": KnownMistake(
        "Every number is {ratio} times what it should be: a factor of {factor} is missing.",
        "Multiply by {factor}: an attention factor, or the square root of the width.",
    ),
    "missing-factor/xpos": KnownMistake(
        "The scale that grows or decays with the position is missing from cosines and sines.",
        "Multiply by it: xPos multiplies queries by it and divides keys by it.",
    ),
    "extra-factor": KnownMistake(
        "Every number is {factor} times what it should be.",
        "Remove the factor of {factor}, or apply it once.",
    ),
    "extra-factor/twice": KnownMistake(
        "The factor multiplies cosines and sines twice.",
        "Apply it once.",
    ),
    "wrong-factor": KnownMistake(
        "Every number is {factor} times what it should be; no model in common use has such a "
        "factor.",
        "Divide by {factor}.",
    ),
    "one-sided-factor": KnownMistake(
        "The factor multiplies the {have} but not the {want}.",
        "Multiply cosines and sines by the same factor.",
    ),
    "wrong-base": KnownMistake(
        "The base is {have} but should be {want}; position 0 does not show it.",
        "Set the base to {want}: configs call it rope_theta, rope_base or rotary_emb_base.",
    ),
    "tutorial-slip": KnownMistake(
        "Frequencies have the exponent {exponent} instead of i/d, a common slip in tutorials.",
        "Give the sine and the cosine of a pair the same frequency, base^(-2k/d).",
    ),
    "linear-factor": KnownMistake(
        "Every frequency is {ratio} times what it should be, as if positions were scaled.",
        "Scale positions once: look for a factor that is applied twice or not at all.",
    ),
    "config-key-ignored": KnownMistake(
        "The rule {rule} was not applied: the frequencies are those without {keys}.",
        "Apply the rule {rule}, with {keys}.",
    ),
    "config-key-ignored/rotation": KnownMistake(
        "The frequencies are those of base {have} alone: the scaling rule was not applied.",
        "Apply the scaling rule of the config to the base {have}.",
    ),
    "wrong-rule": KnownMistake(
        "Frequencies or channels follow {have} but should follow {want}.",
        "Compute frequencies and channels as {want} does.",
    ),
    "wrong-rule/frequencies": KnownMistake(
        "The frequencies differ, first in pair {pair}: {have} radians per position instead of "
        "{want}.",
        "Compute the frequencies by the expected rule, with all of its keys.",
    ),
    "another-table": KnownMistake(
        "This is another table: {have} instead of {want}.",
        "Compute {want}.",
    ),
    "short-for-long-factors": KnownMistake(
        "The frequencies are divided by {have} but should be divided by {want}.",
        "Use {want} at this context length.",
    ),
    "partial-width": KnownMistake(
        "{have} channels rotate but {want} should: rotary_dim is wrong.",
        "Set rotary_dim to {want}.",
    ),
    "partial-width/rotation": KnownMistake(
        "{have} channels rotate but {want} should; frequencies are {frequencies}{rest}.",
        "Set rotary_dim to {want}.",
    ),
    "rotary-offset": KnownMistake(
        "The rotation starts at channel {have} of the head but should start at channel {want}.",
        "Rotate the part of the head that starts at channel {want}.",
    ),
    "rest-zeroed": KnownMistake(
        "Channels that should pass through are zero.",
        "Copy the channels beyond rotary_dim unchanged.",
    ),
    "truncated": KnownMistake(
        "There are {have} {axis} but there should be {want}; the others are {beyond}.",
        "Compute all {want} {axis}.",
    ),
    "truncated/rotation": KnownMistake(
        "Rows from {have} on are {beyond}.",
        "Compute cosines and sines for all {want} rows.",
    ),
    "longer": KnownMistake(
        "There are {have} {axis} but there should be {want}.",
        "Keep the first {want} {axis}.",
    ),
    "position-offset": KnownMistake(
        "Row s has the values of position s + {rows}: positions are off by {rows}.",
        "Look for a start or padding that is added to the positions, or left out.",
    ),
    "other-positions": KnownMistake(
        "The rows are those of positions {have} but should be those of {want}.",
        "Compute each row at its own position: look for code that shuffles, repeats or skips rows.",
    ),
    "positions-reversed": KnownMistake(
        "The rows are in reverse order: the last position comes first.",
        "Count positions upwards.",
    ),
    "positions-stuck": KnownMistake(
        "Every row is rotated as position {position}: position ids do not advance.",
        "Give each row its own position. Rows that are the heads of one position have the shape "
        "(heads, 1, channels).",
    ),
    "rounded-decimals": KnownMistake(
        "Numbers are rounded to {decimals} decimals, as if they had been printed and read back.",
        "Keep all digits: 9 for float32, 17 for float64.",
    ),
    "narrow-positions": KnownMistake(
        "Positions are stored in {dtype}, which represents every integer only up to {exact}: "
        "larger ones are rounded.",
        "Keep positions in float32 or as integers until angles are computed.",
    ),
    "narrow-frequencies": KnownMistake(
        "Frequencies are stored in {dtype}: the error of an angle grows with the position.",
        "Keep inv_freq in float32 or wider; exclude it from a model's .half() or .to().",
    ),
    "narrow-angles": KnownMistake(
        "Angles are computed in {dtype}, which rounds large angles coarsely.",
        "Compute angles in float32 or wider, and round only sines and cosines.",
    ),
    "narrow-tables": KnownMistake(
        "Cosines and sines are rounded to {dtype} before the multiplication.",
        "Keep cosines and sines in float32 until the rotation is done.",
    ),
    "axes-swapped": KnownMistake(
        "Two axes are swapped: {first} and {second}.",
        "Swap them back; a square input hides the difference.",
    ),
    "axes-swapped/rotation": KnownMistake(
        "The rotation is along axis {have} but should be along axis {want}: heads were taken for "
        "positions.",
        "Pass (batch, heads, positions, channels), or name the axis that counts positions.",
    ),
    "transposed": KnownMistake(
        "Rows and columns are swapped: the axes are in the order {order}.",
        "Transpose the array back.",
    ),
}
"""The text of each mistake by name: what is wrong and how it shows, and what to do.

A mistake that shows in another way in some cases has a second entry, ``name/variant``.
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake that was made.

    Attributes:
        name: in the catalogue.
        values: the numbers and names that go with it, of JSON types.
        variant: of its text, where it is not the usual one.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    variant: str | None = None

    @property
    def sentence(self) -> str:
        return self._text.sentence.format(**self._printed).replace("+ -", "- ")

    @property
    def correction(self) -> str:
        return self._text.correction.format(**self._printed)

    @property
    def _text(self) -> KnownMistake:
        return CATALOGUE[f"{self.name}/{self.variant}" if self.variant else self.name]

    @property
    def _printed(self) -> dict[str, Any]:
        floats = {value for value in self.values.values() if isinstance(value, float)}
        # Six digits, or as many as show which numbers differ.
        digits = 6
        while len({f"{value:.{digits}g}" for value in floats}) < len(floats):
            digits += 1
        return {
            name: f"{value:.{digits}g}" if isinstance(value, float) else value
            for name, value in self.values.items()
        }


@dataclass(frozen=True)
class Diagnosis:
    """The mistakes that turn the expected array into the one that was sent.

    Attributes:
        verdict: ``equal`` where there is no mistake, ``diagnosed`` where the mistakes explain every
            element, ``none`` where no list of known mistakes does.
        mistakes: the shortest list that explains every element, or the closest one for ``none``.
        residual: the largest distance of an element from what the mistakes predict.
        elements: how many were compared.
        allowed: the largest tolerance of an element.
        first_mismatch: for ``none``, the first element that the closest list does not explain.
        matching_table: the table of this server that the array equals, where there is one.
        reason: why numbers differ by more than their rounding; None where they do not.
    """

    verdict: DiagnosisVerdict
    mistakes: tuple[Mistake, ...] = ()
    residual: float = 0.0
    elements: int = 0
    allowed: float = 0.0
    first_mismatch: FirstMismatch | None = None
    matching_table: TableRequest | None = None
    reason: str | None = None
