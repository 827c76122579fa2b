"""Refusals name the limit and its setting."""

import pytest

from service.errors import PosrefError
from service.serving import refusals
from service.settings import Settings


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (refusals.url_too_long(1234), "POSREF_MAX_URL_BYTES"),
        (refusals.head_too_long(1234), "POSREF_MAX_HEAD_BYTES"),
        (refusals.head_too_slow(1234), "POSREF_HEADER_SECONDS"),
        (refusals.body_too_slow(1234), "POSREF_BODY_SECONDS"),
        (refusals.too_many_connections(1234), "POSREF_MAX_CONNECTIONS"),
    ],
)
def test_a_refusal_names_its_limit_and_the_setting(error: PosrefError, name: str) -> None:
    assert "1234" in error.detail
    assert name in error.detail
    assert name.removeprefix("POSREF_").lower() in Settings.model_fields
