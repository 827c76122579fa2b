"""The mistakes that a diagnosis names: how often people make them, what is wrong, what to do.

One entry for each name. ``bits`` is −log2 of how often the mistake is made, from threads and
configs; only the order matters. Values stand in braces. A mistake that shows in another way in some
cases has a second entry, ``name/variant``, with the same cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from service.numerics.dtypes import BFLOAT16, DType
from service.numerics.tables import ParameterValue

Changes: TypeAlias = Mapping[str, ParameterValue | None]
"""Parameters of the table that the mistake gives; None removes one."""


class Known(NamedTuple):
    """A mistake of the catalogue: its cost, and its text."""

    bits: float
    sentence: str
    correction: str


_POSITIONS = "Compute each row at its own position."

CATALOGUE: Mapping[str, Known] = {
    # Keys of a config.
    "wrong-base": Known(
        7,
        "The base is {have}; it should be {want}.",
        "Set the base to {want}: configs call it rope_theta, rope_base or rotary_emb_base.",
    ),
    "wrong-base/interval": Known(
        7,
        "The base is about {have}: any from {low} to {high} explains every number, and the type "
        "of the numbers says no more. It should be {want}.",
        "Set the base to {want}: configs call it rope_theta, rope_base or rotary_emb_base.",
    ),
    "config-key-ignored": Known(
        3,
        "The rule {rule} was not applied: the frequencies are those without it.",
        "Apply the rule {rule}, with {settings}.",
    ),
    "config-key-ignored/default": Known(
        3, "{key} was ignored: it is {have}; it should be {want}.", "Set {key} to {want}."
    ),
    "wrong-parameter": Known(5, "{key} is {have}; it should be {want}.", "Set {key} to {want}."),
    "wrong-parameter/interval": Known(
        5,
        "{key} is about {have}: any from {low} to {high} explains every number. It should be "
        "{want}.",
        "Set {key} to {want}.",
    ),
    "wrong-rule": Known(
        6,
        "The frequencies follow the rule {have}; they should follow {want}.",
        "Scale the frequencies by the rule {want}.",
    ),
    "wrong-rule/frequencies": Known(
        20,
        "The frequencies are those of no known rule: pair {pair} turns by {have} radians per "
        "position, and should turn by {want}.",
        "Compute the frequencies by the expected rule, with all of its keys.",
    ),
    "rules-by-layer": Known(
        4,
        "The settings are those of the layers of type {have}; this layer has the type {want}.",
        "Give each layer the settings of its own type.",
    ),
    "dynamic-length": Known(
        5,
        "Dynamic scaling was computed for a context of {have} tokens; it should be {want}.",
        "Compute the base for the length that the model runs with, {want}.",
    ),
    "yarn-range-rounded": Known(
        5,
        "The ends of the ramp of YaRN are computed with truncate={have}; it should be {want}.",
        "Set truncate to {want}: true rounds the ends of the ramp to whole pairs.",
    ),
    "yarn-betas-exchanged": Known(
        6,
        "The keys beta_fast and beta_slow of YaRN are exchanged.",
        "Exchange them: beta_fast is {want} and belongs to the fast pairs, beta_slow is {have}.",
    ),
    "llama3-band": Known(
        7,
        "The band between kept and divided frequencies is linear in the wavelength; it should be "
        "linear in the frequency.",
        "Interpolate by (original length/wavelength − low)/(high − low).",
    ),
    "short-for-long-factors": Known(
        4,
        "The frequencies are divided by {have}; they should be divided by {want}.",
        "Use {want} at this context length.",
    ),
    "list-by-position": Known(
        6,
        "Each position has the list of factors of its own side of {length}; one list should hold "
        "for the whole context.",
        "Choose short_factor or long_factor once, by the length of the context.",
    ),
    "mscale-exchanged": Known(
        6,
        "Cosines and sines are multiplied by {have}; it should be {want}: mscale and "
        "mscale_all_dim were mixed up.",
        "Multiply by the quotient of both, g(mscale)/g(mscale_all_dim).",
    ),
    "missing-factor": Known(
        3,
        "The factor {factor} of cosines and sines is missing.",
        "Multiply cosines and sines by {factor}.",
    ),
    "missing-factor/xpos": Known(
        3,
        "The scale that grows or decays with the position is missing from cosines and sines.",
        "Multiply by it: xPos multiplies queries by it and divides keys by it.",
    ),
    "extra-factor": Known(
        5,
        "Cosines and sines are multiplied by {factor} once too often.",
        "Multiply by it once.",
    ),
    "missing-factor/numbers": Known(
        3, "The factor {factor} of all numbers is missing.", "Multiply all numbers by {factor}."
    ),
    "extra-factor/numbers": Known(
        5,
        "All numbers are multiplied by {factor} once too often.",
        "Multiply by it once.",
    ),
    "wrong-sign": Known(
        6,
        "All numbers have the wrong sign.",
        "Change the sign of all numbers; look for one that is applied twice, or not at all.",
    ),
    "wrong-factor": Known(
        14,
        "Every number is {factor} times what it should be.",
        "Divide by {factor}.",
    ),
    "one-sided-factor": Known(
        6,
        "The factor multiplies the {have} but not the {want}.",
        "Multiply cosines and sines by the same factor.",
    ),
    # Width and layout.
    "partial-width": Known(
        5,
        "{have} channels turn; {want} should.",
        "Set rotary_dim to {want}.",
    ),
    "partial-width/last": Known(
        5,
        "Pairs 0 to {last} stand still: {have} channels turn, {how}; {want} should turn.",
        "Rotate all {want} channels.",
    ),
    "partial-width/last-but-first": Known(
        5,
        "Pair 0 stands still: {have} channels turn, {how}; {want} should turn.",
        "Rotate all {want} channels.",
    ),
    "wrong-denominator": Known(
        5,
        "The exponents are divided by {have}, the channels of a head; they should be divided by "
        "{want}, the channels that turn.",
        "Divide by the number of channels that turn: base^(−2k/rotary_dim).",
    ),
    "wrong-denominator/wider": Known(
        5,
        "The exponents are divided by {have}; they should be divided by {want}: the frequencies "
        "are the first ones of a table with {have} channels.",
        "Compute the table for {want} channels; do not cut it out of one for {have}.",
    ),
    "rotary-offset": Known(
        4,
        "The rotation starts at channel {have} of the head; it should start at channel {want}.",
        "Rotate the part of the head that starts at channel {want}.",
    ),
    "rest-zeroed": Known(
        6,
        "Channels that should pass through are zero.",
        "Copy the channels beyond rotary_dim unchanged.",
    ),
    "layout-swapped": Known(
        4,
        "The channels are ordered as {have}; they should be ordered as {want}.",
        "Switch the order of the channels, or permute the weights of the model; not both.",
    ),
    "layout-swapped/packing": Known(
        4,
        "Cosines and sines are packed as {have} ({have_order}); they should be packed as {want} "
        "({want_order}).",
        "Switch the order of the channels, or permute the weights of the model; not both.",
    ),
    "layout-swapped/rotation": Known(
        4,
        "Channels are paired as {have}, {have_pairs}; they should be paired as {want}, "
        "{want_pairs}.",
        "Rotate with the layout {want}, or permute the rows of the query and key weights; not "
        "both.",
    ),
    "layout-mixed": Known(
        6,
        "Pairs are read as {read} and written as {written}, so channels come out in another "
        "order; scores of queries and keys that both have it are still right.",
        "Write the pairs where the expected layout has them, or permute the channels of the "
        "result.",
    ),
    "table-layout-swapped": Known(
        5,
        "Cosines and sines are laid out for {have} pairs; the pairs are {want}, so the two "
        "channels of a pair turn by different angles.",
        "Lay out cosines and sines for {want} pairs.",
    ),
    "halves-swapped": Known(
        6,
        "Cosines and sines have changed places.",
        "Exchange them back.",
    ),
    "halves-swapped/part": Known(
        6,
        "There are {have} in the place of {want}.",
        "Take the {want}.",
    ),
    "missing-part": Known(
        6,
        "There are only {have}, each twice; the {want} are missing.",
        "Keep one copy, and add the {want}: {order}.",
    ),
    "halves-swapped/channels": Known(
        6,
        "Channels have changed places: {how}.",
        "Exchange them back.",
    ),
    "halves-swapped/rotation": Known(
        6,
        "The two halves of the channels are swapped: {how}.",
        "Join the halves in the other order.",
    ),
    "sections-exchanged": Known(
        5,
        "The axes of the sections are {have}; they should be {want}.",
        "Give each section of frequencies the positions of its own axis.",
    ),
    "sections-interleaved": Known(
        5,
        "The sections of frequencies are {have}; they should be {want}.",
        "Assign frequencies to axes as {want} does.",
    ),
    "sections-exchanged/ids": Known(
        6,
        "The axes of the position ids are {have}; they should be {want}.",
        "Stack the ids of time, height and width in this order.",
    ),
    "axes-swapped": Known(
        6,
        "Two axes are swapped: {first} and {second}.",
        "Swap them back; a square input hides the difference.",
    ),
    "axes-swapped/channels": Known(
        6,
        "The channels of {first} and those of {second} have changed places.",
        "Exchange the blocks of channels of the two axes. In a square grid, numbering the tokens "
        "along the other axis first gives the same table.",
    ),
    "axes-swapped/tokens": Known(
        6,
        "Tokens are numbered along {have}; they should be numbered along {want}.",
        "Number the tokens along {want}.",
    ),
    "axes-swapped/rotation": Known(
        6,
        "The rotation is along axis {have}; it should be along axis {want}: heads were taken for "
        "positions.",
        "Pass (batch, heads, positions, channels), or name the axis that counts positions.",
    ),
    "wrong-heads": Known(
        6,
        "The slopes are the first {want} of {have} heads; they should be those of {want} heads.",
        "Compute the slopes for {want} heads; those of more heads are others.",
    ),
    "transposed": Known(
        9,
        "Rows and columns are swapped.",
        "Transpose the array back.",
    ),
    "transposed/axes": Known(
        9,
        "The axes are in the order {order}; they should be in the order {want}.",
        "Put the axes in the order {want}.",
    ),
    "truncated": Known(
        5,
        "There are {have} {axis}; there should be {want}.",
        "Compute all {want} {axis}.",
    ),
    "truncated/empty": Known(
        5,
        "Rows from {from} on are {are}: {missing} of the {want} rows that {which} are missing.",
        "Compute all {want} rows, or expect only the first {from}.",
    ),
    "truncated/rotation": Known(
        5,
        "Rows from {have} on are {beyond}.",
        "Compute cosines and sines for all {want} rows.",
    ),
    "truncated/one": Known(5, "There is one of {want} {axis}.", "Compute all {want} {axis}."),
    "truncated/at": Known(
        5,
        "This is {item} {first} of {want}, counted from 0.",
        "Compute all {want} {axis}, or expect this one alone.",
    ),
    "truncated/from": Known(
        5,
        "These are {axis} {first} to {last} of {want}, counted from 0.",
        "Compute all {want} {axis}, or expect these alone.",
    ),
    "longer": Known(
        5,
        "There are {have} {axis}; there should be {want}.",
        "Keep the first {want} {axis}.",
    ),
    # Positions.
    "position-offset": Known(
        4,
        "Row 0 has the values of position {have}; it should have those of position {want}: "
        "positions are off by {rows}.",
        "Look for a start, or for padding that is counted, or for an offset that is added twice.",
    ),
    "position-offset/ids": Known(
        4,
        "Every id is off by {rows}: the first is {have}, and should be {want}.",
        "Look for a delta of media that is not added, or for padding that is counted.",
    ),
    "position-offset/indices": Known(
        4,
        "Every index is off by {rows}: the first is {have}, and should be {want}.",
        "Number the entries as the table does: a row that is kept for padding or for a class "
        "token moves all others.",
    ),
    "position-offset/axes": Known(
        4,
        "Along every axis, positions are off by {rows}, where neighbours are one apart.",
        "Count from where the table counts: half a step is the centre of a patch.",
    ),
    "position-offset/axis": Known(
        4,
        "Along {axis}, positions are off by {rows}, where neighbours are one apart.",
        "Count from where the table counts along {axis}.",
    ),
    "cache-offset": Known(
        4,
        "The offset of the cache, {offset}, should count once; it counts {how}: row 0 has the "
        "values of position {have}.",
        "Add the number of cached tokens to the positions once.",
    ),
    "positions-reversed": Known(
        6, "The rows are in the reverse order of the table's.", "Reverse the order of the rows."
    ),
    "positions-stuck": Known(
        5,
        "Positions stay at {position} from row {row} on.",
        _POSITIONS + " Look for a clamp, or for position ids that do not advance.",
    ),
    "positions-reset": Known(
        6,
        "Positions start again at rows {rows}, as in packed sequences.",
        "Count on through the rows, or send the sequences one by one.",
    ),
    "positions-reset/missing": Known(
        6,
        "Positions count on at rows {rows}, where a sequence begins.",
        "Count each of the packed sequences from its own first row.",
    ),
    "padding-counted": Known(
        4,
        "Positions count the padding in front of each sequence, whose lengths are {rows} rows.",
        "Count from the first token: subtract the padding, or sum up the attention mask.",
    ),
    "next-sequence": Known(
        6,
        "Each sequence of the batch, of {rows} rows, has the rows of the next one.",
        "Take the cosines and sines of a sequence by its own index in the batch.",
    ),
    "other-positions": Known(
        12,
        "The rows are those of positions {have}; they should be those of {want}.",
        _POSITIONS + " Look for code that shuffles, repeats or skips rows.",
    ),
    "not-rotated": Known(
        6,
        "Nothing turns: every row has the values of position 0.",
        "Rotate each row by its own position.",
    ),
    # Code.
    "linear-factor": Known(
        5,
        "Positions are {how} by {factor} once too often.",
        "Apply the factor once: look for one that is applied twice, or not at all.",
    ),
    "factor-inverted": Known(
        5,
        "Positions are multiplied by the factor {factor}; they should be divided by it.",
        "Divide positions, or frequencies, by {factor}.",
    ),
    "missing-exponent": Known(
        4.5,
        "The base is multiplied by {have}; it should be multiplied by {want}^(d/(d − 2)), where d "
        "is {width}.",
        "Raise {want} to the power d/(d − 2) before the base is multiplied by it.",
    ),
    "missing-division": Known(
        4.5,
        "The base is multiplied by {factor}, but the frequencies are not divided by "
        "{factor}^(2/d), where d is {width}.",
        "Divide all frequencies by {factor}^(2/d).",
    ),
    "rotated-twice": Known(
        4.5,
        "Every angle is twice what it should be: something rotates a second time.",
        "Rotate once: look for a second call, or for a kernel that rotates as well.",
    ),
    "angles-in-degrees": Known(
        8,
        "The angles are {have}.",
        "Sine and cosine take radians: do not convert the angles.",
    ),
    "tutorial-slip": Known(
        7,
        "The exponent of the frequencies is {exponent}; it should be {want}.",
        "Write the exponent as {want}.",
    ),
    "tutorial-slip/cosines": Known(
        8,
        "The cosines have the exponent {exponent}, where i numbers channels: a cosine should have "
        "the frequency of the sine beside it.",
        "Give the sine and the cosine of a pair the same frequency, base^(−2k/d).",
    ),
    "tutorial-slip/log10": Known(
        8,
        "The logarithm of the base is that to base 10; it should be the natural one.",
        "Write exp(−ln(base)·2k/d).",
    ),
    "downscale-shift": Known(
        7,
        "The exponents are {exponent}, with n frequencies; they should be {wanted}.",
        "Set downscale_freq_shift to {want}.",
    ),
    "sine-sign": Known(
        6,
        "The sines have the wrong sign, which rotates the other way; position 0 does not show it.",
        "Remove the extra minus sign from the sines, or add the missing one.",
    ),
    "sine-sign/rotation": Known(
        6,
        "This is not a rotation: {how}. Position 0 does not show it.",
        "Return (−x2, x1) from rotate_half: only the first channel of each pair gets a minus sign.",
    ),
    "inverse": Known(6, "The rotation is by minus the angle.", "Rotate by the angle itself."),
    # Arithmetic.
    "narrow-tables": Known(
        5,
        "The numbers were rounded to {dtype}.",
        "Keep cosines and sines in float32 until the rotation is done.",
    ),
    "narrow-positions": Known(
        9,
        "Positions are stored in {dtype}, which represents every integer only up to {exact}.",
        "Keep positions in float32 or as integers until angles are computed.",
    ),
    "narrow-frequencies": Known(
        9,
        "Frequencies are stored in {dtype}: the error of an angle grows with the position.",
        "Keep inv_freq in float32 or wider; exclude it from a model's .half() or .to().",
    ),
    "narrow-angles": Known(
        9,
        "Angles are computed in {dtype}, which rounds large angles coarsely.",
        "Compute angles in float32 or wider, and round only sines and cosines.",
    ),
    "narrow-throughout": Known(
        17,
        "Positions, frequencies, angles and sines are all computed in {dtype}.",
        "Compute in float32 or wider, and round only sines and cosines.",
    ),
    "rounded-decimals": Known(
        4,
        "Numbers are rounded to {decimals} decimals, as if they had been printed and read back.",
        "Keep all digits: 9 for float32, 17 for float64.",
    ),
    # Another table.
    "another-table": Known(
        12, "This is another table: {have} instead of {want}.", "Compute {want}."
    ),
}
"""Every mistake by name."""


@dataclass(frozen=True)
class Mistake:
    """A mistake that was made.

    Attributes:
        name: in the catalogue.
        bits: its cost here.
        values: the numbers and names that go with it, of JSON types.
        changes: the parameters of the table that it gives; None if no URL names that table.
        variant: of its text.
    """

    name: str
    bits: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes | None = None
    variant: str = ""

    @property
    def sentence(self) -> str:
        """The mistake in a sentence."""
        return self._text.sentence.format(**self._printed)

    @property
    def correction(self) -> str:
        """The way to mend it, in a sentence."""
        return self._text.correction.format(**self._printed)

    @property
    def _text(self) -> Known:
        return CATALOGUE[f"{self.name}/{self.variant}" if self.variant else self.name]

    @property
    def _printed(self) -> dict[str, Any]:
        numbers = {each for each in self.values.values() if isinstance(each, float)}
        digits = 6
        # As many digits as show which numbers differ.
        while digits < 17 and len({f"{each:.{digits}g}" for each in numbers}) < len(numbers):
            digits += 1
        texts = {name: _text_of(value, digits) for name, value in self.values.items()}
        if "interval" in self.values:
            low, high = self.values["interval"]
            while digits < 17 and not low <= float(texts["have"]) <= high:
                digits += 1
                texts["have"] = _text_of(float(self.values["have"]), digits)
            texts |= {"low": f"{low:.15g}", "high": f"{high:.15g}"}
        return texts


# Floats of so many digits are printed with all of them.
_FEW_DIGITS = 9


def _text_of(value: Any, digits: int) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        is_whole = abs(value) < 1e15 and value == round(value)
        digits = max(digits, _FEW_DIGITS) if float(f"{value:.{_FEW_DIGITS}g}") == value else digits
        return f"{value:.0f}" if is_whole else f"{value:.{digits}g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text_of(each, digits) for each in value)
    return str(value)


def mistake(
    name: str,
    bits: float | None = None,
    values: Mapping[str, Any] | None = None,
    changes: Changes | None = None,
    *,
    variant: str = "",
) -> Mistake:
    """Return a mistake of the catalogue, with its usual cost unless one is given."""
    cost = CATALOGUE[name].bits if bits is None else bits
    return Mistake(name, cost, values or {}, changes, variant)


def too_narrow(part: str, dtype: DType) -> Mistake:
    """Return the mistake that positions, frequencies, angles or all have a narrow type."""
    values = {"dtype": dtype.name, "exact": 256 if dtype is BFLOAT16 else 2048}
    return mistake(f"narrow-{part}", None, values)
