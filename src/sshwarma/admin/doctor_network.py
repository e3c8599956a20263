"""The checks of `sshwarma doctor` that concern addresses, and who may come in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from sshwarma.admin import control_client, data_dir_lock
from sshwarma.admin.check_result import CheckResult, warn
from sshwarma.admin.doctor_ports import check_ports
from sshwarma.settings import Settings, is_loopback, split_address
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.reader import PERSON

ANSWER_SECONDS: Final = 5.0
"""Seconds that a running server has to answer."""

RunningFacts: TypeAlias = Mapping[str, str]
"""Who may register at a running server, and where it listens."""


def check_network(settings: Settings, *, has_file: bool) -> Iterator[CheckResult]:
    """Check the server, its addresses, and who may register.

    `has_file` is whether the settings are from a file. Those of one that a running server does not
    have yet are checked, too; a command without the file knows only defaults.
    """
    facts: RunningFacts | None = None
    if data_dir_lock.is_in_use(settings.data_dir):
        result, facts = _ask_server(settings)
        yield result
        if facts is not None and has_file:
            yield from check_ports(settings, facts)
    else:
        yield CheckResult("server", True, "not running")
        yield from check_ports(settings, {})
    yield _check_registration(settings, facts)
    if facts is not None and has_file and facts.items() - _read_facts(settings).items():
        yield _check_registration(settings, None)
    yield from _check_http(settings)


def _ask_server(settings: Settings) -> tuple[CheckResult, RunningFacts | None]:
    """Ask a running server for its registration."""
    request = control_client.send_request(
        settings.data_dir, "registration_show", {}, ANSWER_SECONDS
    )
    try:
        return CheckResult("server", True, "running"), asyncio.run(request)
    except Unavailable as error:
        return CheckResult("server", False, error.message, error.hint_for(PERSON)), None
    except (FileNotFoundError, ConnectionRefusedError):
        if not data_dir_lock.is_served(settings.data_dir):  # it starts or stops
            return CheckResult("server", True, "running"), None
        detail = f"running, but {settings.data_dir / control_client.SOCKET_NAME} is gone"
        remedy = "it is made again within seconds; if it is not, restart the server"
        return CheckResult("server", False, detail, remedy), None
    except (OSError, ValueError, WorldError):  # it starts, stops, or is older
        return CheckResult("server", True, "running"), None


def _check_registration(settings: Settings, running: RunningFacts | None) -> CheckResult:
    """Check who may register: by the running server, or else by the settings."""
    facts = running or _read_facts(settings)
    mode, role, host = facts["mode"], facts["role"], split_address(facts["listen"])[0]
    source = "the running server" if running else "the settings"
    detail = f"{mode} in {source}, listening on {host}"
    if mode != "open" or is_loopback(host):
        return CheckResult("registration", True, detail)
    detail += f": anyone who reaches it may register as {role}"
    if role == "admin":
        return CheckResult(
            "registration", False, detail, 'set role = "member" under [registration]'
        )
    return warn(
        "registration", detail, 'if that is not meant, set mode = "invite" under [registration]'
    )


def _read_facts(settings: Settings) -> RunningFacts:
    """Return of settings what `_ask_server` returns of a server."""
    return {
        "mode": settings.registration.mode,
        "role": settings.registration.role,
        "listen": settings.ssh.listen,
        "http": settings.http.listen,
    }


def _check_http(settings: Settings) -> Iterator[CheckResult]:
    """Warn of tokens that would cross a network in plain text."""
    listen, public_url = settings.http.listen, settings.http.public_url
    if listen == "off" or is_loopback(split_address(listen)[0]):
        return
    if public_url.startswith("https://"):
        yield CheckResult("http", True, f"{listen}, behind {public_url}")
        return
    yield warn(
        "http",
        f"{listen} has no TLS: tokens cross the network in plain text",
        'listen on 127.0.0.1 behind a proxy with TLS, and set http.public_url = "https://..."',
    )
