"""Sinusoid conventions: each the formula of its library at any position, width and parameter."""

from typing import Any
from urllib.parse import urlencode

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.conventions import (
    ALIASES,
    CONVENTIONS,
    ConventionParameters,
)
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.errors import InvalidParameters
from service.grammar import to_query
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import MIN_REAL_POSITION
from service.numerics.tables import Table, size
from tests.client import Client, load_npy
from tests.sinusoids import NEEDED, WIDTHS, check, rates, tables

PLACES = [0, 1, -1, 2, 3, 63, 64, -65, 12345, MAX_POSITION - 2, -MAX_POSITION]
FRACTIONS = [0.5, -0.1, 1e-3, MIN_REAL_POSITION, 17.25, -1e6 / 3, 2.0**40 + 0.5, 4e18]
NAMES = sorted(CONVENTIONS)
ALONG = sorted(set(CONVENTIONS) - {"perceiver"})
OF_ROWS = ["fairseq", "m2m100", "xglm"]


def table_of(name: str, d_model: int, **given: Any) -> Table:
    needed = NEEDED.get(name, {})
    parameters = {"convention": name, "d_model": d_model, "dtype": "float64", **needed, **given}
    return SinusoidalEncoding.model_validate(parameters).table()


def rows_of(name: str, d_model: int, positions: Any, **given: Any) -> NDArray[np.float64]:
    table = table_of(name, d_model, positions=positions, **given)
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


def parameters(name: str, **given: Any) -> ConventionParameters:
    return ConventionParameters.model_validate({"convention": name, **given})


@pytest.mark.parametrize("name", ALONG)
def test_values_are_the_formula_at_integer_positions(name: str) -> None:
    for d_model in [*tables(name), 64]:
        rows = rows_of(name, d_model, PLACES)
        for position, values in zip(PLACES, rows.tolist(), strict=True):
            check(values, name, d_model, position)


@pytest.mark.parametrize("name", sorted(set(ALONG) - set(OF_ROWS)))
def test_values_are_the_formula_at_fractional_positions(name: str) -> None:
    for d_model in [*tables(name), 64]:
        rows = rows_of(name, d_model, FRACTIONS)
        for position, values in zip(FRACTIONS, rows.tolist(), strict=True):
            check(values, name, d_model, position)


REALS = {
    "base": st.one_of(st.floats(1.0, 1e12), st.just(1e300)),
    "min_timescale": st.floats(1e-9, 10.0),
    "max_timescale": st.one_of(st.floats(10.0, 1e9), st.just(1e250)),
    "min_freq": st.one_of(st.floats(1e-9, 1e-2), st.just(1e-250)),
    "max_freq": st.floats(1e-2, 1e9),
    "full_turns": st.booleans(),
    "cos_first": st.booleans(),
    "flip_sin_to_cos": st.booleans(),
    "scale": st.floats(1e-9, 1e4),
    "offset": st.integers(-(2**61), 2**61),
    "padding_idx": st.integers(-3, 3),
}


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, int, dict[str, Any]]:
    name = draw(st.sampled_from(ALONG))
    known = CONVENTIONS[name]
    chosen = [key for key in known.takes if draw(st.booleans())]
    has_base = "base" in known.parameters and not {"min_timescale", "max_timescale"} & {*chosen}
    if has_base and draw(st.booleans()):
        chosen.append("base")
    values: dict[str, Any] = {key: draw(REALS[key]) for key in chosen}
    if known.is_free and draw(st.booleans()):
        values["layout"] = draw(st.sampled_from(["interleaved", "concatenated"]))
    even = st.integers(5, 100).map(lambda half: 2 * half)
    return name, draw(st.one_of(st.sampled_from(tables(name)), even)), values


@pytest.mark.full
@settings(max_examples=200)
@given(requests(), st.one_of(st.integers(-(2**61), 2**61), st.integers(-100, 100)))
def test_parameters_have_the_meaning_of_the_library(
    request: tuple[str, int, dict[str, Any]], position: int
) -> None:
    name, d_model, values = request

    (found,) = rows_of(name, d_model, [position], **values).tolist()

    check(found, name, d_model, position, **values)


@pytest.mark.parametrize(
    ("name", "values", "names"),
    [
        ("vaswani", {}, ["base", "layout"]),
        ("tensor2tensor", {"min_timescale": 1.0}, ["base", "layout"]),
        ("tensor2tensor", {"min_timescale": 2.0}, ["min_timescale", "max_timescale", "layout"]),
        ("m2m100", {}, ["base", "layout", "offset", "padding_idx"]),
        ("mlx", {}, ["min_freq", "max_freq", "full_turns", "layout", "cos_first", "scale"]),
        (
            "perceiver",
            {"max_resolution": 9},
            ["max_resolution", "concat_pos", "sine_only", "layout"],
        ),
    ],
)
def test_canonical_parameters_are_those_of_the_convention_in_order(
    name: str, values: dict[str, Any], names: list[str]
) -> None:
    canonical = parameters(name, **values).sinusoids(9 if name == "perceiver" else 8).canonical

    assert list(canonical) == ["convention", "d_model", *names]


@pytest.mark.parametrize("name", ["tensor2tensor", "tf-models", "whisper"])
def test_max_timescale_is_base_by_another_name(name: str) -> None:
    one, other = (
        parameters(name, **{key: 500.0}).sinusoids(8) for key in ("base", "max_timescale")
    )

    assert one.canonical == other.canonical
    assert one.rule == other.rule


@pytest.mark.parametrize(("name", "of"), [("mlx", 2), ("x-transformers", 1)])
def test_a_default_scale_is_the_float64_nearest_to_the_root(name: str, of: int) -> None:
    for d_model in range(2, 2000, 2):
        expected = float(mpmath.sqrt(mpmath.mpf(of) / d_model))
        assert parameters(name).sinusoids(d_model).canonical["scale"] == expected


def test_aliases_are_other_names_of_conventions() -> None:
    assert set(ALIASES.values()) <= set(CONVENTIONS)
    assert not set(ALIASES) & set(CONVENTIONS)
    assert set(WIDTHS) == set(CHOICES) == set(CONVENTIONS)
    assert len({convention.source for convention in CONVENTIONS.values()}) == len(CONVENTIONS)


@pytest.mark.parametrize("has_coordinates", [True, False])
@pytest.mark.parametrize("is_sine", [True, False])
@pytest.mark.parametrize("resolution", [1, 2, 7, 224, 10**9])
@pytest.mark.parametrize("count", [1, 2, 5, 1001])
def test_rows_of_perceiver_lie_evenly_from_minus_one_to_one(
    count: int, resolution: int, is_sine: bool, has_coordinates: bool
) -> None:
    given = {"max_resolution": resolution, "sine_only": is_sine, "concat_pos": has_coordinates}
    for bands in (1, 2, 3):
        d_model = bands * (2 - is_sine) + has_coordinates
        table = table_of("perceiver", d_model, seq_len=count, **given)

        for index in {0, count // 3, count - 1}:
            place = mpmath.mpf(2 * index) / max(count - 1, 1) - 1
            found = table.read(index * d_model, (index + 1) * d_model).tolist()
            check(found, "perceiver", d_model, place, **given)


def test_perceiver_may_have_2_to_the_53_rows() -> None:
    table = table_of("perceiver", 9, seq_len=2**53)

    first, last = table.read(0, 9), table.read(size(table) - 9, size(table))

    assert [first[0], last[0]] == [-1.0, 1.0]
    assert (first[1:5] == -last[1:5]).all()
    assert (first[5:] == last[5:]).all()


@pytest.mark.parametrize("concat_pos", [True, False])
@pytest.mark.parametrize("sine_only", [True, False])
def test_perceiver_needs_a_whole_number_of_bands(concat_pos: bool, sine_only: bool) -> None:
    given = parameters("perceiver", max_resolution=9, concat_pos=concat_pos, sine_only=sine_only)
    counts = {bands * (2 - sine_only) + concat_pos: bands for bands in range(1, 10)}
    for d_model in range(1, 10):
        if d_model in counts:
            assert given.frequencies(d_model)[0].count == counts[d_model]
        else:
            with pytest.raises(InvalidParameters, match="num_bands"):
                given.frequencies(d_model)


CHOICES: dict[str, list[dict[str, Any]]] = {
    "vaswani": [{"base": 100, "layout": "concatenated"}, {"positions": "0.5,-3,1e-9"}],
    "positional-encodings": [{"base": 1, "positions": "7,5,3,17.25"}],
    "tensor2tensor": [
        {"min_timescale": 2, "max_timescale": 500},
        {"base": 500, "min_timescale": 0.125},
        {"max_timescale": 1e250, "positions": "0.1,-2.75"},
    ],
    "tf-models": [{"min_timescale": 1, "max_timescale": 20}, {"min_timescale": 3e4}],
    "fairseq": [{"padding_idx": 3}, {"offset": 5, "padding_idx": -2}, {"start": -4}],
    "m2m100": [{"padding_idx": 0, "offset": 0, "positions": "3,-2,-2,9"}],
    "xglm": [{"padding_idx": 0, "positions": "3,-2,-2,9"}],
    "ddpm": [{"base": 1e300}, {"positions": "999.5,0.25"}],
    "whisper": [{"max_timescale": 77}, {"base": 77.5}],
    "marian": [{"base": 12.5}, {"positions": f"{2**62},{-(2**62)},0"}],
    "mae": [{"base": 3}, {"positions": "0.5,1.5,2.5"}],
    "diffusers": [{"flip_sin_to_cos": "true"}, {"flip_sin_to_cos": "false", "positions": "1.875"}],
    "x-transformers": [{"scale": 1}, {"scale": 0.3, "positions": "4611686018427387904,0.5"}],
    "transformer-xl": [{"base": 7}, {"positions": "9:-1:-1"}],
    "mlx": [
        {"cos_first": "true", "full_turns": "true"},
        {"min_freq": 1e-250, "max_freq": 1e9, "scale": 10000},
        {"min_freq": 2, "positions": "0.5,1"},
    ],
    "perceiver": [
        {"concat_pos": "true", "sine_only": "true"},
        {"concat_pos": "false", "sine_only": "true", "max_resolution": 1},
        {"batch": "true"},
    ],
}
"""Parameters that each convention has, and positions that go with it."""


def choices(name: str) -> list[dict[str, Any]]:
    needed = NEEDED.get(name, {})
    along = {"seq_len": 5, "convention": name, "d_model": tables(name)[-1], **needed}
    every = [along, *(along | choice for choice in CHOICES[name])]
    for query in every:
        if "positions" in query:
            del query["seq_len"]
    return every


def npy(client: Client, **query: Any) -> NDArray[np.float64]:
    return load_npy(client.get(f"/encoding.npy?{urlencode(query)}"))


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_an_answer_request_the_same_answer(client: Client, name: str) -> None:
    for query in choices(name):
        first = client.get(f"/encoding.json?{urlencode(query)}&dtype=float16")
        assert first.status_code == 200, first.text
        canonical = first.json()["parameters"]
        again = urlencode({key: to_query(value) for key, value in canonical.items()})

        one, other = (
            client.get(f"/encoding.npy?{which}&dtype=float64")
            for which in (urlencode(query), again)
        )
        assert one.content == other.content
        assert one.headers["ETag"] == other.headers["ETag"]


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_an_alias_answers_with_its_convention(client: Client, alias: str, name: str) -> None:
    for d_model in tables(name):
        query = f"d_model={d_model}&positions=0,1,-1,7,900&dtype=float64"
        by_alias, by_name = (
            client.get(f"/encoding.npy?convention={which}&{query}") for which in (alias, name)
        )
        assert by_alias.status_code == 200
        assert by_alias.content == by_name.content
        assert by_alias.headers["ETag"] == by_name.headers["ETag"]

    answer = client.get(f"/encoding?convention={alias}&d_model=8&seq_len=1").json()
    assert answer["parameters"]["convention"] == name


@pytest.mark.parametrize("name", NAMES)
def test_odd_and_small_widths_are_those_of_the_library(client: Client, name: str) -> None:
    needed = NEEDED.get(name, {})
    for d_model, width in enumerate(WIDTHS[name], start=1):
        query = urlencode({"convention": name, "d_model": d_model, "seq_len": 2, **needed})
        answer = client.get(f"/encoding?{query}")

        if width:
            assert answer.json()["shape"] == [2, width], d_model
            continue
        (fault,) = answer.json()["errors"]
        assert answer.status_code == 422
        assert (fault["parameter"], fault["value"]) == ("d_model", str(d_model))
        assert f"convention={name}" in fault["detail"]


@pytest.mark.parametrize("name", NAMES)
def test_frequencies_and_wavelengths_are_the_nearest_float64(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model in [width for width in tables(name) if width > 1]:
        query = {"convention": name, "d_model": d_model} | needed
        answer = client.get(f"/encoding/frequencies?{urlencode(query)}").json()["data"]
        exact = rates(name, d_model, needed)
        assert answer["frequency"] == [float(rate) for rate in exact]
        assert answer["wavelength"] == [float(2 * mpmath.pi / rate) for rate in exact]


@pytest.mark.parametrize("name", ["vaswani", "mlx"])
def test_fractional_positions_may_be_numbers_or_text(client: Client, name: str) -> None:
    positions = [0.5, -3, 17.25, 1e-9, 2.0**60]
    query = {"convention": name, "d_model": 8, "dtype": "float64"}

    posted = client.post("/encoding.npy", json=query | {"positions": positions})

    assert posted.status_code == 200, posted.text
    rows = npy(client, **query, positions=to_query(positions))
    assert posted.content.endswith(rows.tobytes())


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_plus_the_table_of_a_convention(client: Client, name: str) -> None:
    for query in choices(name):
        apply = {key: query[key] for key in query if key not in {"seq_len", "batch", "d_model"}}
        if set(".e") & set(str(apply.get("positions", ""))):
            continue
        table = npy(client, **query | {"dtype": "float64"}).reshape(-1, WIDTHS[name][-1] or 8)
        if table.shape[1] != query["d_model"]:
            continue
        x = np.arange(table.size, dtype=np.float64).reshape(table.shape)

        answer = client.post(f"/encoding/apply?{urlencode(apply)}", json={"x": x.tolist()})

        assert answer.status_code == 200, answer.text
        assert answer.json()["data"] == (x + table).tolist()
        assert answer.json()["parameters"]["convention"] == name


@pytest.mark.parametrize(("name", "width"), [("transformer-xl", 6), ("tf-models", 4)])
def test_embeddings_of_another_width_than_the_table_are_refused(
    client: Client, name: str, width: int
) -> None:
    answer = client.post(f"/encoding/apply?convention={name}", json={"x": [[0.0] * 5]})

    assert answer.status_code == 422
    assert f"convention={name} has {width} channels for d_model=5" in answer.json()["detail"]


FOREIGN = {
    "base": "100",
    "min_timescale": "2",
    "max_timescale": "500",
    "min_freq": "0.001",
    "max_freq": "2",
    "full_turns": "false",
    "max_resolution": "224",
    "concat_pos": "true",
    "sine_only": "false",
    "cos_first": "false",
    "flip_sin_to_cos": "false",
    "scale": "1",
    "offset": "0",
    "padding_idx": "1",
}


@pytest.mark.parametrize("name", [*NAMES, *sorted(ALIASES)])
def test_parameters_that_a_convention_does_not_have_are_refused(client: Client, name: str) -> None:
    of = ALIASES.get(name, name)
    query = {"convention": name, "d_model": tables(of)[-1], "seq_len": 1, **NEEDED.get(of, {})}
    foreign = [parameter for parameter in FOREIGN if parameter not in CONVENTIONS[of].parameters]
    for sent in (foreign[::2], foreign[1::2]):
        given = {parameter: FOREIGN[parameter] for parameter in sent}

        answer = client.get(f"/encoding?{urlencode(query | given)}")

        assert answer.status_code == 422
        assert answer.json()["errors"] == [
            {
                "parameter": parameter,
                "value": value,
                "detail": f"{parameter} does not go with convention={name}",
            }
            for parameter, value in given.items()
        ]


@pytest.mark.parametrize("name", [*NAMES, *sorted(ALIASES)])
def test_only_vaswani_has_two_layouts(client: Client, name: str) -> None:
    of = ALIASES.get(name, name)
    query = {"convention": name, "d_model": tables(of)[-1], "seq_len": 1, **NEEDED.get(of, {})}
    own = CONVENTIONS[of].layout
    (other,) = {"interleaved", "concatenated"} - {own}

    agreed, refused = (
        client.get(f"/encoding?{urlencode(query | {'layout': layout})}") for layout in (own, other)
    )

    assert agreed.status_code == 200
    assert agreed.content == client.get(f"/encoding?{urlencode(query)}").content
    if name == "vaswani":
        assert refused.status_code == 200
        return
    (fault,) = refused.json()["errors"]
    assert (fault["parameter"], fault["value"]) == ("layout", other)
    assert fault["detail"] == f"convention={name} is {own}"


BEYOND = 2**62
REFUSED = [
    ("tensor2tensor&d_model=4&base=9&max_timescale=9", "base", "9", "are the same"),
    (
        "tensor2tensor&d_model=4&min_timescale=1e6&max_timescale=1e-8",
        *("max_timescale", "1e-08", "frequencies must stay below 1e+18"),
    ),
    (
        "tensor2tensor&d_model=4&base=1e280&min_timescale=2",
        *("base", "1e+280", "base must be at most 1e+250 with min_timescale"),
    ),
    ("mlx&d_model=5", "d_model", "5", "convention=mlx requires an even d_model"),
    ("whisper&d_model=2", "d_model", "2", "divides by zero"),
    ("tf-models&d_model=1", "d_model", "1", "has no channels for it"),
    ("perceiver&d_model=5", "max_resolution", None, "max_resolution is required"),
    ("perceiver&d_model=4&max_resolution=9", "d_model", "4", "2·num_bands + 1 channels"),
    (
        "perceiver&d_model=1&max_resolution=9&sine_only=true",
        *("d_model", "1", "num_bands + 1 channels"),
    ),
    (
        "perceiver&d_model=5&max_resolution=9&concat_pos=false",
        *("d_model", "5", "2·num_bands channels"),
    ),
    ("perceiver&d_model=5&max_resolution=9&start=1", "start", "1", "convention="),
    ("perceiver&d_model=5&max_resolution=9&positions=0", "positions", "0", "perceiver"),
    (f"m2m100&d_model=4&offset={BEYOND + 1}", "offset", str(BEYOND + 1), "at most"),
    (f"m2m100&d_model=4&start={BEYOND - 2}", "offset", "2", "beyond 2^62"),
    (f"fairseq&d_model=4&positions={-BEYOND}&offset=-1", "offset", "-1", "2^62"),
    ("fairseq&d_model=4&positions=9e18", "positions", "9e18", "2^62"),
    ("fairseq&d_model=4&positions=0.5,1", "positions", "0.5,1", "looks up rows"),
    ("ddpm&d_model=4&positions=0.5&base=1e251", "base", "1e+251", "need whole positions"),
]


@pytest.mark.parametrize(("query", "parameter", "value", "rule"), REFUSED)
def test_a_refusal_names_the_parameter_the_value_and_the_rule(
    client: Client, query: str, parameter: str, value: str | None, rule: str
) -> None:
    length = "" if "positions" in query else "&seq_len=2"

    answer = client.get(f"/encoding?convention={query}{length}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"], fault["value"]) == (422, parameter, value)
    assert rule in fault["detail"]


def test_positions_written_with_a_point_may_be_integers(client: Client) -> None:
    query = "/encoding?convention=fairseq&d_model=4&positions="

    assert client.get(f"{query}2.0,1e1").content == client.get(f"{query}2,10").content


def test_the_schema_names_every_convention_and_its_source() -> None:
    schema = ConventionParameters.model_json_schema()["properties"]["convention"]

    assert schema["enum"] == [*CONVENTIONS, *ALIASES]
    assert all(known.source in schema["description"] for known in CONVENTIONS.values())
