"""A scrape of a running server, as Prometheus reads it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from support.driver.server import Server


class Scrape:
    """The families of one scrape, by name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {
            family.name: family for family in text_string_to_metric_families(text)
        }

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the one sample with that name and these labels."""
        (found,) = [
            sample.value
            for sample in self._samples()
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return float(found)

    def values_by(self, name: str, label: str) -> dict[str, float]:
        """Return the values of the samples with that name, by one label."""
        return {s.labels[label]: float(s.value) for s in self._samples() if s.name == name}

    def names(self) -> set[str]:
        """Return the names of all samples, with their endings."""
        return {sample.name for sample in self._samples()}

    def label_values(self) -> set[str]:
        """Return all values of labels of the program's own families."""
        return {
            value
            for sample in self._samples()
            if sample.name.startswith("sshwarma_")
            for value in sample.labels.values()
        }

    def label_names(self) -> set[str]:
        """Return the names of all labels."""
        return {label for sample in self._samples() for label in sample.labels}

    def _samples(self) -> Iterator[Any]:
        return (sample for family in self.families.values() for sample in family.samples)


def scrape(server: Server) -> Scrape:
    """Scrape /metrics."""
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=30) as answer:
        return Scrape(answer.read().decode())
