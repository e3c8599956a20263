"""What the settings of a server open to a whole network, in its log."""

from __future__ import annotations

import structlog

from sshwarma.settings import Settings, is_loopback, split_address

log = structlog.get_logger(__name__)


def log_exposure(settings: Settings) -> None:
    """Log what is open to everybody who reaches the server, one line each.

    `sshwarma doctor` says the same; a server is often started without it.
    """
    registration, listen = settings.registration, settings.ssh.listen
    if registration.mode == "open" and not is_loopback(split_address(listen)[0]):
        tell = log.error if registration.role == "admin" else log.warning
        tell(
            "anyone who reaches the server may register",
            role=registration.role,
            listen=listen,
            hint='mode = "invite" under [registration] lets in those with a code'
            if registration.role != "admin"
            else 'set role = "member" under [registration]',
        )
    listen = settings.http.listen
    is_local = listen == "off" or is_loopback(split_address(listen)[0])
    if not is_local and not settings.http.public_url.startswith("https://"):
        log.warning(
            "http has no TLS: tokens cross the network in plain text",
            listen=listen,
            hint="listen on 127.0.0.1 behind a proxy with TLS, and set http.public_url",
        )
