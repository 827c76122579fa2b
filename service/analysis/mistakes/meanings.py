"""What each mistake is, in one sentence without numbers: the list that documentation gives."""

from collections.abc import Mapping
from types import MappingProxyType

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
