"""``POST /diagnose`` names the cause of numbers that another cause would explain less simply."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.analysis.array import Sample
from service.analysis.explanation.numeric_tables import Numbers, explain_numbers
from service.numerics.dtypes import FLOAT64, INT64
from service.numerics.tables import StoredTable, size
from service.routes.expected_tables import is_table_of
from service.routes.table_urls import read_url
from tests.client import Client, diagnose, load_npy, npy_bytes

Array = NDArray[Any]
SLOPES = "/relative/alibi/slopes?num_heads="
DYNAMIC = "&rope_type=dynamic&original_max_position_embeddings=2048"


def refusal(client: Client, to: str, have: Array) -> str:
    headers = {"Content-Type": "application/x-npy"}
    answer = client.post("/diagnose", params={"to": to}, content=npy_bytes(have), headers=headers)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["detail"])


def table(client: Client, url: str) -> Array:
    return load_npy(client.get(url.replace("?", ".npy?", 1)))


def rotary(width: int, base: float, rows: int = 64, factor: float = 1.0) -> Array:
    """Return cosines, then sines, of a rotary table."""
    angles = np.outer(np.arange(rows), factor * base ** (-np.arange(0, width, 2) / width))
    return np.hstack([np.cos(angles), np.sin(angles)])


def names(report: Any) -> list[str]:
    return [mistake["name"] for mistake in report["mistakes"]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("length", [4096, 8192, 16384])
@pytest.mark.parametrize("factor", [2, 4, 8])
def test_growth_of_dynamic_ntk_without_its_exponent_is_named(
    client: Client, factor: int, length: int, width: int, dtype: str
) -> None:
    growth = factor * length / 2048 - (factor - 1)
    url = f"/rope?head_dim={width}&seq_len=64&pack=concat{DYNAMIC}&factor={factor}"
    to = f"{url}&context_length={length}&dtype={dtype}"

    report = diagnose(client, to, rotary(width, 10000 * growth).astype(dtype))

    assert names(report) == ["missing-exponent"]
    assert report["mistakes"][0]["have"] == report["mistakes"][0]["want"] == growth
    assert f"rope_theta={10000 * growth:.0f}" in report["yours"]["url"]


def test_base_times_the_factor_in_place_of_the_growth_is_named(client: Client) -> None:
    to = f"/rope?head_dim=64&seq_len=64&pack=concat{DYNAMIC}&context_length=8192&factor=4"

    report = diagnose(client, to, rotary(64, 40000).astype(np.float32))

    assert names(report) == ["missing-exponent"]
    assert report["mistakes"][0]["have"] == 4


def test_length_of_dynamic_ntk_is_still_named(client: Client) -> None:
    url = f"/rope?head_dim=64&seq_len=64&pack=concat{DYNAMIC}&factor=4&context_length="

    for length in (10000, 24576):
        report = diagnose(client, f"{url}16384", table(client, f"{url}{length}"))

        assert names(report) == ["dynamic-length"]
        assert report["mistakes"][0]["have"] == length


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("factor", [2, 3.5, 4, 16, 32])
def test_factor_that_multiplies_instead_of_dividing_is_named(
    client: Client, factor: float, dtype: str
) -> None:
    to = f"/rope?head_dim=64&seq_len=64&pack=concat&rope_type=linear&factor={factor}&dtype={dtype}"

    report = diagnose(client, to, rotary(64, 10000, factor=factor).astype(dtype))

    assert names(report) == ["factor-inverted"]
    assert f"factor {factor}" in report["sentence"]


@pytest.mark.parametrize("family", ["/encoding?seq_len=16&d_model=", "/rope?pack=flat&head_dim="])
@pytest.mark.parametrize(("width", "whole"), [(32, 512), (64, 96), (48, 768), (64, 80)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_table_cut_out_of_a_wider_one_has_no_other_base(
    client: Client, dtype: str, width: int, whole: int, family: str
) -> None:
    rows = "" if "seq_len" in family else "&seq_len=16"
    cut = table(client, f"{family}{whole}{rows}&dtype={dtype}")[:, :width]

    report = diagnose(client, f"{family}{width}{rows}&dtype={dtype}", cut)

    (mistake,) = report["mistakes"]
    assert mistake["name"] == "wrong-denominator"
    assert (mistake["have"], mistake["want"]) == (whole, width)
    assert "yours" not in report


def test_half_of_a_table_twice_as_wide_may_have_another_base(client: Client) -> None:
    cut = table(client, "/encoding?seq_len=16&d_model=128")[:, :64]

    report = diagnose(client, "/encoding?seq_len=16&d_model=64", cut)

    others = [each["mistakes"][0]["name"] for each in report["alternatives"]]
    assert names(report) == ["wrong-base"]
    assert others == ["tutorial-slip", "wrong-denominator"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [32, 128])
def test_first_pairs_that_stand_still_are_named(client: Client, width: int, dtype: str) -> None:
    half = width // 4
    to = f"/rope?head_dim={width}&seq_len=32&pack=concat&dtype={dtype}"
    right, alone = rotary(width, 10000, rows=32), rotary(width // 2, 10000, rows=32)
    still, own = right.copy(), right.copy()
    for each in (still, own):
        each[:, :half], each[:, 2 * half : 3 * half] = 1, 0
    own[:, half : 2 * half], own[:, 3 * half :] = alone[:, :half], alone[:, half:]

    for have, how in ((still, "as they should"), (own, "as if alone")):
        report = diagnose(client, to, have.astype(dtype))

        assert names(report) == ["partial-width"]
        assert f"0 to {half - 1} stand still" in report["sentence"]
        assert how in report["sentence"]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("want", "have"), [(8, 16), (12, 16), (12, 32), (16, 24), (40, 64)])
def test_slopes_of_more_heads_are_named(client: Client, want: int, have: int, biased: bool) -> None:
    url = "/relative/alibi?query_len=3&key_len=4&num_heads=" if biased else SLOPES
    slopes = table(client, f"{url}{have}")[:want]

    report = diagnose(client, f"{url}{want}", slopes)

    if np.array_equal(slopes, table(client, f"{url}{want}")):
        assert report["verdict"] == "equal"
    else:
        assert names(report) == ["wrong-heads"]
        assert (report["mistakes"][0]["have"], report["mistakes"][0]["want"]) == (have, want)


def test_slopes_of_fewer_heads_are_named(client: Client) -> None:
    report = diagnose(client, f"{SLOPES}16", table(client, f"{SLOPES}8"))

    assert names(report) == ["wrong-parameter"]
    assert report["sentence"] == "num_heads is 8; it should be 16."
    assert "num_heads=8" in report["yours"]["url"]


def test_slopes_of_another_largest_exponent_are_named_beside_more_heads(client: Client) -> None:
    for heads, most in ((8, 16), (12, 4), (16, 16)):
        report = diagnose(
            client, f"{SLOPES}{heads}", table(client, f"{SLOPES}{heads}&alibi_bias_max={most}")
        )

        assert report["sentence"] == f"alibi_bias_max is {most}; it should be 8."
        assert "alternatives" not in report
    report = diagnose(client, f"{SLOPES}8", table(client, f"{SLOPES}8&alibi_bias_max=4"))
    assert names(report) == ["wrong-heads"]
    (other,) = report["alternatives"]
    assert other["mistakes"][0]["sentence"] == "alibi_bias_max is 4; it should be 8."


GRID = "/encoding/grid?convention={}&height={}&width={}&d_model=32"


@pytest.mark.parametrize("convention", ["mae", "simple-vit", "detr"])
@pytest.mark.parametrize(("height", "width"), [(4, 5), (8, 8)])
@pytest.mark.parametrize(("down", "right"), [(1, 0), (0, 1), (1, 1)])
def test_grid_whose_tokens_are_one_further_is_named(
    client: Client, down: int, right: int, height: int, width: int, convention: str
) -> None:
    to = GRID.format(convention, height, width)
    larger = table(client, GRID.format(convention, height + 1, width + 1))
    if convention == "detr":
        have = larger[:, down : down + height, right : right + width]
    else:
        whole = larger.reshape(height + 1, width + 1, 32)
        have = whole[down : down + height, right : right + width].reshape(-1, 32)

    report = diagnose(client, to, have)

    assert names(report) == ["position-offset"]
    along = "every axis" if down and right else "height" if down else "width"
    assert report["sentence"].startswith(f"Along {along}, positions are off by 1")


def test_grid_of_another_convention_is_named_by_it(client: Client) -> None:
    shape = (14, 14)
    for have, want in (("simple-vit", "mae"), ("mae", "simple-vit"), ("mae", "timm")):
        sent = table(client, GRID.format(have, *shape))

        report = diagnose(client, GRID.format(want, *shape), sent)

        assert report["sentence"] == f"convention is {have}; it should be {want}."
        assert f"convention={have}" in report["yours"]["url"]
    sent = table(client, GRID.format("deformable-detr", *shape))
    assert diagnose(client, GRID.format("detr", *shape), sent)["verdict"] == "diagnosed"


def test_grid_of_a_convention_with_other_axes_is_another_table(client: Client) -> None:
    sent = table(client, "/encoding/grid?convention=diffusers&height=2&width=4&d_model=16")
    to = "/encoding/grid?convention=positional-encodings&height=5&width=7&d_model=16"

    assert names(diagnose(client, to, sent)) == ["another-table"]


def test_slopes_of_more_heads_than_asked_for_have_their_own_largest_exponent(
    client: Client,
) -> None:
    report = diagnose(client, f"{SLOPES}4&alibi_bias_max=16", table(client, f"{SLOPES}12"))

    assert report["sentence"] == (
        "num_heads is 12; it should be 4. alibi_bias_max is 8; it should be 16."
    )
    assert "num_heads=12" in report["yours"]["url"]


def test_slopes_of_another_convention_are_named_by_it(client: Client) -> None:
    report = diagnose(client, f"{SLOPES}12&convention=paper", table(client, f"{SLOPES}12"))

    assert report["sentence"] == "convention is original; it should be paper."
    assert "num_heads=12" in report["yours"]["url"]


TABLES = [
    GRID.format("mae", 4, 5),
    "/relative/alibi?num_heads=8&query_len=6&key_len=6",
    "/relative/alibi/slopes?num_heads=8",
    "/relative/t5?query_len=8&key_len=12",
    "/relative/swin?window_size=3,4",
    "/encoding?seq_len=8&d_model=16",
]


@pytest.mark.parametrize("batch", [(3,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("url", TABLES)
def test_equal_copies_of_any_table_are_read_as_one(
    client: Client, url: str, batch: tuple[int, ...]
) -> None:
    one = table(client, url)
    copies = np.ascontiguousarray(np.broadcast_to(one, (*batch, *one.shape)))

    report = diagnose(client, url, copies)

    assert report["verdict"] == "equal"
    assert report["checked"]["elements"] == copies.size
    if one.dtype.kind == "f":
        assert "2 once too often" in diagnose(client, url, 2 * copies)["sentence"]


def test_copies_that_differ_are_refused_as_such(client: Client) -> None:
    one = table(client, TABLES[1])

    detail = refusal(client, TABLES[1], np.stack([one, 2 * one]))

    assert detail == "the array has the shape (2, 8, 6, 6), and its tables differ: send one of them"


@pytest.mark.parametrize("url", TABLES[:2] + TABLES[3:5])
def test_one_row_is_part_of_a_table_of_numbers(client: Client, url: str) -> None:
    one = table(client, url)

    for row in (one[:1], one[0]):
        report = diagnose(client, url, row)

        assert names(report) == ["truncated"]
        assert report["sentence"].startswith(f"There is one of {len(one)} ")


HEADS = {
    "alibi": "/relative/alibi?num_heads=4&query_len=4&key_len=4",
    "masked": "/relative/alibi?num_heads=12&query_len=5&key_len=7&masked=true",
    "sandwich": "/relative/sandwich?num_heads=4&query_len=4&key_len=4&head_dim=16",
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("family", HEADS)
def test_one_head_is_right_as_far_as_it_goes(client: Client, family: str, dtype: str) -> None:
    to = HEADS[family]
    every = table(client, to).astype(dtype)
    for head in {1, 2, len(every) - 1}:
        for have in (every[head], every[head : head + 1]):
            report = diagnose(client, to, have)

            assert names(report) == ["truncated"]
            assert report["sentence"] == f"This is head {head} of {len(every)}, counted from 0."
            assert report["yours"]["url"].endswith(f"&head={head}")


@pytest.mark.parametrize(("first", "count"), [(8, 4), (4, 4), (12, 4), (8, 8), (1, 2)])
@pytest.mark.parametrize(
    "url", [f"{SLOPES}16", "/relative/alibi?num_heads=16&query_len=3&key_len=5"]
)
def test_heads_of_one_device_are_right_as_far_as_they_go(
    client: Client, url: str, first: int, count: int
) -> None:
    report = diagnose(client, url, table(client, url)[first : first + count])

    last = first + count - 1
    assert report["sentence"] == f"These are heads {first} to {last} of 16, counted from 0."


def test_later_rows_are_named_if_no_others_are_equal(client: Client) -> None:
    every = table(client, TABLES[3])
    assert diagnose(client, TABLES[3], every[3])["sentence"].startswith("This is query 3 of 8")
    assert diagnose(client, TABLES[3], every[2:5])["sentence"].startswith("These are queries 2 to")

    equal = {"x": Sample.of(StoredTable(np.array([[1, 2], [3, 5], [3, 5]]), INT64))}
    found = explain_numbers(
        {"x": Sample.of(StoredTable(np.array([[3, 5]]), INT64))}, Numbers(equal, FLOAT64)
    )
    assert found is not None
    assert "truncated" not in {each.name for each in found.mistakes}


@pytest.mark.parametrize("factor", [2, 3, 0.5])
def test_a_factor_of_one_head_may_be_that_of_another_head(client: Client, factor: float) -> None:
    every = table(client, HEADS["alibi"])

    for have in (factor * every[:1] + 0.0, 3 * every[2]):
        report = diagnose(client, HEADS["alibi"], have)
        assert {"missing-factor", "extra-factor"}.isdisjoint(names(report))


def test_rows_of_a_table_of_one_row_are_no_copies(client: Client) -> None:
    for to, copies in (
        ("/relative/t5?query_len=1&key_len=12", (8, 12)),
        ("/relative/t5?query_len=1&key_len=12", (8, 12, 1)),
        ("/relative/t5?query_len=1&key_len=12", (1, 8, 12)),
    ):
        one = table(client, to)
        have = np.ascontiguousarray(np.broadcast_to(one, (8, 12)).reshape(copies))

        assert diagnose(client, to, have)["verdict"] != "equal"
    to = "/relative/alibi?num_heads=1&query_len=4&key_len=4"
    for heads in (4, 8):
        have = np.repeat(table(client, to), heads, axis=0)
        assert "nothing in common" in refusal(client, to, have)


@pytest.mark.parametrize("batch", [(8,), (2, 3), (1, 3)])
def test_copies_that_were_left_out_are_told(client: Client, batch: tuple[int, ...]) -> None:
    for to in ("/relative/t5?query_len=1&key_len=12", TABLES[1]):
        one = table(client, to)

        report = diagnose(
            client, to, np.ascontiguousarray(np.broadcast_to(one, (*batch, *one.shape)))
        )

        notes = [f"axis {axis} has {n} equal slices" for axis, n in enumerate(batch) if n > 1]
        assert (report["verdict"], report["wrapper"]) == ("equal", {"notes": notes})
        assert "wrapper" not in diagnose(client, to, one)


def test_slopes_of_more_heads_are_those_of_another_exponent(client: Client) -> None:
    for want, have, exponent in ((8, 32, 2), (8, 16, 4), (16, 64, 2), (4, 128, 0.25)):
        report = diagnose(client, f"{SLOPES}{want}", table(client, f"{SLOPES}{have}")[:want])

        (other,) = report["alternatives"]
        sentence = f"alibi_bias_max is {exponent}; it should be 8."
        assert other["mistakes"][0]["sentence"] == sentence
        url = f"{SLOPES}{want}&alibi_bias_max={exponent}"
        assert np.array_equal(table(client, url), table(client, f"{SLOPES}{have}")[:want])


@pytest.mark.parametrize("slope", [0.70710677, 0.0625])
def test_one_slope_is_that_of_any_number_of_heads(client: Client, slope: float) -> None:
    for heads in (1, 2, 4):
        have = np.array([slope], np.float32)

        assert names(diagnose(client, f"{SLOPES}{heads}", have)) in ([], ["truncated"])


@pytest.mark.parametrize(("start", "step"), [(0, 2), (1, 3), (0, 33)])
def test_place_in_a_large_table_does_not_depend_on_its_period(
    client: Client, start: int, step: int
) -> None:
    to = "/relative/alibi?num_heads=32&query_len=64&key_len=64"
    have = table(client, to).copy()
    have[:, start::step] += 5

    report = diagnose(client, to, have)

    assert report["verdict"] == "none"
    where = f"every {step}{'nd' if step == 2 else 'rd'} query from {start} on"
    where = where if step < 33 else "queries 0 and 33"
    assert report["sentence"] == f"Right but for {where}."


def test_a_mistake_that_leaves_most_numbers_wrong_is_none(client: Client) -> None:
    to = GRID.format("mae", 4, 5)
    larger = table(client, GRID.format("mae", 5, 6)).reshape(5, 6, 32)
    report = diagnose(client, f"{to}&cls_token=true", larger[1:, 1:].reshape(-1, 32))
    assert report["sentence"] == "None of the known mistakes explains this array."

    swapped = table(client, to).reshape(4, 5, 32).swapaxes(0, 1).reshape(20, 32).copy()
    swapped[3] = 7
    assert "explains all numbers but for token 3" in diagnose(client, to, swapped)["sentence"]


def test_the_exponent_of_two_channels_is_not_missing(client: Client) -> None:
    to = f"/rope?head_dim=2&seq_len=16&pack=concat{DYNAMIC}&factor=4&context_length=8192"
    for base in (40000, 160000):
        report = client.post(
            "/diagnose",
            params={"to": to},
            content=npy_bytes(rotary(2, base, rows=16)),
            headers={"Content-Type": "application/x-npy"},
        )
        assert "missing-exponent" not in report.text


def test_one_pair_that_stands_still_is_named_as_one(client: Client) -> None:
    still = rotary(16, 10000, rows=32)
    still[:, 0], still[:, 8] = 1, 0

    report = diagnose(client, "/rope?head_dim=16&seq_len=32&pack=concat", still)

    assert report["sentence"].startswith("Pair 0 stands still: 14 channels turn")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_refusal_names_the_type_of_the_expected_table(client: Client, dtype: str) -> None:
    detail = refusal(client, f"{TABLES[1]}&dtype={dtype}", np.full((3, 5), 0.5, np.float32))

    assert f"expected table {dtype} of shape (8, 6, 6)" in detail


@pytest.mark.parametrize("rows", [300, 600_000])
def test_pairs_of_no_table_have_nothing_in_common_with_packed_pairs(
    client: Client, rows: int
) -> None:
    noise = np.random.default_rng(0).normal(size=(rows, 2)).astype(np.float32)

    detail = refusal(client, "/rope?head_dim=64&seq_len=64&pack=pair", noise)

    assert "nothing in common" in detail


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("/rope?head_dim=16&seq_len=8&pack=concat", "&rope_theta=500000"),
        ("/encoding?seq_len=8&d_model=16", "&layout=concatenated"),
        (GRID.format("mae", 4, 5), "&cls_token=true"),
        (TABLES[1], "&alibi_bias_max=4"),
        (TABLES[3], "&bidirectional=false"),
    ],
)
def test_array_is_the_table_of_its_own_request_alone(url: str, other: str) -> None:
    request, changed = read_url(url).request, read_url(f"{url}{other}").request
    own, another = ({"x": _stored(each)} for each in (url, f"{url}{other}"))

    assert is_table_of(request, own)
    assert is_table_of(changed, another)
    assert not is_table_of(request, another)
    assert not is_table_of(changed, own)


def _stored(url: str) -> StoredTable:
    ((_, each),) = read_url(url).document.arrays.items()
    return StoredTable(each.read(0, size(each)).reshape(each.shape), each.dtype)


@pytest.mark.parametrize("junk", [1, 9])
def test_rows_after_a_table_of_another_shape_are_not_counted_against_it(
    client: Client, junk: int
) -> None:
    grid = "/encoding/grid?convention=mae&height=4&width=5&d_model=32"
    plain = load_npy(client.get(grid.replace("?", ".npy?", 1)))

    sent = np.pad(plain, ((0, junk), (0, 0)), constant_values=0.3)
    report = diagnose(client, f"{grid}&cls_token=true", sent)

    assert "should be 20" not in report["sentence"]
