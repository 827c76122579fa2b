"""``bin``: the elements and nothing else."""

import numpy as np

from service.formats.raw import RAW
from service.tables.document import Document
from service.tables.dtypes import FLOAT32
from service.tables.table import StoredTable

TABLE = StoredTable(np.arange(6, dtype="<f4").reshape(2, 3), FLOAT32)


def test_the_body_is_the_elements_little_endian_in_c_order() -> None:
    body = RAW.body(Document("encoding", {}, {"encoding": TABLE}))

    assert TABLE.elements.tobytes() == b"".join(body.blocks())


def test_several_arrays_are_refused() -> None:
    assert RAW.refusal(Document("rope", {}, {"cos": TABLE, "sin": TABLE})) is not None
