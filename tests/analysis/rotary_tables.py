"""Rotary tables as somebody would send them, and what is proposed for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.families.series_rules import MeasuredFrequencies
from service.analysis.identification.search import SINE_FAMILIES
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import document_of, tables

Samples = Mapping[str, Sample]


def samples_of(url: str, only: str | None = None) -> Samples:
    """Read the tables that a URL names, or one of them under another name."""
    found = {
        name: Sample.of(StoredTable(table.read(0, size(table)).reshape(table.shape), table.dtype))
        for name, table in document_of(url).arrays.items()
    }
    return {"array": found[only]} if only else found


def asked(url: str, positions: Float64s | None = None, only: str | None = None) -> IdentifyInput:
    """Ask about the tables of a URL."""
    return IdentifyInput(samples_of(url, only), positions=positions)


def proposed(question: IdentifyInput) -> list[Proposal]:
    """Give everything that the rotary families propose."""
    return [proposal for family in SINE_FAMILIES[:4] for proposal in family(question)]


def gives(call: TableRequest, question: IdentifyInput) -> bool:
    """Tell whether a call names the very numbers that were asked about."""
    found = {
        name: Sample.of(StoredTable(table.read(0, size(table)).reshape(table.shape), table.dtype))
        for name, table in tables(call).arrays.items()
    }
    sent = list(question.arrays.values())
    return len(found) == len(sent) and all(
        one.values.shape == other.values.shape and bool((one.values == other.values).all())
        for one, other in zip(found.values(), sent, strict=True)
    )


def rank(question: IdentifyInput) -> int | None:
    """Tell how many proposals come before the one with the very numbers that were asked about."""
    return next(
        (
            place
            for place, proposal in enumerate(proposed(question))
            if gives(proposal.request, question)
        ),
        None,
    )


def measured(url: str, share: float = 1e-7, scale: float | None = 1.0) -> MeasuredFrequencies:
    """Give the frequencies of a URL as they would be measured, each a little off."""
    document = document_of(url)
    omega = document.arrays["inv_freq"].read(0, size(document.arrays["inv_freq"]))
    off = share * omega * np.where(np.arange(len(omega)) % 2, 0.5, -0.5)
    return MeasuredFrequencies(omega + off, np.maximum(share * omega, 1e-12), scale, 1e-7)


def named(found: Any) -> list[dict[str, Any]]:
    """Give the parameters of rules that were found."""
    return [dict(each.parameters) for each in found]
