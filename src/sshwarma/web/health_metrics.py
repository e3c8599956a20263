"""The Prometheus metric of the verdict of /healthz."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from sshwarma.world.draining import Draining
from sshwarma.world.errors import WorldError
from sshwarma.world.write_check import WriteCheck


class HealthMetricsCollector(Collector):
    """Collector of whether the world can be written to; `refresh` tries it.

    It shares the check with /healthz, so that both say the same and one write serves both.
    """

    def __init__(self, check: WriteCheck, draining: Draining) -> None:
        self._check = check
        self._draining = draining
        self._is_healthy = False

    async def refresh(self) -> None:
        """Try a write, as /healthz does; one that does not end in time is a failure, too."""
        is_healthy = False
        try:
            await self._check.run()
            is_healthy = True
        except WorldError:  # the verdict is the value; /healthz has the reason
            pass
        finally:
            self._is_healthy = is_healthy

    @override
    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "sshwarma_healthy",
            "Whether the world can be written to, as /healthz says: 1 or 0.",
            int(self._is_healthy),
        )
        yield GaugeMetricFamily(
            "sshwarma_draining",
            "Whether the server is about to end by a drain, for which /healthz fails: 1 or 0.",
            int(self._draining.is_on),
        )
