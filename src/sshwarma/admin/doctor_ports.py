"""The check of `sshwarma doctor`: can a start listen at the addresses?"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping, Sequence

from sshwarma.admin.bound_addresses import BoundAddress, find_obstacle, resolve_addresses
from sshwarma.admin.check_result import CheckResult
from sshwarma.settings import Settings, split_address


def check_ports(settings: Settings, running: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the addresses of ssh and http.

    Args:
        settings: whose addresses are checked, also one against the other.
        running: `listen` and `http` of the running server, or nothing. An address that it has
            already is not reported, unless a restart could not listen there.
    """
    ssh, http = settings.ssh.listen, settings.http.listen
    used = {"ssh": running.get("listen", "off"), "http": running.get("http", "off")}
    if running and "http" not in running:  # of an older server, which does not say it
        used["http"] = http
    own = [address for label in used for address in _resolve_own(label, used[label])]
    of_ssh: Sequence[BoundAddress] = ()
    for label, text, flag in (("ssh", ssh, "--listen"), ("http", http, "--http")):
        if text == "off":
            continue
        name = f"{label} port"
        other = f"choose another: {label}.listen in the settings, or serve {flag} HOST:PORT"
        try:
            addresses = resolve_addresses(label, text)
        except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
            reason = getattr(error, "strerror", None) or str(error)
            yield CheckResult(name, False, f"{text}: {reason}", other)
            continue
        if any(one.clashes_with(taken) for one in addresses for taken in of_ssh):
            detail = f"{text} cannot be used beside {ssh}, the address of ssh"
            yield CheckResult(name, False, detail, other)
            continue
        of_ssh = addresses
        if text in used.values():
            continue
        if (obstacle := find_obstacle(addresses, own)) is not None:
            detail = f"{text}: {obstacle.strerror}"
            yield CheckResult(name, False, detail, _advise(obstacle, other))
            continue
        is_own = any(address.port == split_address(text)[1] for address in own)
        state = ", whose port the running server has" if is_own else " is free"
        yield CheckResult(name, True, f"{text}{state}")


def _advise(error: OSError, other: str) -> str:
    """Return the remedy of an address that nobody can listen on."""
    if error.errno == errno.EADDRINUSE:
        return f"stop the process that uses it, or {other}"
    if error.errno == errno.EACCES:
        return (
            "ports below 1024 need AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit;"
            f" or {other}"
        )
    return other


def _resolve_own(label: str, text: str) -> Sequence[BoundAddress]:
    """Return the addresses that the running server has at ports that were given."""
    if text == "off":
        return ()
    with contextlib.suppress(OSError):
        return [address for address in resolve_addresses(label, text) if address.port != 0]
    return ()
