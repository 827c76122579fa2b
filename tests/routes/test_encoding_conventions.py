"""Conventions through HTTP: every one, by every name, with what it takes and what it refuses."""

import io
from typing import Any
from urllib.parse import urlencode

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from service.grammar import spelled
from service.routes.encoding_conventions import ConventionParameters, FrequencyParameters
from service.tables.conventions import ALIASES, CONVENTIONS
from service.tables.dtypes import REAL_DTYPES, round_into
from tests.client import Client
from tests.sinusoids import NEEDED, WIDTHS, check, rates, row, tables

NAMES = sorted(CONVENTIONS)

CHOICES: dict[str, list[dict[str, Any]]] = {
    "vaswani": [{"base": 100}, {"layout": "concatenated"}, {"positions": "0.5,-3,1e-9"}],
    "positional-encodings": [{"base": 1}, {"positions": "7,5,3,17.25"}],
    "tensor2tensor": [
        {"min_timescale": 2, "max_timescale": 500},
        {"base": 500, "min_timescale": 0.125},
        {"max_timescale": 1e250},
        {"min_timescale": 3, "positions": "0.1,-2.75"},
    ],
    "tf-models": [{"min_timescale": 1, "max_timescale": 20}, {"min_timescale": 3e4}],
    "fairseq": [{"padding_idx": 3}, {"offset": 5, "padding_idx": -2}, {"start": -4}],
    "m2m100": [{"padding_idx": 0, "positions": "3,-2,-2,9"}, {"offset": 0}],
    "xglm": [{"padding_idx": 0, "positions": "3,-2,-2,9"}, {"offset": 0}],
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
        {"scale": 1, "positions": "0.5,1"},
        {"min_freq": 2},
    ],
    "perceiver": [
        {"concat_pos": "true", "sine_only": "true"},
        {"concat_pos": "false", "sine_only": "true", "max_resolution": 1},
        {"batch": "true"},
    ],
}
"""Parameters that each convention has, and positions that go with it."""


def choices(name: str) -> list[dict[str, Any]]:
    along = {"seq_len": 5, "convention": name, "d_model": tables(name)[-1]} | dict(
        NEEDED.get(name, {})
    )
    every = [along, *(along | choice for choice in CHOICES[name])]
    for query in every:
        if "positions" in query:
            del query["seq_len"]
    return every


def npy(client: Client, **query: Any) -> NDArray[np.float64]:
    answer = client.get(f"/encoding.npy?{urlencode(query)}")
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_an_answer_ask_for_the_same_answer(client: Client, name: str) -> None:
    for query in choices(name):
        for dtype in ("float64", "float16"):
            first = client.get(f"/encoding.json?{urlencode(query)}&dtype={dtype}")
            assert first.status_code == 200, first.text
            canonical = first.json()["parameters"]
            again = urlencode({key: spelled(value) for key, value in canonical.items()})

            assert client.get(f"/encoding.json?{again}&dtype={dtype}").content == first.content
            posted = client.post("/encoding.json", json=canonical | {"dtype": dtype})
            assert posted.content == first.content
            binary = [
                client.get(f"/encoding.npy?{asked}&dtype={dtype}")
                for asked in (urlencode(query), again)
            ]
            assert binary[0].content == binary[1].content
            assert binary[0].headers["ETag"] == binary[1].headers["ETag"]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_frequencies_ask_for_the_same_frequencies(client: Client, name: str) -> None:
    known = FrequencyParameters.model_fields
    for query in choices(name):
        asked = {key: value for key, value in query.items() if key in {*known, "d_model"}}
        first = client.get(f"/encoding/frequencies?{urlencode(asked)}")
        assert first.status_code == 200, first.text
        canonical = first.json()["parameters"]
        again = urlencode({key: spelled(value) for key, value in canonical.items()})

        assert client.get(f"/encoding/frequencies?{again}").content == first.content


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_an_alias_is_its_convention_by_another_name(client: Client, alias: str, name: str) -> None:
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


def test_the_paper_is_what_comes_unless_another_is_asked_for(client: Client) -> None:
    query = "/encoding?seq_len=3&d_model=5"

    assert client.get(query).content == client.get(f"{query}&convention=vaswani").content


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_librarys_formula(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model in tables(name):
        rows = npy(client, convention=name, d_model=d_model, seq_len=7, dtype="float64", **needed)
        for index, found in enumerate(rows.tolist()):
            place = mpmath.mpf(index) / 3 - 1 if name == "perceiver" else index
            check(found, name, d_model, place, **needed)


@pytest.mark.parametrize("name", NAMES)
def test_the_width_of_odd_and_tiny_d_model_is_the_librarys(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model, width in enumerate(WIDTHS[name], start=1):
        query = urlencode({"convention": name, "d_model": d_model, "seq_len": 2} | needed)
        answer = client.get(f"/encoding?{query}")

        if width:
            assert answer.json()["shape"] == [2, width], d_model
            continue
        (fault,) = answer.json()["errors"]
        assert answer.status_code == 422
        assert (fault["parameter"], fault["value"]) == ("d_model", str(d_model))
        assert f"convention={name}" in fault["detail"]


@pytest.mark.parametrize("name", NAMES)
def test_frequencies_times_positions_are_the_angles_of_the_table(client: Client, name: str) -> None:
    needed = dict(NEEDED.get(name, {}))
    for d_model in [width for width in tables(name) if width > 1]:
        query = {"convention": name, "d_model": d_model} | needed
        answer = client.get(f"/encoding/frequencies?{urlencode(query)}").json()["data"]
        exact = rates(name, d_model, needed)
        assert answer["frequency"] == [float(rate) for rate in exact]
        assert answer["wavelength"] == [float(2 * mpmath.pi / rate) for rate in exact]

        rows = npy(client, **query, seq_len=3, dtype="float64")
        place = 1 if name == "perceiver" else 2
        turned = place + (2 if name in {"m2m100", "xglm"} else 0)
        angles = [angle for angle, _ in row(name, d_model, place, needed) if angle is not None]
        assert {float(angle / turned) for angle in angles} <= set(answer["frequency"])
        check(rows[2].tolist(), name, d_model, place, **needed)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"fairseq", "m2m100", "xglm", "perceiver"}))
def test_fractions_are_posted_as_numbers_and_sent_as_text(client: Client, name: str) -> None:
    positions = [0.5, -3, 17.25, 1e-9, 2.0**60]
    query = {"convention": name, "d_model": 8, "dtype": "float64"}

    posted = client.post("/encoding.npy", json=query | {"positions": positions})

    rows = npy(client, **query, positions=spelled(positions))
    assert posted.status_code == 200, posted.text
    assert posted.content.endswith(rows.tobytes())
    for position, found in zip(positions, rows.tolist(), strict=True):
        check(found, name, 8, position)


@pytest.mark.parametrize("name", NAMES)
def test_every_convention_is_added_to_embeddings(client: Client, name: str) -> None:
    for query in choices(name):
        asked = {key: value for key, value in query.items() if key not in {"seq_len", "batch"}}
        del asked["d_model"]
        if "." in str(asked.get("positions", "")) or "e" in str(asked.get("positions", "")):
            continue
        table = npy(client, **query | {"dtype": "float64"}).reshape(-1, WIDTHS[name][-1] or 8)
        if table.shape[1] != query["d_model"]:
            continue
        x = np.arange(table.size, dtype=np.float64).reshape(table.shape)

        answer = client.post(f"/encoding/apply?{urlencode(asked)}", json={"x": x.tolist()})

        assert answer.status_code == 200, answer.text
        assert answer.json()["data"] == (x + table).tolist()
        assert answer.json()["parameters"]["convention"] == name


@pytest.mark.parametrize(("name", "width"), [("transformer-xl", 6), ("tf-models", 4)])
def test_embeddings_of_an_odd_width_do_not_fit_a_table_of_another(
    client: Client, name: str, width: int
) -> None:
    answer = client.post(f"/encoding/apply?convention={name}", json={"x": [[0.0] * 5]})

    assert answer.status_code == 422
    assert f"convention={name} has {width} channels for the 5 there are" in answer.json()["detail"]


OWN = {
    name: {*convention.takes, "layout", "convention"}
    | ({"base"} if name not in {"mlx", "perceiver"} else set())
    for name, convention in CONVENTIONS.items()
}
FOREIGN = {
    "base": "100",
    "min_timescale": "2",
    "max_timescale": "500",
    "min_freq": "0.001",
    "max_freq": "2",
    "full_turns": "false",
    "cos_first": "false",
    "flip_sin_to_cos": "false",
    "scale": "1",
    "offset": "0",
    "padding_idx": "1",
    "max_resolution": "224",
    "concat_pos": "true",
    "sine_only": "false",
}


def test_every_parameter_of_conventions_is_refused_somewhere() -> None:
    assert {*FOREIGN, "layout", "convention"} == set(ConventionParameters.model_fields)


@pytest.mark.parametrize("name", [*NAMES, *sorted(ALIASES)])
def test_what_a_convention_does_not_have_is_refused(client: Client, name: str) -> None:
    of = ALIASES.get(name, name)
    query = {"convention": name, "d_model": tables(of)[-1], "seq_len": 1} | dict(NEEDED.get(of, {}))
    for parameter in set(FOREIGN) - OWN[of]:
        answer = client.get(f"/encoding?{urlencode(query | {parameter: FOREIGN[parameter]})}")

        assert answer.status_code == 422
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["errors"] == [
            {
                "parameter": parameter,
                "value": FOREIGN[parameter],
                "detail": f"{parameter} does not go with convention={name}",
            }
        ]


@pytest.mark.parametrize("name", [*NAMES, *sorted(ALIASES)])
def test_a_layout_is_free_only_in_the_paper(client: Client, name: str) -> None:
    of = ALIASES.get(name, name)
    query = {"convention": name, "d_model": tables(of)[-1], "seq_len": 1} | dict(NEEDED.get(of, {}))
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


REFUSED = [
    ("convention=tensor2tensor&d_model=4&base=9&max_timescale=9", "base", "9", "are the same"),
    (
        "convention=tensor2tensor&d_model=4&min_timescale=1e6&max_timescale=1e-8",
        *("max_timescale", "1e-08", "frequencies must stay below 1e+18"),
    ),
    (
        "convention=tensor2tensor&d_model=4&base=1e280&min_timescale=2",
        *("base", "1e+280", "base must be at most 1e+250 beside min_timescale"),
    ),
    ("convention=mlx&d_model=5", "d_model", "5", "convention=mlx has an even d_model only"),
    ("convention=whisper&d_model=2", "d_model", "2", "divides by zero"),
    ("convention=xglm&d_model=3", "d_model", "3", "convention=xglm divides by zero"),
    ("convention=tf-models&d_model=1", "d_model", "1", "has no channels for it"),
    ("convention=perceiver&d_model=5", "max_resolution", None, "max_resolution is required"),
    ("convention=perceiver&d_model=4&max_resolution=9", "d_model", "4", "2·num_bands + 1 channels"),
    (
        "convention=perceiver&d_model=1&max_resolution=9&sine_only=true",
        *("d_model", "1", "num_bands + 1 channels"),
    ),
    (
        "convention=perceiver&d_model=5&max_resolution=9&concat_pos=false",
        *("d_model", "5", "2·num_bands channels"),
    ),
    ("convention=perceiver&d_model=5&max_resolution=0", "max_resolution", "0", "at least 1"),
    ("convention=perceiver&d_model=5&max_resolution=9&start=1", "start", "1", "convention="),
    ("convention=m2m100&d_model=4&offset=4611686018427387905", "offset", None, "at most"),
    ("convention=fairseq&d_model=4&padding_idx=1.5", "padding_idx", "1.5", "an integer"),
    ("convention=mlx&d_model=4&scale=0", "scale", "0", "at least"),
    ("convention=mlx&d_model=4&scale=-1", "scale", "-1", "at least"),
    ("convention=x-transformers&d_model=4&scale=20000", "scale", "20000", "at most"),
    ("convention=mlx&d_model=4&full_turns=1", "full_turns", "1", "true or false"),
    ("convention=transformerxl&d_model=4", "convention", "transformerxl", "mean transformer-xl?"),
    ("convention=Whisper&d_model=4", "convention", "Whisper", "did you mean whisper?"),
    ("convention=vaswani&d_model=4&base=0.5", "base", "0.5", "at least 1"),
    (
        "convention=diffusers&d_model=4&flip_sin_cos=true",
        "flip_sin_cos",
        "true",
        "did you mean flip_sin_to_cos?",
    ),
]


@pytest.mark.parametrize(("query", "parameter", "value", "rule"), REFUSED)
def test_a_refusal_names_the_parameter_the_value_and_the_rule(
    client: Client, query: str, parameter: str, value: str | None, rule: str
) -> None:
    answer = client.get(f"/encoding?{query}&seq_len=2")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, parameter)
    assert value in {None, fault["value"]}
    assert rule in fault["detail"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_everything_that_does_not_go_with_a_convention_is_named_at_once(client: Client) -> None:
    query = "convention=whisper&d_model=4&seq_len=2&scale=2&offset=1&layout=interleaved"

    faults = client.get(f"/encoding?{query}").json()["errors"]

    assert {fault["parameter"] for fault in faults} == {"scale", "offset", "layout"}


OUT = [
    ("convention=fairseq&d_model=4&positions=0.5,1", "positions", "looks rows up"),
    ("convention=xglm&d_model=4&positions=1e-3", "positions", "convention=xglm looks rows up"),
    ("convention=m2m100&d_model=4&start=4611686018427387903&seq_len=2", "offset", "beyond 2^62"),
    ("convention=fairseq&d_model=4&positions=-4611686018427387904&offset=-1", "offset", "2^62"),
    ("convention=ddpm&d_model=4&positions=0.5&base=1e251", "base", "whole positions only"),
    ("convention=perceiver&d_model=5&max_resolution=9&positions=0", "positions", "perceiver"),
]


@pytest.mark.parametrize(("query", "parameter", "rule"), OUT)
def test_positions_that_a_convention_cannot_turn_are_refused(
    client: Client, query: str, parameter: str, rule: str
) -> None:
    answer = client.get(f"/encoding?{query}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, parameter)
    assert rule in fault["detail"]


@pytest.mark.parametrize("offset", ["", "&offset=-4611686018427387904"])
def test_whole_numbers_spelled_as_reals_are_as_far_as_integers(client: Client, offset: str) -> None:
    answer = client.get(f"/encoding?convention=fairseq&d_model=4&positions=9e18{offset}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, "positions")


@pytest.mark.parametrize("name", ["fairseq", "perceiver"])
def test_a_refusal_does_not_send_a_long_list_back(client: Client, name: str) -> None:
    query = {"convention": name, "d_model": 5} | dict(NEEDED.get(name, {}))
    positions = [index + 0.5 for index in range(10_000)]

    answer = client.post("/encoding", json=query | {"positions": positions})

    assert answer.json()["errors"][0]["parameter"] == "positions"
    assert len(answer.content) < 2000


def test_whole_numbers_spelled_as_reals_may_be_looked_up(client: Client) -> None:
    query = "/encoding?convention=fairseq&d_model=4&positions="

    assert client.get(f"{query}2.0,1e1").content == client.get(f"{query}2,10").content


@pytest.mark.parametrize("name", ["tensor2tensor", "fairseq", "m2m100", "xglm", "ddpm"])
def test_one_channel_of_zeros_has_no_frequency(client: Client, name: str) -> None:
    answer = client.get(f"/encoding/frequencies?convention={name}&d_model=1")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "d_model"
    assert (npy(client, convention=name, d_model=1, seq_len=3) == 0).all()


@pytest.mark.parametrize("parameter", ["layout", "scale", "offset", "padding_idx", "cos_first"])
def test_frequencies_take_nothing_that_does_not_matter_to_them(
    client: Client, parameter: str
) -> None:
    answer = client.get(f"/encoding/frequencies?d_model=4&{parameter}={FOREIGN.get(parameter)}")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"]) == (422, parameter)


def test_the_documentation_names_every_convention_and_its_source() -> None:
    schema = ConventionParameters.model_json_schema()["properties"]["convention"]

    assert schema["enum"] == [*CONVENTIONS, *ALIASES]
    for convention in CONVENTIONS.values():
        assert convention.source in schema["description"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_narrow_types_hold_the_float64_value_rounded_once(
    client: Client, name: str, dtype: str
) -> None:
    for query in choices(name):
        wide = npy(client, **query | {"dtype": "float64"})
        narrow = client.get(f"/encoding.bin?{urlencode(query | {'dtype': dtype})}").content
        expected = np.empty(wide.size, dtype=REAL_DTYPES[dtype].storage)
        round_into(wide.reshape(-1), expected, REAL_DTYPES[dtype])
        assert narrow == expected.tobytes()
