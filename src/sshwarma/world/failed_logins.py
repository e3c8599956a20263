"""Failed logins at all doors: counted, and recorded in the audit within limits."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import (
    MAX_FAILURES_OF_STRANGERS,
    MAX_FAILURES_PER_ADDRESS,
    MAX_FAILURES_PER_TOKEN_OWNER,
    MAX_FAILURES_WITH_OFFERED_KEYS,
)
from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.common.units import HOUR_SECONDS
from sshwarma.world.audit import FAILED_LOGIN, Origin, record_change
from sshwarma.world.doors import Door
from sshwarma.world.store import Store

log = structlog.get_logger(__name__)

FAILURE_WINDOW_SECONDS: Final = HOUR_SECONDS
MAX_COUNTED_KEYS: Final = 10_000
"""Addresses, or agents, whose failures are remembered."""


class FailedLogins:
    """Records failed logins, without delaying them.

    Strangers share limits. A refused token proves whose it is, and has the limit of its owner. A
    key that ssh refuses was only offered: everybody may know the public key of somebody else.
    Those have limits of their own, for each address, so that no flood of strangers hides them, nor
    somebody else who offers the same key. Where a limit is reached, one row says so.

    Attributes:
        counts: failed logins that no other part counts, by door.
    """

    def __init__(self, store: Store) -> None:
        self.counts: Counter[Door] = Counter()
        self._store = store
        self._tasks = BackgroundTasks()
        window = partial(SlidingWindow, seconds=FAILURE_WINDOW_SECONDS, max_keys=MAX_COUNTED_KEYS)
        self._by_token_owner = window(MAX_FAILURES_PER_TOKEN_OWNER)
        self._by_offer = window(MAX_FAILURES_PER_ADDRESS)
        self._of_offers = window(MAX_FAILURES_WITH_OFFERED_KEYS)
        self._by_address = window(MAX_FAILURES_PER_ADDRESS)
        self._of_strangers = window(MAX_FAILURES_OF_STRANGERS)
        self._notices = window(1)

    def count(self, door: Door) -> None:
        """Count a failed login for the metrics."""
        self.counts[door] += 1

    def record(self, door: Door, reason: str, origin: Origin, agent_id: str | None = None) -> bool:
        """Record a failed login, if a limit permits it.

        Args:
            door: where it was tried.
            reason: why it was refused.
            origin: where it came from.
            agent_id: whose token it was, or whose key was offered; None if nobody's.

        Returns:
            Whether it was recorded.
        """
        if agent_id is None:
            limits = [
                (self._by_address, origin.address, "from this address"),
                (self._of_strangers, "", "with unknown keys and tokens"),
            ]
        elif door == "ssh":
            limits = [
                (self._by_offer, f"{agent_id} {origin.address}", "for this agent and address"),
                (self._of_offers, "", "with keys that agents have"),
            ]
        else:
            limits = [(self._by_token_owner, agent_id, "with tokens of this agent")]
        is_notice = False
        for window, key, whose in limits:
            if window.hit(key) > 0:
                if self._notices.hit(f"{whose} {key}") > 0:
                    return False
                reason, is_notice = f"more failed logins {whose} are not recorded", True
        if is_notice:
            log.warning("failed logins are not recorded", address=origin.address, reason=reason)
        self._tasks.spawn(
            self._store.write(
                lambda tx: record_change(
                    tx,
                    door=door,
                    verb=FAILED_LOGIN,
                    request=reason,
                    agent_id=agent_id,
                    origin=origin,
                ),
                may_postpone=True,
            ),
            name="failed login",
            failed="a failed login was not recorded in the audit",
        )
        return not is_notice

    async def close(self) -> None:
        """Wait until everything is stored."""
        await self._tasks.join()
