"""Parameters: strict, and every fault named."""

from typing import Annotated, Literal

import pytest
from pydantic import BeforeValidator, Field

from service import grammar
from service.delivery.parameters import Parameters, nearest, parse_query, read_parameters
from service.errors import MAX_FAULTS, InvalidParameters


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
def test_a_query_is_names_and_values(query: bytes, values: dict[str, str]) -> None:
    assert values == parse_query(query)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (b"seq_len=1&seq_len=2", ("seq_len", "2", "seq_len is given twice")),
        (b"seq_len=1&seq%5Flen=2", ("seq_len", "2", "seq_len is given twice")),
        (b"seq_len=%ff", ("seq_len", "%ff", "seq_len must be UTF-8")),
        (b"seq_len=\xff", ("seq_len", "\\xff", "seq_len must be UTF-8")),
        (b"%ff=1", ("%ff", "%ff", "%ff must be UTF-8")),
        (
            b"seq_len=%zz",
            ("seq_len", "%zz", f"seq_len {ESCAPE}"),
        ),
        (
            b"seq_len=5%",
            ("seq_len", "5%", f"seq_len {ESCAPE}"),
        ),
        (b"=5", ("=", None, "a parameter needs a name before its =")),
        (b"", ("seq_len", None, "seq_len is required")),
        (b"seq_len=0", ("seq_len", "0", "seq_len must be at least 1")),
        (
            b"seq_len=1&dtype=flaot32",
            (
                "dtype",
                "flaot32",
                "dtype must be 'float32', 'float64' or 'bfloat16'; did you mean float32?",
            ),
        ),
        (b"seq_len=1&even=007", ("even", "007", "even must be a multiple of 2")),
        (b"seq_len=1&factor=0", ("factor", "0", "factor must be more than 0.0")),
        (b"seq_len=1&length=2", ("length", "2", f"length {UNKNOWN} did you mean seq_len?")),
        (b"seq_len=11", ("seq_len", "11", "seq_len must be at most 10")),
        (
            b"seq_len=NaN",
            (
                "seq_len",
                "NaN",
                "seq_len must be an integer, digits with at most a minus sign before them",
            ),
        ),
        (
            b"seq_len=1&layout=halv",
            ("layout", "halv", "layout must be 'interleaved' or 'half'; did you mean half?"),
        ),
        (
            b"seq_len=1&layuot=half",
            ("layuot", "half", "layuot is not a parameter here; did you mean layout?"),
        ),
        (
            b"seq_len=1&zzz=1",
            (
                "zzz",
                "1",
                "zzz is not a parameter here; there are dtype, even, factor, layout, seq_len",
            ),
        ),
    ],
)
def test_a_fault_names_parameter_value_rule_and_nearest_spelling(
    query: bytes, fault: tuple[str, str | None, str]
) -> None:
    assert [fault] == faults(query)


def test_every_fault_is_named() -> None:
    assert [where for where, _, _ in faults(b"seq_len=0&layout=0&x=0")] == [
        "x",
        "seq_len",
        "layout",
    ]


def test_long_values_are_shortened() -> None:
    ((_, value, _),) = faults(b"seq_len=" + b"9" * 5000)

    assert value is not None
    assert len(value) < 100


def test_what_is_like_nothing_has_no_nearest() -> None:
    assert nearest("seqlen", ["seq_len", "start"]) == "seq_len"
    assert nearest("zzz", ["seq_len", "start"]) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [("FLOAT32", "float32"), ("fp16", "float16"), ("BF16", "bfloat16"), ("double", "float64")],
)
def test_types_are_known_by_what_they_are_called_elsewhere(said: str, meant: str) -> None:
    assert nearest(said, ["float16", "bfloat16", "float32", "float64"]) == meant


def test_null_is_not_a_way_to_leave_a_parameter_out() -> None:
    with pytest.raises(InvalidParameters, match="layout is null: leave it out"):
        read_parameters(Model, {"seq_len": 1, "layout": None})


def test_more_faults_than_anybody_reads_are_counted() -> None:
    query = "&".join(f"unknown{number}=1" for number in range(500)).encode()

    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, parse_query(query))

    assert len(caught.value.faults) == MAX_FAULTS
    assert caught.value.detail.endswith("and 491 more")


def test_long_names_are_shortened_and_like_nothing() -> None:
    with pytest.raises(InvalidParameters) as caught:
        read_parameters(Model, {"seq_len": 1, "x" * 10**6: 1})

    assert len(caught.value.detail) < 500
    assert len(caught.value.faults[0].where or "") < 100
    assert nearest("seq_len" * 20, ["seq_len"]) is None
