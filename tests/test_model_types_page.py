"""docs/model-types.md is what its generator writes."""

from typing import get_args

from service.models.knowledge import Kind
from tests.data.model_types_page import KINDS, PAGE, write_page


def test_page_is_what_make_docs_writes() -> None:
    assert write_page() == PAGE.read_text()


def test_every_kind_that_types_have_is_listed() -> None:
    assert set(get_args(Kind)) - KINDS.keys() == {"none", "permutation"}
