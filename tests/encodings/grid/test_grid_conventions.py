"""Sin-cos tables of grids: every convention is the formula of its library."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.delivery.parameters import parse_query
from service.encodings.grid.grid_conventions import CONVENTIONS, convention_for
from service.encodings.grid.grid_encoding import MAX_TIMESCALE, MIN_TIMESCALE, GridEncoding
from service.numerics.phase import MAX_FREQUENCY
from service.numerics.tables import Document
from tests.client import Client, load_npy
from tests.exact import UNIT
from tests.parity.backend import spell


def described(convention: str, *lengths: int, **given: Any) -> Document:
    axes = dict(zip(("depth", "height", "width")[-len(lengths) :], lengths, strict=True))
    parameters = {"convention": convention, **axes, **given}
    return GridEncoding.model_validate(parameters).document()


@pytest.mark.parametrize(
    ("document", "shape", "axes"),
    [
        (
            described("mae", 2, 3, d_model=8, cls_token=True),
            (7, 8),
            ("token(0 + height*width)", "channel(sin width + cos width + sin height + cos height)"),
        ),
        (
            described("moco-v3", 2, 3, d_model=8),
            (6, 8),
            ("token(width*height)", "channel(sin width + cos width + sin height + cos height)"),
        ),
        (
            described("detr", 2, 3, d_model=8),
            (8, 2, 3),
            ("channel(sin|cos height + sin|cos width)", "height", "width"),
        ),
        (
            described("positional-encodings", 5, 2, 3, d_model=4),
            (5, 2, 3, 4),
            ("depth", "height", "width", "channel(sin|cos depth + sin|cos height)"),
        ),
        (
            described("tensor2tensor", 3, d_model=5),
            (3, 5),
            ("width", "channel(sin width + cos width + 0)"),
        ),
        (
            described("diffusers", 5, 2, 3, d_model=16),
            (5, 6, 16),
            (
                "depth",
                "token(height*width)",
                "channel(sin depth + cos depth + sin width + cos width + sin height + cos height)",
            ),
        ),
        (
            described("timm-fourier", 2, 3, num_bands=2, max_resolution="8"),
            (6, 10),
            (
                "token(height*width)",
                "channel(height + width + sin height|width + cos height|width)",
            ),
        ),
    ],
    ids=lambda value: value.parameters["convention"] if isinstance(value, Document) else "",
)
def test_axes_describe_tokens_and_channels(
    document: Document, shape: tuple[int, ...], axes: tuple[str, ...]
) -> None:
    assert document.shape == shape
    assert document.axes == axes
    assert document.states_axes


def test_canonical_parameters() -> None:
    assert described("detr", 2, 3, d_model=8).parameters == {
        "convention": "detr",
        "height": 2,
        "width": 3,
        "d_model": 8,
        "base": 10000.0,
        "normalize": False,
        "channels_first": True,
    }
    assert "d_model" not in described("timm-fourier", 2, 3).parameters


def test_name_and_axis_count_identify_one_convention() -> None:
    for name, known in CONVENTIONS.items():
        counts = [axes for convention in known for axes in convention.axes]
        assert len(counts) == len(set(counts))
        for axes in range(1, 5):
            assert (convention_for(name, axes) is not None) == (axes in counts)


URL = "/encoding/grid"
Row: TypeAlias = list[Any]


# What libraries have in common, in the notation of their code, without its roundings.


def omega(count: int, base: float = 10000.0) -> Row:
    """1 / base ** (arange(count) / count)."""
    return [1 / mpf(base) ** (mpf(k) / count) for k in range(count)]


def spread_omega(count: int, base: float = 10000.0) -> Row:
    return [1 / mpf(base) ** (mpf(k) / (count - 1)) for k in range(count)]


def sin(place: Any, rates: Row) -> Row:
    return [mpmath.sin(place * rate) for rate in rates]


def cos(place: Any, rates: Row) -> Row:
    return [mpmath.cos(place * rate) for rate in rates]


def both(place: Any, rates: Row) -> Row:
    return sin(place, rates) + cos(place, rates)


def in_turn(place: Any, rates: Row) -> Row:
    return [f(place * rate) for rate in rates for f in (mpmath.sin, mpmath.cos)]


def bands(count: int, resolution: int) -> Row:
    steps = max(count - 1, 1)
    return [mpmath.pi * (1 + (mpf(resolution) / 2 - 1) * k / steps) for k in range(count)]


def end_to_end(i: int, n: int) -> Any:
    return mpf(2 * i) / max(n - 1, 1) - 1


H_W = [(h, w) for h in range(2) for w in range(3)]
T_H_W = [(t, h, w) for t in range(4) for h, w in H_W]
FOUR, FLAT = omega(4), "height=2&width=3&d_model=16"
BANDS = bands(4, 7)


def diffusers(h: int, w: int, base_size: float = 8, scale: float = 1.875) -> Row:
    down, across = (mpf(i) / (mpf(n) / mpf(base_size)) / mpf(scale) for i, n in ((h, 2), (w, 3)))
    return both(across, FOUR) + both(down, FOUR)


def video(t: int, h: int, w: int) -> Row:
    six = omega(6)
    down, across = mpf(h) / 2, mpf(w) / 2
    return both(mpf(t) / mpf(0.3), omega(4)) + both(across, six) + both(down, six)


def detr(h: int, w: int, rates: Row = FOUR) -> Row:
    return in_turn(h + 1, rates) + in_turn(w + 1, rates)


def normalized(h: int, w: int) -> Row:
    unit = 2 * mpmath.pi
    down, across = (i / (n + mpf("1e-6")) * unit for i, n in ((h + 1, 2), (w + 1, 3)))
    return in_turn(down, omega(4, 20)) + in_turn(across, omega(4, 20))


def centred(h: int, w: int) -> Row:
    unit, half = 2 * mpmath.pi, mpf("0.5")
    down, across = ((i + half) / (n + mpf("1e-6")) * unit for i, n in ((h, 2), (w, 3)))
    return in_turn(down, FOUR) + in_turn(across, FOUR)


def timescales(count: int) -> Row:
    return [2 * mpf(250) ** (mpf(-k) / (count - 1)) for k in range(count)]


def perceiver(h: int, w: int) -> Row:
    y, x = end_to_end(h, 2), end_to_end(w, 3)
    other = bands(4, 10)
    return [y, x, *sin(y, BANDS), *sin(x, other), *cos(y, BANDS), *cos(x, other)]


def timm_fourier(h: int, w: int) -> Row:
    y, x = end_to_end(h, 2), end_to_end(w, 3)
    angles = [c * band for band in BANDS for c in (y, x)]
    return [y, x, *map(mpmath.sin, angles), *map(mpmath.cos, angles)]


def of(rows: Callable[..., Row], tokens: list[Any]) -> Callable[[], list[Row]]:
    return lambda: [rows(*token) for token in tokens]


LIBRARIES: dict[str, Callable[[], list[Row]]] = {
    f"convention=mae&{FLAT}": of(lambda h, w: both(w, FOUR) + both(h, FOUR), H_W),
    f"convention=mae&{FLAT}&cls_token=true&base=100": lambda: [
        [0] * 16,
        *(both(w, omega(4, 100)) + both(h, omega(4, 100)) for h, w in H_W),
    ],
    f"convention=transformers&{FLAT}": of(lambda h, w: both(h, FOUR) + both(w, FOUR), H_W),
    f"convention=moco-v3&{FLAT}&cls_token=true": lambda: [
        [0] * 16,
        *(both(w, FOUR) + both(h, FOUR) for w in range(3) for h in range(2)),
    ],
    f"convention=simple-vit&{FLAT}": of(
        lambda h, w: both(w, spread_omega(4)) + both(h, spread_omega(4)), H_W
    ),
    f"convention=timm&{FLAT}&base=500": of(
        lambda h, w: [
            *(sin(h, omega(4, 500)) + sin(w, omega(4, 500))),
            *(cos(h, omega(4, 500)) + cos(w, omega(4, 500))),
        ],
        H_W,
    ),
    f"convention=timm&{FLAT}&interleave_sin_cos=true": of(
        lambda h, w: both(h, FOUR) + both(w, FOUR), H_W
    ),
    f"convention=timm&{FLAT}&reverse_coord=true": lambda: [
        sin(w, FOUR) + sin(h, FOUR) + cos(w, FOUR) + cos(h, FOUR)
        for w in range(3)
        for h in range(2)
    ],
    "convention=timm-fourier&height=2&width=3&num_bands=4&max_resolution=7": of(timm_fourier, H_W),
    f"convention=detr&{FLAT}&channels_first=false": of(detr, H_W),
    f"convention=detr&{FLAT}&channels_first=false&normalize=true&base=20": of(normalized, H_W),
    f"convention=deformable-detr&{FLAT}&channels_first=false": of(centred, H_W),
    f"convention=diffusers&{FLAT}&interpolation_scale=1.875&base_size=8": of(diffusers, H_W),
    f"convention=diffusers&{FLAT}&base_size=12.3": of(
        partial(diffusers, base_size=12.3, scale=1), H_W
    ),
    f"convention=diffusers&{FLAT}&base_size=1e-9": of(
        partial(diffusers, base_size=1e-9, scale=1), H_W
    ),
    f"convention=diffusers&{FLAT}&interpolation_scale=1.875&base_size=8&cls_token=true"
    "&extra_tokens=2": lambda: [[0] * 16] * 2 + [diffusers(*token) for token in H_W],
    "convention=diffusers&depth=4&height=2&width=3&d_model=32&spatial_interpolation_scale=2"
    "&temporal_interpolation_scale=0.3": of(video, T_H_W),
    "convention=positional-encodings&width=3&d_model=5": of(
        lambda w: in_turn(w, omega(3))[:5], [(w,) for w in range(3)]
    ),
    "convention=positional-encodings&height=2&width=3&d_model=10": of(
        lambda h, w: (in_turn(h, omega(3)) + in_turn(w, omega(3)))[:10], H_W
    ),
    "convention=positional-encodings&depth=4&height=2&width=3&d_model=7": of(
        lambda t, h, _w: (in_turn(t, omega(2)) + in_turn(h, omega(2)))[:7], T_H_W
    ),
    "convention=tensor2tensor&height=2&width=3&d_model=14&min_timescale=2&max_timescale=500": of(
        lambda h, w: both(h, timescales(3)) + both(w, timescales(3)) + [0, 0], H_W
    ),
    "convention=tensor2tensor&depth=4&height=2&width=3&d_model=5": of(
        lambda *_token: [0] * 5, T_H_W
    ),
    "convention=perceiver&height=2&width=3&num_bands=4&max_resolution=7,10": of(perceiver, H_W),
    "convention=perceiver&width=3&num_bands=4&max_resolution=7&concat_pos=false"
    "&sine_only=true&d_model=4": of(
        lambda w: sin(end_to_end(w, 3), BANDS), [(w,) for w in range(3)]
    ),
    "convention=perceiver&width=1&num_bands=1&max_resolution=7": lambda: [
        [-1, *both(-1, [mpmath.pi])]
    ],
}


def test_every_convention_has_a_formula() -> None:
    tested = {parse_query(query.encode())["convention"] for query in LIBRARIES}

    assert tested == set(CONVENTIONS)


@pytest.mark.parametrize("query", LIBRARIES)
def test_a_convention_is_the_formula_of_its_library(client: Client, query: str) -> None:
    expected = LIBRARIES[query]()

    found = load_npy(client.get(f"{URL}.npy?{query}&dtype=float64"))

    rows = found.reshape(-1, found.shape[-1])
    assert rows.shape == (len(expected), len(expected[0]))
    for row, places in enumerate(expected):
        for channel, exact in enumerate(places):
            bound = 4 * UNIT if exact else 0
            assert abs(rows[row, channel] - exact) <= bound, (row, channel)


@pytest.mark.parametrize("query", LIBRARIES)
def test_canonical_parameters_request_the_same_table(client: Client, query: str) -> None:
    one = client.get(f"{URL}.json?{query}").json()

    canonical = "&".join(f"{name}={value}" for name, value in spell(one["parameters"]).items())
    again = client.get(f"{URL}.json?{canonical}").json()

    assert again == one


@pytest.mark.parametrize("query", LIBRARIES)
def test_channels_first_is_the_transpose(client: Client, query: str) -> None:
    query = query.replace("&channels_first=false", "")

    last, first = (
        client.get(
            f"{URL}.npy?{query}&channels_first={chosen}&dtype=bfloat16".replace("npy", "bin")
        )
        for chosen in ("false", "true")
    )

    shape = [int(length) for length in last.headers["Array-Shape"].split(",")]
    rows = np.frombuffer(last.content, "<u2").reshape(-1, shape[-1])
    transposed = np.frombuffer(first.content, "<u2").reshape(shape[-1], -1)
    assert (rows == transposed.T).all()
    axes = last.headers["Array-Axes"].split(", ")
    assert first.headers["Array-Axes"].split(", ") == [axes[-1], *axes[:-1]]


def test_a_whole_base_size_is_an_integer_in_any_spelling(client: Client) -> None:
    answers = {
        client.get(f"{URL}.json?convention=diffusers&{FLAT}&base_size={text}").text
        for text in ("9", "9.0", "9e0")
    }

    (one,) = answers
    assert '"base_size":9,' in one
    other = client.get(f"{URL}.json?convention=diffusers&{FLAT}&base_size=9.5").json()
    assert other["parameters"]["base_size"] == 9.5


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("convention=mae&width=2&d_model=8", "2 axes, not 1"),
        ("convention=diffusers&height=2&width=2&depth=2&d_model=16&base_size=8", "of 3 axes"),
        ("convention=diffusers&height=2&width=2&d_model=8&cls_token=true", "together"),
        ("convention=diffusers&height=2&width=2&d_model=8&extra_tokens=1", "together"),
        ("convention=tensor2tensor&height=2&width=2&d_model=7", "divides by zero"),
        ("convention=perceiver&height=2&width=2&max_resolution=2&num_bands=2000", "8002 channels"),
        ("convention=maee&height=2&width=2&d_model=8", "did you mean convention=mae?"),
    ],
)
def test_a_refusal_states_the_rule(client: Client, query: str, rule: str) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    assert rule in answer.json()["detail"]


def test_a_table_of_any_size_is_read_anywhere(client: Client) -> None:
    url = f"{URL}.bin?convention=mae&height={2**20}&width={2**20}&d_model=64&cls_token=true"
    token = 2**20 * 54_321 + 12_345
    first = (token + 1) * 64 * 4

    part = client.get(url, Range=f"bytes={first}-{first + 255}")
    other = f"{URL}.bin?convention=mae&height=54322&width=12346&d_model=64"
    own = (54_321 * 12_346 + 12_345) * 64 * 4
    same = client.get(other, Range=f"bytes={own}-{own + 255}")

    assert (part.status_code, same.status_code) == (206, 206)
    assert part.content == same.content


def test_parameters_of_conventions_have_no_default() -> None:
    for known in CONVENTIONS.values():
        for name in (name for convention in known for name in convention.takes):
            assert GridEncoding.model_fields[name].default is None, name


def test_timescales_stay_in_the_range_of_phases() -> None:
    assert MAX_TIMESCALE**2 / MIN_TIMESCALE <= MAX_FREQUENCY * 1.001
