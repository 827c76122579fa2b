"""Calls: tables named the way that they are asked for."""

from service.analysis.call import Call


def test_a_call_with_other_parameters_keeps_those_it_had() -> None:
    call = Call("rope", {"head_dim": 8, "seq_len": 4})

    assert call.having(seq_len=2, pack="flat") == Call(
        "rope", {"head_dim": 8, "seq_len": 2, "pack": "flat"}
    )
    assert call.parameters == {"head_dim": 8, "seq_len": 4}
