"""The counting behind the door, with a clock in hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sshwarma.settings import SshSettings
from sshwarma.ssh.transport.admission import (
    MAX_REMEMBERED_ADDRESSES,
    Admission,
    AdmissionLimits,
    AdmissionRefused,
    AdmissionTicket,
    LogThrottle,
)
from sshwarma.ssh.transport.interfaces import Rejected
from support.waiting import Clock


class Book(Admission):
    """An admission that keeps who was dropped."""

    def __init__(self, **limits: Any) -> None:
        self.clock = Clock()
        self.dropped: list[str] = []
        super().__init__(replace(AdmissionLimits(), **limits), self.clock)

    def knock(self, address: str = "192.0.2.1") -> AdmissionTicket:
        return self.admit(address, lambda: self.dropped.append(address))

    def refused(self, address: str = "192.0.2.1") -> str:
        with pytest.raises(AdmissionRefused) as no:
            self.knock(address)
        return no.value.reason


def test_connection_over_each_limit_is_refused_by_name() -> None:
    book = Book(max_pending_per_address=2, max_pending=3, max_connections_per_address=2)
    book.knock(), book.knock()
    assert book.refused() == "connections_per_address"
    book.knock("192.0.2.2")
    assert book.refused("192.0.2.3") == "pending"
    assert Book(max_connections=0).refused() == "connections"


def test_oldest_silent_connection_is_dropped_first() -> None:
    book = Book(max_pending=2)
    talking, silent = book.knock("192.0.2.1"), book.knock("192.0.2.2")
    talking.has_sent_bytes = True
    assert book.refused("192.0.2.3") == "pending"
    book.clock.now += 0.3
    book.knock("192.0.2.3").has_sent_bytes = True
    assert book.dropped == ["192.0.2.2"]
    assert book.refused("192.0.2.4") == "pending"
    book.clock.now += 2
    book.knock("192.0.2.4")
    assert book.dropped == ["192.0.2.2", "192.0.2.1"]
    book.leave(silent)
    book.leave(talking)
    assert book.pending == 2


def test_lockout_grows_with_failures_and_decays() -> None:
    book = Book(max_free_failures=3, failure_half_life_seconds=1e9, max_lockout_seconds=60)
    shut = []
    for _ in range(12):
        ticket = book.knock()
        book.count_failure(ticket)
        book.leave(ticket)
        start = book.clock.now
        while True:
            try:
                book.leave(book.knock())
                break
            except AdmissionRefused as no:
                assert no.reason == "failures"
                book.clock.now += 1
        shut.append(round(book.clock.now - start))
    assert shut == [0, 0, 0, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    book.knock("192.0.2.9")

    mild = Book(max_free_failures=3, failure_half_life_seconds=60)
    for _ in range(50):
        ticket = mild.knock()
        mild.count_failure(ticket)
        mild.leave(ticket)
        mild.clock.now += 60


def test_connections_per_key_are_limited() -> None:
    book = Book(max_connections_per_key=1)
    first, second = book.knock(), book.knock()
    book.promote(first, "SHA256:a")
    with pytest.raises(Rejected, match=r"already has 1 connections \(the limit\)"):
        book.promote(second, "SHA256:a")
    book.leave(first)
    book.leave(first)
    book.promote(second, "SHA256:a")
    assert (book.pending, book.connections) == (0, 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_addresses_of_one_network_count_as_one(one: str, other: str, same: bool) -> None:
    book = Book(max_connections_per_address=1)
    book.knock(one)
    if same:
        assert book.refused(other) == "connections_per_address"
    else:
        book.knock(other)


@pytest.mark.parametrize("loopback", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_exempt_only_if_configured(loopback: str) -> None:
    assert [Book(max_pending_per_address=1, exempt_loopback=True).knock(loopback)]
    spared = Book(max_pending_per_address=1, exempt_loopback=True)
    spared.knock(loopback), spared.knock(loopback)
    counted = Book(max_pending_per_address=1)
    counted.knock(loopback)
    assert counted.refused(loopback) == "pending_per_address"


def test_remembered_addresses_are_bounded() -> None:
    book = Book()
    for number in range(3 * MAX_REMEMBERED_ADDRESSES):
        ticket = book.knock(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        book.count_failure(ticket)
        book.leave(ticket)
    assert len(book._addresses) <= MAX_REMEMBERED_ADDRESSES


def test_log_throttle_logs_once_per_window_and_counts_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    log = LogThrottle(10, clock)
    for _ in range(500):
        log.note("ssh.refused", "pending")
    log.note("ssh.refused", "failures")
    assert capsys.readouterr().out.count("ssh.refused") == 2
    clock.now += 10
    log.note("ssh.refused", "pending")
    assert "not_logged_before=499" in capsys.readouterr().out


def test_limit_defaults_equal_the_settings() -> None:
    assert AdmissionLimits() == AdmissionLimits.from_settings(SshSettings())
    assert AdmissionLimits().max_free_failures == SshSettings().free_failed_logins == 10
    assert AdmissionLimits().max_pending_per_address == SshSettings().max_pending_per_address == 50


def test_every_ssh_setting_changes_the_limits() -> None:
    for name in SshSettings.model_fields.keys() - {"listen"}:
        default = getattr(SshSettings(), name)
        other = (
            ("10.0.0.5/32",) if default == () else not default if default is True else default + 1
        )
        changed = SshSettings(**{name: other})
        assert AdmissionLimits.from_settings(changed) != AdmissionLimits(), name
