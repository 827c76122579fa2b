"""The arrays that bodies of ``/positions`` may have, all optional, and their elements."""

from math import isfinite
from typing import Any

import numpy as np

from service.encodings.family import InputArray
from service.errors import InvalidBody
from service.numerics.phase import Int64s
from service.numerics.tables import StoredTable

_SENT: tuple[tuple[str, str, str, Any], ...] = (
    ("input_ids", "", "token ids, (batch, length)", [[5, 7, 9]]),
    ("attention_mask", "", "0 for masked tokens, else 1, (batch, length)", [[0, 1, 1]]),
    (
        "token_types",
        "mm_token_type_ids",
        "0 text, 1 image, 2 video, 3 audio, (batch, length)",
        [[0, 1, 0]],
    ),
    *(
        (
            f"{kind}_grids",
            f"{kind}_grid_thw",
            f"patches t, h, w of each {kind} of the batch, in order, ({kind}s, 3)",
            [[1, 4, 6]],
        )
        for kind in ("image", "video")
    ),
    (
        "seconds_per_grid",
        "second_per_grid_ts second_per_grids video_second_per_grid",
        "seconds between the frames of each video, (videos,)",
        [1.0],
    ),
    (
        "audio_lengths",
        "audio_seqlens audio_feature_lengths",
        "feature frames of each audio, (audios,)",
        [130],
    ),
    (
        "images_per_sample",
        "",
        "grids of each row, those of images to generate included, (batch,)",
        [1],
    ),
    *(
        (
            f"{kind}_sizes",
            alias,
            f"patches h, w of each thumbnail and slice of {kind}s, in order, (n, 2)",
            [[8, 8]],
        )
        for kind, alias in (("image", "target_sizes"), ("video", "target_sizes_videos"))
    ),
    (
        "cu_seqlens",
        "cu_seq_lens cu_seq_lens_q cu_seqlens_q",
        "where packed sequences begin, and the end of the last one, (sequences + 1,)",
        [0, 3, 4, 8],
    ),
    (
        "token_type_ids",
        "",
        "TAPAS' types of tokens, (batch, length, 7): column at 1 and row at 2 of the last axis",
        [[[0, 1, 1, 0, 0, 0, 0]]],
    ),
)
(
    INPUT_IDS,
    ATTENTION_MASK,
    TOKEN_TYPES,
    IMAGE_GRIDS,
    VIDEO_GRIDS,
    SECONDS_PER_GRID,
    AUDIO_LENGTHS,
    IMAGES_PER_SAMPLE,
    IMAGE_SIZES,
    VIDEO_SIZES,
    CU_SEQLENS,
    CELL_TYPES,
) = (
    InputArray(
        name,
        text,
        (np.ndim(example),),
        example,
        is_integer=np.asarray(example).dtype.kind == "i",
        is_required=False,
        aliases=tuple(aliases.split()),
    )
    for name, aliases, text, example in _SENT
)


def integers_of(table: StoredTable) -> Int64s:
    """Return the elements of a table of integers."""
    return table.in_order().elements


def check_each(valid: Any, values: Any, name: str, rule: str) -> None:
    """Raise InvalidBody with the place of the first element of an array that is not valid."""
    if not valid.all():
        place = tuple(map(int, np.unravel_index(int((~valid).argmax()), valid.shape)))
        value = values[place].item()
        text = str(value) if isfinite(value) else repr(value)
        raise InvalidBody(
            f"{name} {rule}, and has {text}", "/".join(["", name, *map(str, place)]), text
        )
