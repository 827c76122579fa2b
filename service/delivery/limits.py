"""Limits on answers, held before a byte of them is made."""

from service.delivery.representation import Representation
from service.errors import AnswerTooLarge
from service.settings import Settings


def check_answer_size(
    shown: Representation, settings: Settings, *, has_ranges: bool = True
) -> None:
    """Hold an answer that is sent whole, or described, to its limit; raises AnswerTooLarge.

    Args:
        shown: the answer.
        settings: the limits.
        has_ranges: whether a part of a binary one may be asked for.
    """
    limit_bytes = shown.file.limit_bytes
    if shown.is_digest:
        limit, name = settings.max_digest_bytes, "POSREF_MAX_DIGEST_BYTES"
        says, way_out = "the digest is of a file of up to", "ask for that of less of it"
    elif shown.form.is_text:
        limit, name = settings.max_text_bytes, "POSREF_MAX_TEXT_BYTES"
        says, way_out = "the answer may take up to", "ask for npy or safetensors, or for less of it"
    else:
        limit, name = settings.max_response_bytes, "POSREF_MAX_RESPONSE_BYTES"
        ranges = "ranges of it (Range), or for " if has_ranges else ""
        says, way_out = "the answer takes", f"ask for {ranges}less of it"
    if limit_bytes > limit:
        raise AnswerTooLarge(
            f"{says} {limit_bytes} bytes and the limit is {limit} ({name}): {way_out}"
        )
