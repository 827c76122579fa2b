import pytest

from service.analysis.question import Question
from service.analysis.sinusoids.relative import propose_relative
from service.routes.asked import url_of
from service.tables.document import ParameterValue
from tests.analysis.sinusoid_tables import sample_of


@pytest.mark.parametrize(
    ("resource", "parameters"),
    [
        ("transformer-xl", {"d_model": 16, "key_len": 12}),
        ("transformer-xl", {"d_model": 10, "key_len": 300, "clamp_len": 200}),
        ("transformer-xl", {"d_model": 15, "key_len": 40, "base": 100.0}),
        ("xlnet", {"d_model": 16, "key_len": 8, "query_len": 5}),
        ("xlnet", {"d_model": 12, "key_len": 7, "attn_type": "uni"}),
        ("xlnet", {"d_model": 8, "key_len": 9, "query_len": 3, "clamp_len": 2}),
        ("xlnet", {"d_model": 8, "key_len": 9, "query_len": 3, "bi_data": True}),
        ("conformer", {"d_model": 16, "seq_len": 7}),
        ("conformer", {"d_model": 64, "seq_len": 200, "dtype": "float64"}),
    ],
)
def test_rows_that_descend_are_named_by_where_they_end(
    resource: str, parameters: dict[str, ParameterValue]
) -> None:
    sample = sample_of(f"relative/{resource}", **parameters)

    found = list(propose_relative(Question({"array": sample})))

    calls = [(proposal.call.resource, dict(proposal.call.parameters)) for proposal in found]
    assert (f"relative/{resource}", parameters) in calls
    assert "rows descend" in " ".join(found[0].support)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_rows_that_ascend_are_no_distances(layout: str) -> None:
    sample = sample_of("encoding", seq_len=20, d_model=16, layout=layout)

    found = propose_relative(Question({"array": sample}))

    assert [url_of(proposal.call) for proposal in found] == []
