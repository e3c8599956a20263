"""Counters of what limits refused, for the metrics, since the process began.

Each place that refuses counts here, because the limits are spread over all layers. Connections of
ssh are counted by their server instead.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Literal, TypeAlias

RefusedBy: TypeAlias = Literal[
    "answers_per_room",
    "api_requests",
    "console_tabs",
    "console_terminals",
    "event_streams",
    "hook_posts",
    "http_body_timeout",
    "http_address",
    "http_connections",
    "http_head_timeout",
    "http_write_timeout",
    "http_place_taken",
    "lines",
    "mcp_client_calls",
    "mcp_client_requests",
    "mcp_requests",
    "mcp_server_calls",
    "registrations",
    "reports",
    "scripts",
    "searches",
    "sftp_handles",
    "ssh_channels",
    "files",
    "text",
    "writes",
]
"""The limits, as labels of the metrics."""

_counts: Counter[RefusedBy] = Counter()
_lock = Lock()  # the thread of the writer refuses, too


def count_refusal(limit: RefusedBy) -> None:
    """Count one request that was refused because of a limit."""
    with _lock:
        _counts[limit] += 1


def read_refusals() -> dict[RefusedBy, int]:
    """Return the number of refusals by limit."""
    with _lock:
        return dict(_counts)
