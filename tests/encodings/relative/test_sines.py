"""Sinusoids of relative positions and the relative shift, as the libraries order them."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.relative.sines import RelativeShift, ShiftedTable, TransformerXL, XLNet
from service.numerics.dtypes import BFLOAT16, FLOAT64, REAL_DTYPES
from service.numerics.phase import geometric
from service.numerics.phasors import component
from service.numerics.tables import StoredTable, Table, size
from tests.client import Client, load_npy, npy_bytes
from tests.exact import UNIT, frequency


def whole(table: Table) -> NDArray[Any]:
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


def halves(positions: list[int], d_model: int = 4) -> NDArray[np.float64]:
    """Return sines and cosines of the kernel, which has tests of its own."""
    rule, at = geometric(d_model, 10000.0), np.array(positions, dtype=np.int64)
    return np.concatenate([component(rule, "sin", at), component(rule, "cos", at)], axis=1)


@pytest.mark.parametrize("d_model", [1, 3, 7])
def test_an_odd_d_model_has_one_channel_more(d_model: int) -> None:
    values = whole(TransformerXL(d_model=d_model, key_len=3, dtype="float64").table())

    assert values.shape == (3, d_model + 1)
    pairs = (d_model + 1) // 2
    for row, distance in enumerate((2, 1, 0)):
        for k in range(pairs):
            angle = distance * frequency(10000.0, d_model, k)
            assert abs(values[row, k] - mpmath.sin(angle)) <= 5 * UNIT
            assert abs(values[row, k + pairs] - mpmath.cos(angle)) <= 5 * UNIT


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
@pytest.mark.parametrize("clamp_len", [-1, 2])
def test_the_second_direction_of_xlnet_has_opposite_positions(
    attn_type: str, clamp_len: int
) -> None:
    values = {"d_model": 4, "key_len": 4, "attn_type": attn_type, "clamp_len": clamp_len}
    queries = {"query_len": 3} if attn_type == "bi" else {}
    alone = XLNet.model_validate({**values, **queries, "dtype": "float64"})
    both = XLNet.like(alone, bi_data=True)

    forward, backward = whole(both.table()).swapaxes(0, 1)

    assert both.axes == ("position", "direction", "channel")
    assert forward.tobytes() == whole(alone.table()).tobytes()
    positions = {"bi": [4, 3, 2, 1, 0, -1, -2], "uni": [4, 3, 2, 1, 0]}[attn_type]
    limit = clamp_len if clamp_len > 0 else 9
    opposite = [-max(-limit, min(position, limit)) for position in positions]
    assert backward.tobytes() == halves(opposite).tobytes()


@pytest.mark.parametrize("clamp_len", [-1, 0])
def test_a_clamp_that_does_nothing_is_no_canonical_parameter(clamp_len: int) -> None:
    clamped = TransformerXL(d_model=4, key_len=3, clamp_len=clamp_len)

    assert clamped.canonical() == {"d_model": 4, "base": 10000.0, "key_len": 3}
    assert TransformerXL(d_model=4, key_len=3, clamp_len=2).canonical()["clamp_len"] == 2


def test_2_to_the_62_keys_take_no_memory() -> None:
    values = {"d_model": 4, "query_len": 2**62, "key_len": 2**62, "clamp_len": 2**61}
    table = XLNet.model_validate({**values, "dtype": "float64"}).table()

    assert table.shape == (2**63, 4)
    assert (table.read(0, 4) == halves([2**61])[0]).all()
    assert (table.read(2**62 * 4, 2**62 * 4 + 8).reshape(2, 4) == halves([0, -1])).all()


def test_the_second_direction_has_no_negative_zeros() -> None:
    values = XLNet(d_model=4, key_len=1, attn_type="uni", bi_data=True, dtype="float64").table()

    assert not np.signbit(values.read(8, 16)).any()


LENGTHS = st.integers(1, 7)
# With batch and heads, with one of them, or with neither.
OTHERS = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def stored(x: NDArray[Any], dtype: str = "float64") -> StoredTable:
    return StoredTable(x.astype(REAL_DTYPES[dtype].storage), REAL_DTYPES[dtype])


def shifted_table(x: StoredTable, **parameters: Any) -> ShiftedTable:
    axes = ("query", "key", "batch", "head")[: len(x.shape)]
    given = {"axes": ",".join(axes)} if len(axes) > 3 else {}
    document = RelativeShift.model_validate({**given, **parameters}).document({"x": x})
    assert document.parameters["axes"] == ",".join(document.axes)
    assert "axes" in parameters or document.axes == axes
    table = document.arrays["shift"]
    assert isinstance(table, ShiftedTable)
    return table


def shifted(x: StoredTable, **parameters: Any) -> NDArray[Any]:
    return whole(shifted_table(x, **parameters))


@given(LENGTHS, LENGTHS, OTHERS)
def test_a_key_gets_the_score_of_its_distance(
    queries: int, keys: int, others: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).standard_normal((queries, keys, *others))

    values = shifted(stored(x))

    assert values.shape == x.shape
    for i, j in np.ndindex(queries, keys):
        if j + queries - 1 - i < keys:
            assert (values[i, j] == x[i, j + queries - 1 - i]).all()


@given(st.permutations(["query", "key", "batch", "head"]), st.booleans())
def test_the_shift_is_the_same_in_any_order_of_axes(order: list[str], zero_triu: bool) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 2, 5))
    moved = [("query", "key", "batch", "head").index(name) for name in order]

    usual = shifted(stored(x), zero_triu=zero_triu)
    values = shifted(stored(x.transpose(moved)), axes=order, zero_triu=zero_triu)

    assert (values == usual.transpose(moved)).all()


def test_a_masked_key_gets_the_next_score_in_memory() -> None:
    values = shifted(stored(np.arange(1.0, 10.0).reshape(3, 3)))

    # 0 1 2 3 | 0 4 5 6 | 0 7 8 9, without the first three.
    assert values.tolist() == [[3, 0, 4], [5, 6, 0], [7, 8, 9]]


@given(LENGTHS, LENGTHS)
def test_zero_triu_changes_masked_keys_alone(queries: int, keys: int) -> None:
    x = stored(np.random.default_rng(0).standard_normal((queries, keys)))
    before = x.elements.copy()

    plain, zeroed = shifted(x), shifted(x, zero_triu=True)

    assert (zeroed == np.tril(plain, keys - queries)).all()
    assert (x.elements == before).all()


@given(LENGTHS, st.integers(2, 7), OTHERS, st.data())
def test_xlnets_shift_is_for_rows_with_one_position_more(
    queries: int, columns: int, others: tuple[int, ...], data: st.DataObject
) -> None:
    key_len = data.draw(st.integers(1, columns - 1))
    x = np.random.default_rng(0).standard_normal((queries, columns, *others))

    values = shifted(stored(x), convention="xlnet", key_len=key_len)

    assert values.shape == (queries, key_len, *others)
    for i, j in np.ndindex(queries, key_len):
        if j + queries - i < columns:
            assert (values[i, j] == x[i, j + queries - i]).all()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_the_bits_of_every_type_are_copied(dtype: str) -> None:
    x = stored(np.random.default_rng(0).integers(0, 60000, (3, 5)), dtype)

    values = shifted(x)

    assert values.dtype == x.elements.dtype
    assert set(values.reshape(-1).tolist()) <= {0, *x.elements.reshape(-1).tolist()}
    assert values[2].tolist() == x.elements[2].tolist()


def test_nan_and_infinity_are_copied_and_noticed() -> None:
    wide = shifted_table(StoredTable(np.array([[1.0, np.nan], [np.inf, 2.0]]), FLOAT64))
    narrow = shifted_table(StoredTable(np.array([[0x7F80, 0x3F80]], dtype="<u2"), BFLOAT16))

    assert np.isnan(wide.read(0, 1))
    assert not wide.is_finite
    assert not narrow.is_finite


@pytest.mark.parametrize(
    ("path", "positions", "layout"),
    [
        ("transformer-xl?key_len=4", "3:-1:-1", "concatenated"),
        ("transformer-xl?key_len=5&clamp_len=2", "2,2,2,1,0", "concatenated"),
        ("transformer-xl?key_len=5&clamp_len=0", "4:-1:-1", "concatenated"),
        ("transformer-xl?key_len=5&clamp_len=100", "4:-1:-1", "concatenated"),
        ("xlnet?query_len=3&key_len=4", "4:-3:-1", "concatenated"),
        ("xlnet?key_len=4&attn_type=uni", "4:-1:-1", "concatenated"),
        ("xlnet?query_len=3&key_len=4&clamp_len=1", "1,1,1,1,0,-1,-1", "concatenated"),
        ("xlnet?query_len=1&key_len=3&clamp_len=2", "2,2,1,0", "concatenated"),
        ("conformer?seq_len=3", "2:-3:-1", "interleaved"),
        ("conformer?seq_len=3&base=100", "2:-3:-1", "interleaved"),
    ],
)
def test_rows_are_rows_of_the_encoding(
    client: Client, path: str, positions: str, layout: str
) -> None:
    answer = client.get(f"/relative/{path}&d_model=6&dtype=float64")
    base = "base=100" if "base=100" in path else "base=10000"
    same = f"positions={positions}&d_model=6&layout={layout}&dtype=float64&{base}"

    assert answer.headers["Array-Axes"] == "position, channel"
    assert answer.json()["data"] == client.get(f"/encoding?{same}").json()["data"]


SHIFT = "/relative/transformer-xl/shift"


def test_batch_and_head_axes_are_kept(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 2, 4)).astype(np.float16)
    headers = {"Content-Type": "application/x-npy"}

    url = f"{SHIFT}?axes=query,key,batch,head"
    answer = client.post(url, content=npy_bytes(x), headers=headers)

    assert answer.headers["Array-Axes"] == "query, key, batch, head"
    values = load_npy(answer)
    assert values.dtype == x.dtype
    assert (values[0, :3] == x[0, 2:]).all()
    assert (values[2] == x[2]).all()


def test_the_two_conventions_differ_by_the_column_of_zeros(client: Client) -> None:
    x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

    plain = client.post(SHIFT, json={"x": x}).json()
    xlnet = client.post(SHIFT, json={"x": x, "convention": "xlnet"}).json()
    cut = client.post(f"{SHIFT}?convention=xlnet&key_len=1", json={"x": x}).json()

    assert plain["data"] == [[2.0, 3.0, 0.0], [4.0, 5.0, 6.0]]
    assert plain["parameters"] == {
        "convention": "transformer-xl",
        "zero_triu": False,
        "axes": "query,key",
    }
    assert xlnet["data"] == [[3.0, 4.0], [5.0, 6.0]]
    assert cut["data"] == [[3.0], [5.0]]
    assert xlnet["parameters"] == {"convention": "xlnet", "key_len": 2, "axes": "query,key"}


def test_scores_of_one_column_are_refused_with_xlnet(client: Client) -> None:
    answer = client.post(f"{SHIFT}?convention=xlnet", json={"x": [[1.0]]})

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/x"]
