"""States of a server's connection, and the intervals and timeouts between them.

new -> connecting -> up <-> degraded
           ^           |
           |           v
           +--------- down (waits 1, 2, 4 ... 60 s)        needs-key, needs-sign-in
                                                           (wait for a person)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sshwarma.common.limits import MAX_RECONNECT_SECONDS, MIN_RECONNECT_SECONDS

ServerState = Literal[
    "new", "connecting", "up", "degraded", "down", "needs-key", "needs-sign-in", "stopped"
]

LOCKED_OUT_STATES: Final = ("needs-key", "needs-sign-in")
"""States that only a person can resolve."""


@dataclass(frozen=True, slots=True)
class SupervisorTiming:
    """Intervals and timeouts of a supervisor, in seconds, and counts of failures."""

    probe: float = 30.0
    probe_timeout: float = 10.0
    refresh: float = 300.0
    debounce_seconds: float = 1.0  # delay between a change notification and reading the listing
    first_retry_seconds: float = MIN_RECONNECT_SECONDS
    max_retry_seconds: float = MAX_RECONNECT_SECONDS
    stable_seconds: float = 30.0  # uptime after which the backoff restarts at first_retry_seconds
    port_check_seconds: float = 2.0  # interval of port checks while the server's port is closed
    max_failed_probes: int = 3  # in a row; then the connection is closed
    max_timed_out_calls: int = 3  # in a row; then the connection is probed
