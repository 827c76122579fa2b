"""The dashboard and the alerts use existing metrics and labels."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from service.delivery.telemetry.metrics import FAMILIES, Kind
from tests.client import Client

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "posref.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
SCRAPES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]

# Labels added by Prometheus, and its metrics of each scrape.
ADDED_LABELS = {"job", "instance"}
ADDED_NAMES = {"up": ADDED_LABELS}

_SUFFIXES = {Kind.COUNTER: ("_total",), Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
_NAME = re.compile(r"\b(?:posref|process|python)_\w+|\bup\b")


def labels_by_name() -> dict[str, set[str]]:
    """Return the labels of every metric, by name."""
    known = dict(ADDED_NAMES)
    for name, family in FAMILIES.items():
        for suffix in _SUFFIXES.get(family.kind, ("",)):
            le = {"le"} if suffix == "_bucket" else set()
            known[name + suffix] = {*family.labels, *le, *ADDED_LABELS}
    return known


KNOWN = labels_by_name()


def expressions() -> Iterator[str]:
    for panel in PANELS:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["definition"] for variable in variables() if "definition" in variable)
    yield from (rule["expr"] for rule in RULES)


def variables() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
    return listed


def wrong_in(expression: str) -> list[str]:
    """List unknown metrics and labels of an expression."""
    names = set(_NAME.findall(expression))
    wrong = sorted(names - set(KNOWN))
    labels = set().union(*(KNOWN.get(name, set()) for name in names))
    for selector in re.findall(r"(\w+){([^}]*)}", expression):
        of_number = KNOWN.get(selector[0], set())
        wrong += [
            label for label in re.findall(r"(\w+)\s*[=!]", selector[1]) if label not in of_number
        ]
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        wrong += [label for label in re.split(r",\s*", grouped) if label not in labels]
    return wrong


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_dashboard_and_alerts_use_existing_metrics_and_labels(expression: str) -> None:
    assert _NAME.search(expression)
    assert wrong_in(expression) == []


@pytest.mark.parametrize(
    "expression",
    [
        "sum(posref_answers)",
        "sum(posref_waiting_work_total)",
        "rate(posref_answer_seconds[5m])",
        'posref_answers_total{code="200"}',
        'sum by (lane) (posref_answers_total{job="x"})',
        "sum by (le) (posref_answer_seconds_sum)",
        'posref_refused_total{reason="x",lane="y"} / posref_waiting_work{lane="y"}',
    ],
)
def test_unknown_metrics_and_labels_are_detected(expression: str) -> None:
    assert wrong_in(expression)


def test_known_metrics_are_those_of_a_server(client: Client) -> None:
    client.get("/encoding.npy?seq_len=2&d_model=2")
    shown: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            shown.setdefault(sample.name, set()).update(sample.labels)

    known = {name: labels - ADDED_LABELS for name, labels in KNOWN.items()}
    # These exist once, in a process that serves on a socket.
    missing = set(known) - set(shown) - set(ADDED_NAMES)
    assert missing <= {"posref_connections"}
    assert {name: shown[name] for name in shown if name in known} == {
        name: known[name] for name in shown if name in known
    }


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    used = {name for expression in expressions() for name in _NAME.findall(expression)}

    unused = [
        name
        for name, family in FAMILIES.items()
        if name.startswith("posref_")
        and not used & {name + suffix for suffix in _SUFFIXES.get(family.kind, ("",))}
    ]
    assert not unused


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
    places = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + line)
        for panel in PANELS
        for column in range(panel["gridPos"]["w"])
        for line in range(panel["gridPos"]["h"])
    ]

    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len(set(places)) == len(places)
    assert max(column for column, _ in places) < 24


def test_every_panel_uses_the_selected_data_source() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    (source,) = (each for each in variables() if each["type"] == "datasource")

    assert (source["name"], source["query"]) == ("datasource", "prometheus")
    for panel in PANELS:
        queried = [panel, *panel["targets"]] if panel["type"] != "row" else []
        assert all(each["datasource"] == chosen for each in queried), panel["title"]
        references = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(references)) == len(references)


def test_legends_use_labels_that_survive_aggregation() -> None:
    for panel in PANELS:
        for target in panel.get("targets", ()):
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \((.*?)\)", target["expr"]))))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_alerts_have_unique_names_durations_and_summaries() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 5
    for rule in RULES:
        assert re.fullmatch(r"Posref[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_alerts_select_the_scraped_job() -> None:
    (job,) = SCRAPES["scrape_configs"]

    assert SCRAPES["rule_files"] == ["alerts.yml"]
    assert (job["job_name"], job["metrics_path"]) == ("posref", "/metrics")
    assert all('job="posref"' in rule["expr"] for rule in RULES)
