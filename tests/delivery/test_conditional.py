"""Entity tags and conditions on them."""

from dataclasses import replace

import numpy as np
import pytest

from service import TABLE_REVISION
from service.delivery import conditional
from service.delivery.conditional import entity_tag, matches_none
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.tables.document import Document
from service.tables.dtypes import FLOAT32, FLOAT64
from service.tables.table import StoredTable

DOCUMENT = Document("encoding", {"base": 1.0}, {"encoding": StoredTable(np.zeros((2, 2)), FLOAT64)})
TAG = entity_tag(DOCUMENT, FORMATS["npy"])


def test_a_tag_is_strong_and_quoted() -> None:
    assert TAG.startswith('"')
    assert TAG.endswith('"')
    assert len(TAG) == 34


def test_a_tag_is_the_same_tomorrow() -> None:
    assert TAG == '"9bea89223e0df83fd52bc688c208a367"'


@pytest.mark.parametrize(
    "other",
    [
        replace(DOCUMENT, kind="relative"),
        replace(DOCUMENT, parameters={"base": 2.0}),
        replace(DOCUMENT, arrays={"x": DOCUMENT.arrays["encoding"]}),
        replace(DOCUMENT, arrays={"encoding": StoredTable(np.zeros((2, 2), "<f4"), FLOAT32)}),
        replace(DOCUMENT, arrays={"encoding": StoredTable(np.zeros((4, 1)), FLOAT64)}),
    ],
)
def test_whatever_changes_the_bytes_changes_the_tag(other: Document) -> None:
    assert entity_tag(other, FORMATS["npy"]) != TAG


def test_format_encoder_and_revision_change_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    json_tag = entity_tag(DOCUMENT, JSON)
    other_encoder = entity_tag(DOCUMENT, replace(JSON, version="orjson 0"))
    monkeypatch.setattr(conditional, "TABLE_REVISION", {**TABLE_REVISION, "encoding": 2})

    tags = {TAG, json_tag, other_encoder, entity_tag(DOCUMENT, FORMATS["npy"])}

    assert len(tags) == 4


@pytest.mark.parametrize(
    ("if_none_match", "matches"),
    [
        (None, False),
        ("*", True),
        (" * ", True),
        (TAG, True),
        (f"W/{TAG}", True),
        (f'"other", {TAG}', True),
        (f'W/"a,b" , W/{TAG}', True),
        ('"other"', False),
        (TAG.strip('"'), False),
        ("", False),
    ],
)
def test_lists_stars_and_weak_tags_are_compared(if_none_match: str | None, matches: bool) -> None:
    assert matches is not matches_none(if_none_match, TAG)
