"""Tables that a URL or a call names."""

import pytest

from service.analysis.array import TableRequest
from service.delivery.endpoints import RESOURCES, Endpoint
from service.delivery.parameters import parse_query
from service.errors import InvalidParameters, NotFound
from service.numerics.tables import size
from service.routes import REPORTS
from service.routes.table_urls import (
    NAMED,
    document_at,
    document_of,
    misnamed_array_hint,
    parse_parameter_url,
    read_url,
    tables,
    unencoded_url_hint,
    url_of,
)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda known: known.path)
def test_a_call_its_url_and_the_url_of_that_are_one_table(resource: object) -> None:
    known = next(each for each in RESOURCES if each is resource)
    call = TableRequest(known.path[1:], parse_query(known.example.encode()))

    of_call, of_url = tables(call), document_of(url_of(call))
    canonical = document_of(read_url(f"http://posref.test{url_of(call)}").canonical)

    for other in (of_url, canonical):
        assert (other.kind, dict(other.parameters)) == (of_call.kind, dict(of_call.parameters))
        for name, table in of_call.arrays.items():
            mine, theirs = table.read(0, size(table)), other.arrays[name].read(0, size(table))
            assert mine.tobytes() == theirs.tobytes()


def test_url_of_formats_numbers_and_booleans_as_query_text() -> None:
    call = TableRequest(
        "rope", {"head_dim": 8, "positions": "0,5,9:20:2", "rope_theta": 5e5, "a": True}
    )

    assert url_of(call) == "/rope?head_dim=8&positions=0,5,9:20:2&rope_theta=500000&a=true"


def test_a_url_without_parameters_ends_with_its_path() -> None:
    assert url_of(TableRequest("rope/apply", {})) == "/rope/apply"


@pytest.mark.parametrize("report", REPORTS, ids=lambda known: known.path)
def test_the_url_of_a_report_names_no_table(report: Endpoint) -> None:
    with pytest.raises(NotFound, match="POSTed"):
        read_url(report.path)


def test_a_convention_leads_to_the_first_table_that_has_it() -> None:
    assert NAMED["bloom"] == "/relative/alibi?convention=bloom"
    assert NAMED["vaswani"] == "/encoding?convention=vaswani"


def test_a_format_and_a_host_are_passed_over() -> None:
    plain = document_of("/rope?head_dim=8&seq_len=4")
    other = document_of("https://example.org/rope.npy?head_dim=8&seq_len=4")

    assert plain.parameters == other.parameters
    assert read_url("/rope.npy?seq_len=4&head_dim=8").canonical == "/rope?head_dim=8&seq_len=4"


def test_an_impossible_call_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="did you mean head_dim"):
        tables(TableRequest("rope", {"head_dm": 8, "seq_len": 4}))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("/rop?head_dim=8", "did you mean /rope?"),
        ("", "/ lists what is here"),
        ("/rope/apply", "made of what is POSTed"),
        ("/rope.np?head_dim=8&seq_len=4", "There is no format np"),
        ("/rope?head_dim=8", "seq_len is required"),
        ("/rope?head_dim=8&seq_len=4&revision=9", "revision must be"),
        ("/rope?head_dim=8&seq_len=4&seq_len=5", "given twice"),
        ("/rope?head_dim=8&seq_len=%zz", "two hexadecimal digits"),
        ("http://[", "to names no table"),
        ("http://posref.test", "there is no path in it"),
        ("?head_dim=8", "there is no path in it"),
        ("/compare?to=/rope", "/compare is made of what is POSTed"),
        ("/identify.npy", "/identify is made of what is POSTed"),
        ("/ro\npe?head_dim=8&seq_len=4", r"'\n' is no character"),
        ("/rope?head_dim=8&seq_len=4\t", r"'\t' is no character"),
        ("/rope\0?head_dim=8&seq_len=4", r"'\x00' is no character"),
        ("/../rope?head_dim=8&seq_len=4", "There is no /"),
        ("//rope?head_dim=8&seq_len=4", "there is no path in it"),
    ],
)
def test_what_is_wrong_with_a_url_is_said_of_the_parameter(url: str, rule: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        document_at("to", url)

    assert rule in caught.value.detail
    assert all(fault.where == "to" for fault in caught.value.faults)


def test_a_url_without_a_table_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(InvalidParameters, match="to names no table"):
        parse_parameter_url("to", "/nothing?at=all")
    with pytest.raises(NotFound):
        read_url("/nothing?at=all")


def test_a_parameter_that_an_ampersand_cut_off_is_explained() -> None:
    assert "%26" in (unencoded_url_hint("to", "/rope.npy?head_dim=8", "seq_len") or "")
    assert unencoded_url_hint("to", "/rope?head_dim=8", "sequence") is None
    assert unencoded_url_hint("to", "/nowhere", "seq_len") is None
    assert unencoded_url_hint("to", None, "seq_len") is None
    assert unencoded_url_hint("to", "http://[", "seq_len") is None


def test_an_array_under_another_name_is_told_its_own() -> None:
    assert misnamed_array_hint([[1.0]], "x") == "an array goes by the name of x in JSON"
    assert misnamed_array_hint("4", "x") is None
