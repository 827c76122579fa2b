"""URLs of tables are parsed and formatted; other URLs are refused."""

from typing import ClassVar

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.delivery.endpoints import RESOURCES, Endpoint
from service.delivery.parameters import parse_query
from service.errors import InvalidParameters, NotFound
from service.numerics.tables import ParameterValue, size
from service.routes import REPORTS
from service.routes.table_urls import (
    ReportParameters,
    conventions,
    read_url,
    table_in_to,
    table_request,
    tables,
    url_of,
)


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: resource.path)
def test_request_its_url_and_the_canonical_url_have_the_same_table(resource: Endpoint) -> None:
    request = TableRequest(resource.path[1:], parse_query(resource.example.encode()))
    expected, canonical = (
        tables(request),
        url_of(read_url(f"http://posref.test{url_of(request)}").request),
    )

    for other in (read_url(url_of(request)).document, read_url(canonical).document):
        assert (other.kind, dict(other.parameters)) == (expected.kind, dict(expected.parameters))
        for name, table in expected.arrays.items():
            numbers, others = (each.read(0, size(each)) for each in (table, other.arrays[name]))
            assert numbers.tobytes() == np.asarray(others).tobytes()


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        ("/enc%6Fding?seq_len=2&d_model=8", "/encoding?seq_len=2&d_model=8"),
        ("/rope%2Ffrequencies%2Enpy?head_dim=8", "/rope/frequencies.npy?head_dim=8"),
    ],
)
def test_escaped_path_is_read_as_a_request_has_it(escaped: str, plain: str) -> None:
    assert read_url(escaped).request == read_url(plain).request


def test_url_of_formats_numbers_and_booleans_as_query_text() -> None:
    parameters: dict[str, ParameterValue] = {
        "head_dim": 8,
        "positions": "0,5,9:20:2",
        "rope_theta": 5e5,
        "a": True,
    }

    url = url_of(TableRequest("rope", parameters))

    assert url == "/rope?head_dim=8&positions=0,5,9:20:2&rope_theta=500000&a=true"
    assert url_of(TableRequest("rope/apply", {})) == "/rope/apply"


def test_table_request_ignores_host_and_format() -> None:
    request = table_request("https://host/relative/alibi.npy?num_heads=4&query_len=2")

    assert request == TableRequest("relative/alibi", {"num_heads": "4", "query_len": "2"})
    assert url_of(read_url("/rope.npy?seq_len=4&head_dim=8").request) == (
        "/rope?head_dim=8&seq_len=4"
    )


@pytest.mark.parametrize("report", REPORTS.values(), ids=lambda report: report.path)
def test_url_of_a_report_names_no_table(report: Endpoint) -> None:
    with pytest.raises(NotFound, match=r"POSTed|is a report"):
        read_url(report.path)


def test_convention_has_the_path_of_its_first_table() -> None:
    assert conventions()["bloom"] == "/relative/alibi?convention=bloom"
    assert conventions()["vaswani"] == "/encoding?convention=vaswani"


def test_request_with_unknown_parameters_has_no_table() -> None:
    with pytest.raises(InvalidParameters, match="did you mean head_dim"):
        tables(TableRequest("rope", {"head_dm": 8, "seq_len": 4}))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("/rop?head_dim=8", "did you mean /rope?"),
        ("", "There is no table at /, which lists what is here"),
        ("/rope/apply", "made of what is POSTed"),
        ("/catalogue", "/catalogue is a report"),
        ("/rope.np?head_dim=8&seq_len=4", "There is no format np"),
        ("/rope?head_dim=8", "seq_len is required"),
        ("/rope?head_dim=8&seq_len=4&revision=9", "revision must be"),
        ("/rope?head_dim=8&seq_len=4&seq_len=5", "given twice"),
        ("/rope?head_dim=8&seq_len=%zz", "two hexadecimal digits"),
        ("http://[", "to names no table"),
        ("http://posref.test", "There is no table at /, which lists what is here"),
        ("?head_dim=8", "There is no table at /, which lists what is here"),
        ("/", "There is no table at /, which lists what is here"),
        ("/encoding/..", "There is no table at /, which lists what is here"),
        ("/identify.npy", "/identify is made of what is POSTed"),
        ("/ro\npe?head_dim=8&seq_len=4", r"'\n' is no character"),
        ("/rope?head_dim=8&seq_len=4\t", r"'\t' is no character"),
        ("/rope\0?head_dim=8&seq_len=4", r"'\x00' is no character"),
        ("/rope/.?head_dim=8&seq_len=4", "There is no table at /rope/; did you mean /rope?"),
        ("/encoding/..%2frope", "There is no table at /encoding/; did you mean /encoding?"),
        ("../rope", "There is no table at rope; did you mean /rope?"),
        ("//rope?head_dim=8&seq_len=4", "There is no table at /, which"),
    ],
)
def test_errors_of_a_url_point_at_its_parameter(url: str, rule: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        table_in_to(url)

    assert rule in caught.value.detail
    assert all(fault.where == "to" for fault in caught.value.faults)


@pytest.mark.parametrize(
    "path",
    [
        "/encoding/../rope",
        "/encoding/grid/../../rope",
        "/./rope",
        "/../rope",
        "/%2e%2E/x/.%2e/rope",
        "http://posref.test/../encoding/../rope",
    ],
)
def test_dots_of_a_path_are_resolved_as_a_client_does(path: str) -> None:
    url = f"{path}.npy?head_dim=8&seq_len=4"

    assert read_url(url) == read_url("/rope.npy?head_dim=8&seq_len=4")
    assert table_request(url).resource == "rope"


def test_table_of_to_is_not_computed() -> None:
    url, document = table_in_to("/encoding?d_model=4096&seq_len=1000000000")

    assert url_of(url.request) == "/encoding?seq_len=1000000000&d_model=4096"
    assert document.shape == (10**9, 4096)


@pytest.mark.parametrize(
    ("name", "values", "hint"),
    [
        ("seq_len", {"to": "/rope.npy?head_dim=8"}, "%26"),
        ("sequence", {"to": "/rope?head_dim=8"}, None),
        ("seq_len", {"to": "/nowhere"}, None),
        ("seq_len", {}, None),
        ("seq_len", {"to": "http://["}, None),
        ("data", {"data": [[1.0]]}, "an array goes by the name of x in JSON"),
        ("data", {"data": "4"}, None),
    ],
)
def test_unknown_parameter_may_be_an_array_or_a_part_of_a_url(
    name: str, values: dict[str, object], hint: str | None
) -> None:
    class Reported(ReportParameters):
        array_names: ClassVar[str] = "x"

    found = Reported.hint_for_unknown(name, values)

    assert found is None if hint is None else hint in str(found)
