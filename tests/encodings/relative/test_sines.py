"""Sinusoids of relative positions: rows as the libraries order them, exact to the last one.

The relative shift: data moved as the libraries move it, to the last bit.

``/relative/transformer-xl`` and its shift through HTTP.

``/relative/xlnet`` through HTTP.

``/relative/conformer`` through HTTP.
"""

from io import BytesIO
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.sinusoidal import geometric
from service.encodings.relative import sines as relative_sines
from service.encodings.relative import sines as shift
from service.encodings.relative.sines import AttentionType, MirroredTable
from service.numerics.document import Document
from service.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64, REAL_DTYPES
from service.numerics.frequencies import Geometric
from service.numerics.phasors import component
from service.numerics.positions import Positions
from service.numerics.tables import StoredTable, size
from tests.client import Client
from tests.exact import UNIT, frequency


def whole(document: Document) -> NDArray[Any]:
    (table,) = document.arrays.values()
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


def of_transformer_xl(key_len: int, clamp_len: int = -1, d_model: int = 4) -> Document:
    return relative_sines.transformer_xl(
        d_model=d_model, base=10000.0, key_len=key_len, clamp_len=clamp_len, dtype=FLOAT64
    )


def of_xlnet(
    query_len: int,
    key_len: int,
    *,
    attn_type: AttentionType = "bi",
    bi_data: bool = False,
    clamp_len: int = -1,
) -> Document:
    return relative_sines.xlnet(
        d_model=4,
        base=10000.0,
        query_len=query_len,
        key_len=key_len,
        attn_type=attn_type,
        bi_data=bi_data,
        clamp_len=clamp_len,
        dtype=FLOAT64,
    )


def halves(positions: list[int], d_model: int = 4) -> NDArray[np.float64]:
    """Give sines and cosines by way of the kernel, which has tests of its own."""
    rule, at = geometric(d_model, 10000.0), np.array(positions, dtype=np.int64)
    return np.concatenate([component(rule, "sin", at), component(rule, "cos", at)], axis=1)


def test_transformer_xl_starts_with_the_farthest_key() -> None:
    assert (whole(of_transformer_xl(4)) == halves([3, 2, 1, 0])).all()


def test_transformer_xl_takes_far_distances_for_the_clamp() -> None:
    assert (whole(of_transformer_xl(5, 2)) == halves([2, 2, 2, 1, 0])).all()
    for unclamped in (0, -1, 4, 100):
        assert (whole(of_transformer_xl(5, unclamped)) == halves([4, 3, 2, 1, 0])).all()


@pytest.mark.parametrize("d_model", [1, 3, 7])
def test_an_odd_d_model_has_one_channel_more(d_model: int) -> None:
    found = whole(of_transformer_xl(3, d_model=d_model))

    assert found.shape == (3, d_model + 1)
    pairs = (d_model + 1) // 2
    for row, distance in enumerate((2, 1, 0)):
        for k in range(pairs):
            angle = distance * frequency(10000.0, d_model, k)
            assert abs(found[row, k] - mpmath.sin(angle)) <= 5 * UNIT
            assert abs(found[row, k + pairs] - mpmath.cos(angle)) <= 5 * UNIT


def test_xlnet_ends_with_the_last_key_to_the_right_or_with_itself() -> None:
    assert (whole(of_xlnet(3, 4)) == halves([4, 3, 2, 1, 0, -1, -2])).all()
    assert (whole(of_xlnet(3, 4, attn_type="uni")) == halves([4, 3, 2, 1, 0])).all()


def test_xlnet_clamps_to_both_sides() -> None:
    assert (whole(of_xlnet(4, 3, clamp_len=2)) == halves([2, 2, 1, 0, -1, -2, -2])).all()
    assert (whole(of_xlnet(1, 3, clamp_len=2)) == halves([2, 2, 1, 0])).all()


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
@pytest.mark.parametrize("clamp_len", [-1, 2])
def test_xlnets_second_direction_is_that_of_opposite_positions(
    attn_type: AttentionType, clamp_len: int
) -> None:
    alone = of_xlnet(3, 4, attn_type=attn_type, clamp_len=clamp_len)
    both = of_xlnet(3, 4, attn_type=attn_type, clamp_len=clamp_len, bi_data=True)

    forward, backward = whole(both).swapaxes(0, 1)

    assert both.axes == ("position", "direction", "channel")
    assert forward.tobytes() == whole(alone).tobytes()
    positions = {"bi": [4, 3, 2, 1, 0, -1, -2], "uni": [4, 3, 2, 1, 0]}[attn_type]
    limit = clamp_len if clamp_len > 0 else 9
    opposite = [-max(-limit, min(position, limit)) for position in positions]
    assert backward.tobytes() == halves(opposite).tobytes()


def test_the_number_of_queries_is_of_no_matter_to_xlnets_left_side() -> None:
    one, other = of_xlnet(3, 4, attn_type="uni"), of_xlnet(9, 4, attn_type="uni")

    assert one.parameters == other.parameters
    assert "query_len" not in one.parameters


def test_conformer_alternates_and_runs_from_left_to_right() -> None:
    document = relative_sines.conformer(d_model=4, base=10000.0, seq_len=3, dtype=FLOAT64)

    found = whole(document)

    expected = halves([2, 1, 0, -1, -2])
    assert (found[:, 0::2] == expected[:, :2]).all()
    assert (found[:, 1::2] == expected[:, 2:]).all()


def test_a_clamp_that_is_none_is_not_said() -> None:
    assert of_transformer_xl(3, 0).parameters == of_transformer_xl(3, -1).parameters
    assert of_transformer_xl(3, 2).parameters["clamp_len"] == 2


def test_2_to_the_62_keys_take_no_room() -> None:
    document = of_xlnet(2**62, 2**62, clamp_len=2**61)
    table = document.arrays["xlnet"]

    assert table.shape == (2**63, 4)
    assert (table.read(0, 4) == halves([2**61])[0]).all()
    assert (table.read(2**62 * 4, 2**62 * 4 + 8).reshape(2, 4) == halves([0, -1])).all()


@given(st.data())
def test_any_range_of_both_directions_has_the_bytes_of_the_whole(data: st.DataObject) -> None:
    table = MirroredTable(Geometric(100.0, 6, 3), Positions.contiguous(-20, 40), FLOAT32)
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start + 1, size(table)))

    assert table.read(0, size(table))[start:stop].tobytes() == table.read(start, stop).tobytes()


def test_steps_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MirroredTable(Geometric(100.0, 6, 3), Positions.contiguous(-20, 40), FLOAT32)
    at_once = table.read(0, size(table)).tobytes()
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", 100)

    assert table.read(0, size(table)).tobytes() == at_once
    assert not np.signbit(table.read(20 * 12, 21 * 12)).any()


LENGTHS = st.integers(1, 7)
# With batch and heads, with one of them, or with neither.
OTHERS = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def stored(x: NDArray[Any], dtype: str = "float64") -> StoredTable:
    return StoredTable(x.astype(REAL_DTYPES[dtype].storage), REAL_DTYPES[dtype])


def elements(document: Document) -> NDArray[Any]:
    table = document.arrays["shift"]
    assert isinstance(table, StoredTable)
    return table.elements


@given(LENGTHS, LENGTHS, OTHERS)
def test_a_key_gets_the_score_of_its_distance(
    queries: int, keys: int, others: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).standard_normal((queries, keys, *others))

    found = elements(shift.shift_transformer_xl(stored(x), zero_triu=False))

    assert found.shape == x.shape
    for i, j in np.ndindex(queries, keys):
        if j + queries - 1 - i < keys:
            assert (found[i, j] == x[i, j + queries - 1 - i]).all()


def test_what_a_mask_hides_is_what_comes_next_in_memory() -> None:
    x = np.arange(1.0, 10.0).reshape(3, 3)

    found = elements(shift.shift_transformer_xl(stored(x), zero_triu=False))

    # 0 1 2 3 | 0 4 5 6 | 0 7 8 9, without the first three.
    assert found.tolist() == [[3, 0, 4], [5, 6, 0], [7, 8, 9]]


@given(LENGTHS, LENGTHS)
def test_zeros_above_the_diagonal_leave_the_rest_alone(queries: int, keys: int) -> None:
    x = stored(np.random.default_rng(0).standard_normal((queries, keys)))

    plain = elements(shift.shift_transformer_xl(x, zero_triu=False))
    found = elements(shift.shift_transformer_xl(x, zero_triu=True))

    assert (found == np.tril(plain, keys - queries)).all()
    assert (x.elements == np.random.default_rng(0).standard_normal((queries, keys))).all()


@given(LENGTHS, st.integers(2, 7), OTHERS, st.data())
def test_xlnets_shift_is_that_of_rows_with_one_position_more(
    queries: int, columns: int, others: tuple[int, ...], data: st.DataObject
) -> None:
    key_len = data.draw(st.integers(1, columns - 1))
    x = np.random.default_rng(0).standard_normal((queries, columns, *others))

    found = elements(shift.shift_xlnet(stored(x), key_len=key_len))

    assert found.shape == (queries, key_len, *others)
    for i, j in np.ndindex(queries, key_len):
        if j + queries - i < columns:
            assert (found[i, j] == x[i, j + queries - i]).all()


def test_transformer_xls_shift_is_xlnets_after_a_column_of_zeros() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6, 2))
    padded = np.concatenate([np.zeros((4, 1, 2)), x], axis=1)

    found = elements(shift.shift_transformer_xl(stored(x), zero_triu=False))

    assert (found == elements(shift.shift_xlnet(stored(padded), key_len=6))).all()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_every_type_keeps_its_bits(dtype: str) -> None:
    bits = np.random.default_rng(0).integers(0, 60000, (3, 5))
    x = stored(bits, dtype)

    found = elements(shift.shift_transformer_xl(x, zero_triu=False))

    assert found.dtype == x.elements.dtype
    assert set(found.reshape(-1).tolist()) <= {0, *x.elements.reshape(-1).tolist()}
    assert found[2].tolist() == x.elements[2].tolist()


def test_nan_and_infinity_pass_and_are_known_of() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 2.0]])

    document = shift.shift_transformer_xl(StoredTable(x, FLOAT64), zero_triu=False)

    table = document.arrays["shift"]
    assert isinstance(table, StoredTable)
    assert not table.is_finite
    assert np.isnan(table.elements[0, 0])
    narrow = StoredTable(np.array([[0x7F80, 0x3F80]], dtype="<u2"), BFLOAT16)
    moved = shift.shift_transformer_xl(narrow, zero_triu=False).arrays["shift"]
    assert isinstance(moved, StoredTable)
    assert not moved.is_finite


def test_axes_are_named_as_far_as_they_go() -> None:
    for rank in (2, 3, 4):
        document = shift.shift_transformer_xl(stored(np.ones((2,) * rank)), zero_triu=False)
        assert document.axes == ("query", "key", "batch", "head")[:rank]


SHIFT = "/relative/transformer-xl/shift"


def test_rows_are_distances_from_the_farthest_to_none(client: Client) -> None:
    answer = client.get("/relative/transformer-xl?d_model=6&key_len=4&clamp_len=2&dtype=float64")
    query = "positions=2,2,1,0&d_model=6&layout=concatenated&dtype=float64"

    assert answer.headers["Array-Axes"] == "position, channel"
    assert answer.json()["data"] == client.get(f"/encoding?{query}").json()["data"]


def test_canonical_parameters_ask_for_it_again(client: Client) -> None:
    said = client.get("/relative/transformer-xl?d_model=6&key_len=4&clamp_len=2").json()

    query = "&".join(f"{name}={value}" for name, value in said["parameters"].items())

    assert client.get(f"/relative/transformer-xl?{query}").json() == said


def test_relative_transformer_xl_an_odd_d_model_has_one_channel_more(client: Client) -> None:
    answer = client.get("/relative/transformer-xl?d_model=5&key_len=2")

    assert answer.headers["Array-Shape"] == "2, 6"


def test_scores_are_shifted_to_the_bit_in_their_own_format(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 2, 4)).astype(np.float16)
    stream = BytesIO()
    np.save(stream, x)
    headers = {"Content-Type": "application/x-npy"}

    answer = client.post(SHIFT, content=stream.getvalue(), headers=headers)

    assert answer.headers["Array-Axes"] == "query, key, batch, head"
    found = np.load(BytesIO(answer.content))
    assert found.dtype == x.dtype
    assert (found[0, :3] == x[0, 2:]).all()
    assert (found[2] == x[2]).all()


def test_the_two_conventions_differ_by_the_column_of_zeros(client: Client) -> None:
    x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

    plain = client.post(SHIFT, json={"x": x}).json()
    xlnet = client.post(SHIFT, json={"x": x, "convention": "xlnet"}).json()
    cut = client.post(f"{SHIFT}?convention=xlnet&key_len=1", json={"x": x}).json()

    assert plain["data"] == [[2.0, 3.0, 0.0], [4.0, 5.0, 6.0]]
    assert xlnet["data"] == [[3.0, 4.0], [5.0, 6.0]]
    assert cut["data"] == [[3.0], [5.0]]
    assert xlnet["parameters"] == {"convention": "xlnet", "key_len": 2}


def test_what_a_causal_mask_hides_may_be_zero(client: Client) -> None:
    x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    plain = client.post(SHIFT, json={"x": x}).json()["data"]
    zeroed = client.post(SHIFT, json={"x": x, "zero_triu": True}).json()["data"]

    assert zeroed == np.tril(plain, -1).tolist()


@pytest.mark.parametrize(
    ("url", "parameter"),
    [
        ("/relative/transformer-xl?d_model=4", "key_len"),
        ("/relative/transformer-xl?d_model=4&key_len=0", "key_len"),
        (f"/relative/transformer-xl?d_model=4&key_len={2**62 + 1}", "key_len"),
        ("/relative/transformer-xl?d_model=4&key_len=4&clamp_len=-2", "clamp_len"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, url: str, parameter: str) -> None:
    answer = client.get(url)

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("x", "query", "where"),
    [
        ([[1.0, 2.0]], "key_len=1", "key_len"),
        ([[1.0, 2.0]], "convention=xlnet&key_len=2", "key_len"),
        ([[1.0, 2.0]], "convention=xlnet&zero_triu=true", "zero_triu"),
        ([[1.0]], "convention=xlnet", "/x"),
        ([1.0, 2.0], "", "/x"),
    ],
)
def test_what_cannot_be_shifted_is_refused(
    client: Client, x: list[object], query: str, where: str
) -> None:
    answer = client.post(f"{SHIFT}?{query}", json={"x": x})

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert where in {error.get("parameter"), error.get("pointer")}


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        ("query_len=3&key_len=4", "4:-3:-1"),
        ("key_len=4&attn_type=uni", "4:-1:-1"),
        ("query_len=3&key_len=4&clamp_len=1", "1,1,1,1,0,-1,-1"),
    ],
)
def test_rows_are_positions_from_left_to_right(client: Client, query: str, positions: str) -> None:
    answer = client.get(f"/relative/xlnet?d_model=6&{query}&dtype=float64")
    same = f"positions={positions}&d_model=6&layout=concatenated&dtype=float64"

    assert answer.json()["data"] == client.get(f"/encoding?{same}").json()["data"]


def test_two_directions_are_an_axis(client: Client) -> None:
    url = "/relative/xlnet?d_model=4&query_len=2&key_len=3"

    both = client.get(f"{url}&bi_data=true").json()

    assert both["axes"] == ["position", "direction", "channel"]
    assert [row[0] for row in both["data"]] == client.get(url).json()["data"]


def test_relative_xlnet_canonical_parameters_ask_for_it_again(client: Client) -> None:
    said = client.get("/relative/xlnet?d_model=6&key_len=4&attn_type=uni").json()

    assert "query_len" not in said["parameters"]
    query = "&".join(f"{name}={str(value).lower()}" for name, value in said["parameters"].items())
    assert client.get(f"/relative/xlnet?{query}").json() == said


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("d_model=4&key_len=3", "query_len"),
        ("d_model=4&query_len=3", "key_len"),
        ("d_model=4&query_len=3&key_len=3&attn_type=both", "attn_type"),
        ("d_model=4&query_len=3&key_len=3&attn_type=uni", "query_len"),
        ("query_len=3&key_len=3", "d_model"),
    ],
)
def test_relative_xlnet_what_is_impossible_names_the_parameter(
    client: Client, query: str, parameter: str
) -> None:
    answer = client.get(f"/relative/xlnet?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_rows_are_all_differences_those_to_the_left_first(client: Client) -> None:
    answer = client.get("/relative/conformer?d_model=6&seq_len=3&dtype=float64")
    query = "positions=2:-3:-1&d_model=6&dtype=float64"

    assert answer.headers["Array-Shape"] == "5, 6"
    assert answer.json()["data"] == client.get(f"/encoding?{query}").json()["data"]


def test_another_base_is_that_of_the_series(client: Client) -> None:
    answer = client.get("/relative/conformer?d_model=6&seq_len=3&base=100")
    query = "positions=2:-3:-1&d_model=6&base=100"

    assert answer.json()["data"] == client.get(f"/encoding?{query}").json()["data"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [("d_model=5&seq_len=3", "d_model"), ("d_model=4&seq_len=0", "seq_len")],
)
def test_relative_conformer_what_is_impossible_names_the_parameter(
    client: Client, query: str, parameter: str
) -> None:
    answer = client.get(f"/relative/conformer?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]
