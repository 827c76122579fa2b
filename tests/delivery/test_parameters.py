"""Parameters of a query: parsing, faults, and hints for unknown names and values."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BeforeValidator, Field, create_model

from service import grammar
from service.delivery.parameters import (
    NoParameters,
    most_similar,
    nearest,
    parse_query,
    read_parameters,
)
from service.encodings.family import Parameters, choices
from service.errors import MAX_FAULTS, InvalidParameters
from service.routes.compare import CompareParameters


class Model(Parameters):
    seq_len: Annotated[int, BeforeValidator(grammar.integer)] = Field(ge=1, le=10)
    layout: Literal["interleaved", "half"] = "half"
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    even: Annotated[int, BeforeValidator(grammar.integer)] = Field(default=2, multiple_of=2)
    factor: Annotated[float, BeforeValidator(grammar.real)] = Field(default=1.0, gt=0)


ESCAPE = "has a % that two hexadecimal digits do not follow"
UNKNOWN = "is not a parameter here;"


def faults(query: bytes) -> list[tuple[str | None, str | None, str]]:
    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, parse_query(query))
    return [(fault.where, fault.value, fault.detail) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (b"", {}),
        (b"a=1&b=2", {"a": "1", "b": "2"}),
        (b"a=%2Bx+y%C3%A4", {"a": "+x yä"}),
        (b"a", {"a": ""}),
        (b"a=b=c", {"a": "b=c"}),
        (b"&a=1&&b=2&", {"a": "1", "b": "2"}),
    ],
)
def test_query_is_decoded(query: bytes, values: dict[str, str]) -> None:
    assert parse_query(query) == values


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (b"seq_len=1&seq_len=2", ("seq_len", "2", "seq_len is given twice")),
        (b"seq_len=1&seq%5Flen=2", ("seq_len", "2", "seq_len is given twice")),
        (b"seq_len=%ff", ("seq_len", "%ff", "seq_len must be UTF-8")),
        (b"seq_len=\xff", ("seq_len", "\\xff", "seq_len must be UTF-8")),
        (b"%ff=1", ("%ff", "%ff", "%ff must be UTF-8")),
        (b"seq_len=%zz", ("seq_len", "%zz", f"seq_len {ESCAPE}")),
        (b"seq_len=5%", ("seq_len", "5%", f"seq_len {ESCAPE}")),
        (b"=5", ("=", None, "a parameter needs a name before its =")),
        (b"", ("seq_len", None, "seq_len is required")),
        (b"seq_len=0", ("seq_len", "0", "seq_len must be at least 1")),
        (
            b"seq_len=1&dtype=flaot32",
            (
                "dtype",
                "flaot32",
                "did you mean dtype=float32? dtype must be 'float32', 'float64' or 'bfloat16'",
            ),
        ),
        (b"seq_len=1&even=007", ("even", "007", "even must be a multiple of 2")),
        (b"seq_len=1&factor=0", ("factor", "0", "factor must be more than 0.0")),
        (b"seq_len=1&length=2", ("length", "2", f"length {UNKNOWN} did you mean seq_len?")),
        (b"seq_len=11", ("seq_len", "11", "seq_len must be at most 10")),
        (
            b"seq_len=NaN",
            ("seq_len", "NaN", "seq_len must be an integer: digits, such as 4 or -4"),
        ),
        (
            b"seq_len=1&layout=halv",
            ("layout", "halv", "did you mean layout=half? layout must be 'interleaved' or 'half'"),
        ),
        (
            b"seq_len=1&zzz=1",
            ("zzz", "1", f"zzz {UNKNOWN} there are dtype, even, factor, layout, seq_len"),
        ),
    ],
)
def test_fault_has_parameter_value_and_rule(
    query: bytes, fault: tuple[str, str | None, str]
) -> None:
    assert faults(query) == [fault]


def test_all_faults_are_reported_and_unknown_names_first() -> None:
    assert [where for where, _, _ in faults(b"seq_len=0&layout=0&x=0")] == [
        "x",
        "seq_len",
        "layout",
    ]


def test_null_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="layout is null: leave it out"):
        read_parameters(Model, {"seq_len": 1, "layout": None})


def test_faults_past_a_limit_are_counted() -> None:
    query = "&".join(f"unknown{number}=1" for number in range(500)).encode()

    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, parse_query(query))

    assert len(caught.value.faults) == MAX_FAULTS
    assert caught.value.detail.endswith("and 491 more")


def test_faults_of_other_kinds_are_counted_beside_unknown_names() -> None:
    values = {"seq_len": 0, "layout": "x", **{f"unknown{number}": 1 for number in range(5000)}}

    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, values)

    assert [fault.where for fault in caught.value.faults] == [
        f"unknown{number}" for number in range(MAX_FAULTS)
    ]
    assert caught.value.detail.endswith(f"and {5002 - MAX_FAULTS} more")


def test_hints_are_sought_for_the_named_faults_only() -> None:
    sought: list[str] = []

    class Hinting(Model):
        @classmethod
        def hint_for_unknown(cls, name: str, values: Mapping[str, Any]) -> str | None:
            sought.append(name)
            return f"one of {len(values)}"

    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Hinting, {f"unknown{number}": 1 for number in range(5000)})

    assert len(sought) == MAX_FAULTS
    assert caught.value.faults[0].detail.endswith("one of 5000")


def test_query_of_thousands_of_parameters_is_refused_before_they_are_read() -> None:
    query = b"&".join(b"%%%d" % number for number in range(5000))

    with pytest.raises(InvalidParameters, match="has 5000 parameters, and at most 1000 are read"):
        parse_query(query)

    assert parse_query(b"&" * 5000) == {}


def test_nulls_past_a_limit_are_counted() -> None:
    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, {f"unknown{number}": None for number in range(5000)})

    assert len(caught.value.faults) == MAX_FAULTS
    assert caught.value.detail.endswith(f"and {5000 - MAX_FAULTS} more")


def test_long_names_and_values_are_shortened() -> None:
    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, {"seq_len": "9" * 5000, "x" * 10**6: 1})

    assert len(caught.value.detail) < 500
    for fault in caught.value.faults:
        assert len(fault.where or "") < 100
        assert len(fault.value or "") < 100


class Named(Parameters):
    convention: Literal["mae", "detr"]
    optional: Literal["mae"] | None = None


class Related(Model):
    related: ClassVar = {"/named": Named}


def details_of(model: type[Parameters], **values: object) -> list[str]:
    with pytest.raises(InvalidParameters) as caught:
        read_parameters(model, values)
    return [fault.detail for fault in caught.value.faults]


def test_missing_choice_is_reported_with_the_choices() -> None:
    assert details_of(Named) == ["convention is required: 'mae', 'detr'"]
    assert choices(Named, "convention") == ("mae", "detr")
    assert choices(Named, "optional") == choices(Named, "zzz") == choices(Model, "even") == ()


def test_unknown_name_may_be_a_parameter_of_a_related_path() -> None:
    assert details_of(Related, seq_len=1, convention="mae") == [
        "convention is not a parameter here; convention is a parameter of /named"
    ]


def test_similar_names_come_before_related_paths() -> None:
    class Near(Named):
        seq_lens: int = 0

    class Here(Model):
        related: ClassVar = {"/near": Near}

    assert details_of(Here, seq_len=1, seq_lens=1) == [
        "seq_lens is not a parameter here; did you mean seq_len?"
    ]


def test_unknown_value_may_be_one_of_a_related_path() -> None:
    class Here(Parameters):
        related: ClassVar = {"/named": Named}
        convention: Literal["mae"]

    assert details_of(Here, convention="detr") == [
        "convention must be 'mae'; detr is one of /named"
    ]
    assert details_of(Here, convention="zzzz") == ["convention must be 'mae'"]
    assert details_of(Here, convention=["x"]) == ["convention must be 'mae'"]


def test_most_similar_of_many_names_are_listed() -> None:
    fields = {f"name_{number}": (int, 0) for number in range(20)}
    many = create_model("Many", __base__=Parameters, **fields)  # type: ignore[call-overload]

    (detail,) = details_of(many, nmb=1)

    assert detail.startswith("nmb is not a parameter here; there are 20, among them name_")
    assert detail.count("name_") == 5


def test_unknown_name_where_no_parameters_exist() -> None:
    assert details_of(NoParameters, x=1) == ["x is not a parameter here; there are none"]


def test_unknown_name_where_one_parameter_exists() -> None:
    class One(Parameters):
        to: str | None = None

    assert details_of(One, zz=1) == ["zz is not a parameter here; there is only to"]


def test_a_name_that_is_half_another_one_is_not_taken_for_it() -> None:
    assert nearest("atol", ["to"]) is None
    assert nearest("too", ["to"]) == "to"


def test_a_value_that_must_be_a_string_says_so() -> None:
    assert details_of(CompareParameters, to=5) == ["to must be a string"]


def test_nearest_name_is_similar() -> None:
    assert nearest("seqlen", ["seq_len", "start"]) == "seq_len"
    assert nearest("pos", ["positions", "xpos"]) == "positions"
    assert nearest("zzz", ["seq_len", "start"]) is None
    assert nearest("seq_len" * 20, ["seq_len"]) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("FLOAT32", "float32"), ("fp16", "float16"), ("BF16", "bfloat16"), ("double", "float64")),
        *(
            ("f4", "float32"),
            ("i8", "int64"),
            ("<f8", "float64"),
            ("|f2", "float16"),
            (">f4", None),
            ("half", "float16"),
        ),
    ],
)
def test_nearest_type_may_be_a_synonym(name: str, expected: str | None) -> None:
    assert nearest(name, ["float16", "bfloat16", "float32", "float64", "int8", "int64"]) == expected


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("unidirectional", "bidirectional"),
        ("is_decoder", "bidirectional"),
        ("causal", "bidirectional"),
        ("non_causal", "causal"),
        ("noncausal", "causal"),
        ("not_causal", "causal"),
        ("unmasked", "masked"),
        ("invalid_mask", "valid_mask"),
        ("non_padding_mask", "padding_mask"),
    ],
)
def test_nearest_name_is_never_a_negation(name: str, known: str) -> None:
    assert nearest(name, [known]) is None
    assert nearest(known[:-1], [known]) == known


def test_most_similar_names_come_first() -> None:
    known = ["start", "seq_len", "query_len", "key_len"]

    assert most_similar("seqlen", known, 2) == ["seq_len", "key_len"]
    assert len(most_similar("x" * 10_000, known, 3)) <= 3
    assert most_similar("zzz", known[:2], 5) != []
