"""examples/alerts.yml and docs/operating.md name metrics that a scrape has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.model import Model
from support.metrics import Scrape, scrape
from support.waiting import wait_until

TOP = Path(__file__).parents[2]
# The file has one form of rule, so that no parser of YAML is needed here.
RULE = re.compile(
    r"^      - alert: (?P<alert>\w+)\n"
    r"        expr: (?P<expr>.+?)\n"
    r"(?:        for: \d+[mh]\n)?"
    r"        labels:\n          severity: (?:page|ticket)\n"
    r"        annotations:\n          summary: \"[^\n]+\"\n          description: \"[^\n]+\"\n",
    re.MULTILINE | re.DOTALL,
)
FILE = (TOP / "examples" / "alerts.yml").read_text("utf-8")
RULES = [(found["alert"], found["expr"].removeprefix(">-")) for found in RULE.finditer(FILE)]
METRIC = re.compile(r"\b(?:sshwarma|process)_[a-z_]+|\bup\b")
LABEL = re.compile(r"(\w+)\s*=~?\s*\"([^\"]*)\"")
MADE_BY_PROMETHEUS = {"up", "job", "instance"}


@pytest.fixture(scope="module")
def page() -> Iterator[Scrape]:
    """A scrape of a server with a model and an MCP server."""
    model = Model(lambda asked: iter(()))
    with homes() as home:
        server = Server(
            home(),
            models=f"[{model.settings('qwen')}]".replace("'", '"'),
            mcp='[{"name": "missing", "command": ["/nosuch/program"]}]',
            backup__every="1d",
        )
        wait_until(lambda: '"backup"' in server.log() or "backup  " in server.log())
        yield scrape(server)
        server.stop()
    model.close()


def test_file_has_alerts_that_say_what_to_do() -> None:
    assert len(RULES) == FILE.count("- alert:") >= 5


@pytest.mark.parametrize(("alert", "expr"), RULES, ids=[name for name, _ in RULES])
def test_expression_refers_to_metrics_and_labels_that_exist(
    alert: str, expr: str, page: Scrape
) -> None:
    names = set(METRIC.findall(expr))
    assert names, alert
    assert names <= page.names() | MADE_BY_PROMETHEUS
    for label, values in LABEL.findall(expr):
        if label not in MADE_BY_PROMETHEUS:
            assert set(values.split("|")) <= page.label_values(), label
    used = {word for by in re.findall(r"by \(([^)]*)\)", expr) for word in by.split(", ")}
    assert used <= page.label_names() | MADE_BY_PROMETHEUS
    assert expr.count("(") == expr.count(")")


def test_metrics_of_the_page_exist(page: Scrape) -> None:
    text = (TOP / "docs" / "operating.md").read_text("utf-8")
    named = set(re.findall(r"`(sshwarma_[a-z_]+)`", text))
    assert len(named) > 15
    assert named <= page.names() | set(page.families)


def test_page_names_every_metric(page: Scrape) -> None:
    text = (TOP / "docs" / "operating.md").read_text("utf-8")
    endings = {"counter": "_total", "info": "_info"}
    own = {
        f"{name}{endings.get(family.type, '')}"
        for name, family in page.families.items()
        if name.startswith("sshwarma_") and not name.endswith("_created")
    }
    assert len(own) > 30
    assert [name for name in sorted(own) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", ["sshwarma_healthy", "sshwarma_scrape_failures_total"])
def test_alert_asks_for(name: str) -> None:
    assert [alert for alert, expr in RULES if name in expr]
